"""Files, long outputs and tool servers of a real machine, through a real hub."""

import asyncio
import json
import sys
from base64 import b64decode
from pathlib import Path
from typing import Any

import pytest

from agent_fabric.testing.scripted_model import Answer, Call, Say
from e2e.fabric_process import Fabric, settings
from integration.fleet.machines import approved, enrol, execute, put_and_get, until_status
from integration.http.served import PATIENCE_S, Served, served
from integration.http.test_sessions import answered, new_session, say

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


def adding(request: dict[str, Any], _: int) -> Answer:
    """Call the tool of the machine under the name that is offered; then say what came."""
    last = request["messages"][-1]
    if last["role"] == "tool":
        return Say(f"it is {json.loads(last['content'])['text']}")
    (name,) = [each["function"]["name"] for each in request["tools"] if each["function"]["name"].endswith("add")]
    assert name == "web_calc_add"
    return Call(name, {})


@pytest.mark.proves("FL-11", "FL-13", "FL-14", "C18", "FC-012", "FC-013", "FC-061")
async def test_a_machine_takes_files_gives_files_and_long_outputs_and_asks_its_tool_servers(tmp_path: Path) -> None:
    async with served(tmp_path, adding) as hub:
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
            await stay_below_roots(hub, root)
            await fetch_long_output(hub)
            await ask_tool_server(hub)
            await let_an_agent_ask_it(hub)
            await use_the_terminal(hub, tmp_path)
        finally:
            machine.kill()


async def stay_below_roots(hub: Served, root: Path) -> None:
    """A command that only reads runs below the roots of the machine's own file, and asks elsewhere."""
    (root / "a.txt").write_text("below\n")
    inside = (await execute(hub.client, "web", f"cat < {root}/a.txt")).json()
    assert inside["result"]["stdout"] == "below\n", inside
    for command in ("cat /etc/hosts", "cat < /etc/hosts", f"cat {root}/../x", "cat $X", "cat hosts"):
        asked = await execute(hub.client, "web", command)
        assert asked.status_code == 202, (command, asked.text)
    body = {"tool_name": "run_command", "arguments": {"command": "cat /etc/hosts"}}
    why = (await hub.client.post("/api/v1/nodes/web/policy/check", json=body)).json()
    assert (why["verdict"], why["rule"]) == ("ask", "outside_roots")
    assert [each["source"] for each in why["said"] if each["rule"] == "outside_roots"] == ["floor"]
    shown = (await hub.client.get("/api/v1/nodes/web/policy")).json()["rules"]
    assert [each["about"] for each in shown if each["id"] == "outside_roots"] == [[str(root)]]


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
    told = (await hub.client.get("/api/v1/nodes/web/tools")).json()
    assert [each["name"] for each in told["tools"]] == ["web.calc.add"], told
    called = await approved(hub.client, {"tool_name": "calc.add", "arguments": {}})
    assert called["tool_name"] == "mcp_proxy"
    assert called["result"]["output"]["result"]["content"][0]["text"] == "3"
    inner = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    body = {"tool_name": "mcp_proxy", "arguments": {"target_server": "calc", "inner_request": inner}}
    listed = (await hub.client.post("/api/v1/nodes/web/execute", json=body)).json()
    assert listed["result"]["output"]["result"]["tools"][0]["name"] == "add"


async def let_an_agent_ask_it(hub: Served) -> None:
    """A model is offered the tool under a name that its server takes; people see its true name."""
    session = await new_session(hub, node="web")
    sent = await say(hub, session, "what is one and two?")
    cards: list[dict[str, Any]] = []
    async with asyncio.timeout(PATIENCE_S):
        while not cards:
            cards = (await hub.client.get(f"/approvals?run_id={sent['run_id']}")).json()["approvals"]
            await asyncio.sleep(0.02)
    assert cards[0]["tool"] == "web.calc.add"
    decided = await hub.client.post(f"/approvals/{cards[0]['id']}", json={"decision": "approve"})
    assert decided.status_code == 200, decided.text
    assert "it is 3" in (await answered(hub, session, sent["run_id"]))["content"]


async def use_the_terminal(hub: Served, folder: Path) -> None:
    there = Fabric(
        folder / "there",
        settings(hub.model.base_url),
        {"FABRIC_TOKEN": hub.token},
        server=f"http://127.0.0.1:{hub.port}",
    )
    there.folder.mkdir()
    listed = await there("nodes", "tools", "web")
    assert listed.out.split() == ["web.calc.add", "Adds."], listed
    asked = await there("nodes", "call", "web", "calc.add", "{}")
    assert asked.code == 3, asked
    assert "fabric approvals approve" in asked.err
    unknown = await there("nodes", "call", "web", "calc.add", "[]")
    assert (unknown.code, "no JSON object" in unknown.err) == (2, True)
