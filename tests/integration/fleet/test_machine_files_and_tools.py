"""Files, long outputs and tool servers of a real machine, through a real hub."""

import json
import sys
from base64 import b64decode
from pathlib import Path
from typing import Any

import pytest

from integration.fleet.machines import approved, enrol, execute, put_and_get, until_status
from integration.http.served import Served, served

pytestmark = pytest.mark.slow

SERVER = """
import json
import sys

for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    results = {
        "initialize": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "calc"}},
        "tools/list": {"tools": [{"name": "add", "description": "Adds.", "inputSchema": {"type": "object"}}]},
        "tools/call": {"content": [{"type": "text", "text": "3"}]},
    }
    answer = {"jsonrpc": "2.0", "id": asked["id"], "result": results[asked["method"]]}
    print(json.dumps(answer), flush=True)
"""


@pytest.mark.proves("FL-11", "FL-13", "FL-14", "FC-012", "FC-013", "FC-061")
async def test_a_machine_takes_files_gives_files_and_long_outputs_and_asks_its_tool_servers(tmp_path: Path) -> None:
    async with served(tmp_path) as hub:
        folder, root = tmp_path / "web", tmp_path / "srv"
        root.mkdir()
        floor = f'allow_root = true\nfile_transfer = true\nroots = ["{root}"]\n'
        machine = await enrol(hub.client, folder, "web", floor)
        script = tmp_path / "calc.py"
        script.write_text(SERVER)
        servers = {"calc": {"command": sys.executable, "args": [str(script)], "env": {"TOKEN": "hidden-value"}}}
        (folder / "mcp_config.json").write_text(json.dumps({"mcpServers": servers}))
        machine.start()
        try:
            found = await until_status(hub.client, "web", "online")
            assert found["reported"]["mcp_servers"] == [{"name": "calc", "transport": "stdio"}]
            assert "hidden-value" not in json.dumps(found)
            assert {"file_put", "file_get", "mcp_proxy"} <= set(found["supported_tools"])
            await put_and_get(hub.client, root)
            await fetch_long_output(hub)
            await ask_tool_server(hub)
        finally:
            machine.kill()


async def fetch_long_output(hub: Served) -> None:
    long = (await execute(hub.client, "web", "seq 1 100000")).json()
    assert long["result"]["truncated"]
    path, text = f"/api/v1/nodes/web/commands/{long['execution_id']}/output", b""
    while len(text) < long["result"]["bytes"]["stdout"]:
        part = (await hub.client.get(path, params={"offset": len(text)})).json()
        assert part["data"]
        text += b64decode(part["data"])
    assert text.decode().split() == [str(number) for number in range(1, 100_001)]


async def ask_tool_server(hub: Served) -> None:
    def body(request: dict[str, Any]) -> dict[str, Any]:
        inner = {"jsonrpc": "2.0", "id": 1, **request}
        return {"tool_name": "mcp_proxy", "arguments": {"target_server": "calc", "inner_request": inner}}

    listed = (await hub.client.post("/api/v1/nodes/web/execute", json=body({"method": "tools/list"}))).json()
    assert listed["result"]["output"]["result"]["tools"][0]["name"] == "add"
    called = await approved(hub.client, body({"method": "tools/call", "params": {"name": "add", "arguments": {}}}))
    assert called["result"]["output"]["result"]["content"][0]["text"] == "3"
