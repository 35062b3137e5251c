"""One command on many machines, and what is in force on each: through the door and at the command line."""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from integration.fleet.machines import ASKING, OPEN, Machine, enrol, until_settled, until_status
from integration.http.served import Served, served

pytestmark = pytest.mark.slow
PATIENCE_S = 60.0


async def fabric(hub: Served, folder: Path, *words: str) -> tuple[int, str, str]:
    """Run a command of the command line; return its exit code and what it wrote."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "agent_fabric", "nodes", words[0], "--server", str(hub.client.base_url), *words[1:]),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        cwd=folder,
        env={**os.environ, "FABRIC_TOKEN": hub.token},
    )
    async with asyncio.timeout(PATIENCE_S):
        out, err = await process.communicate()
    return process.returncode or 0, out.decode(), err.decode()


async def sent(hub: Served, **wish: Any) -> dict[str, dict[str, Any]]:
    """Send a command to many machines; return what came of it by name."""
    answer = await hub.client.post("/api/v1/nodes/execute", json={"tool_name": "run_command", **wish})
    assert answer.status_code == 200, answer.text
    return {each["node"]: each for each in answer.json()["outcomes"]}


@pytest.mark.proves("FL-9", "FL-16", "FL-22", "FL-23")
async def test_one_command_goes_to_many_machines_and_each_answers_for_itself(tmp_path: Path) -> None:
    async with served(tmp_path) as hub:
        machines: list[Machine] = []
        try:
            for name, floor in (("a-open", OPEN), ("b-asks", ASKING), ("c-away", ASKING)):
                made = await enrol(hub.client, tmp_path / name, name, floor, labels={"role": "web"})
                machines.append(made)
            for made in machines[:2]:
                made.start()
                await until_status(hub.client, made.name, "online")
            open_hub = {"profile": "open"}
            assert (await hub.client.put("/api/v1/nodes/a-open/policy", json=open_hub)).status_code == 200
            await at_the_door(hub, tmp_path)
            await at_the_command_line(hub, tmp_path)
            await what_is_in_force(hub, tmp_path)
        finally:
            for made in machines:
                made.kill()


async def at_the_door(hub: Served, folder: Path) -> None:
    made = folder / "made"
    wish = {"selector": "role=web", "arguments": {"command": f"echo x >> {made}"}}
    told = await sent(hub, **wish, dry_run=True)
    assert [each["asked"]["status"] for each in told.values()] == ["allow", "ask", "ask"]
    assert not made.exists()
    told = await sent(hub, **wish)
    assert told["a-open"]["command"]["status"] == "success"
    assert told["c-away"]["problem"]["code"] == "node_unavailable"
    assert "last seen" in told["c-away"]["problem"]["message"]
    asked = told["b-asks"]["asked"]
    assert asked["status"] == "waiting"
    assert made.read_text() == "x\n"
    await hub.client.post(f"/approvals/{asked['approval_id']}", json={"decision": "approve"})
    assert (await until_settled(hub.client, "b-asks", asked["execution_id"]))["status"] == "success"
    assert made.read_text() == "x\nx\n"
    queued = await sent(hub, selector="c-away", arguments={"command": "uptime"}, queue=True)
    assert queued["c-away"]["asked"]["status"] == "queued"
    nobody = {"tool_name": "run_command", "selector": "role=db", "arguments": {"command": "uptime"}}
    assert (await hub.client.post("/api/v1/nodes/execute", json=nobody)).status_code == 404


async def at_the_command_line(hub: Served, folder: Path) -> None:
    code, out, err = await fabric(hub, folder, "exec", "role=web", "--", "uname", "-s")
    assert (code, out) == (1, "a-open: Linux\nb-asks: Linux\n"), err
    assert "c-away" in err
    code, out, _ = await fabric(hub, folder, "exec", "b-asks", "--", "uname -s")
    assert (code, out) == (0, "Linux\n")
    code, out, _ = await fabric(hub, folder, "exec", "b-asks", "--json", "--", "touch", "/srv/x")
    assert code == 3
    assert json.loads(out)[0]["approval_id"]
    code, _, err = await fabric(hub, folder, "exec", "role=db", "--", "uptime")
    assert code == 2, err
    assert "No machine fits" in err


async def what_is_in_force(hub: Served, folder: Path) -> None:
    document = {"rules": [{"id": "restart", "verdict": "allow", "commands": ["systemctl restart nginx"]}]}
    assert (await hub.client.put("/api/v1/nodes/b-asks/policy", json=document)).status_code == 200
    told = (await hub.client.get("/api/v1/nodes/b-asks/policy")).json()
    (rule,) = told["rules"]
    assert (rule["id"], rule["source"], rule["effective"]) == ("restart", "hub", False)
    assert rule["note"].startswith("the node's own file asks about it")
    assert (told["otherwise"], told["otherwise_by"]) == ("node", ["floor", "hub"])
    body = {"tool_name": "run_command", "arguments": {"command": "systemctl restart nginx"}}
    checked = (await hub.client.post("/api/v1/nodes/b-asks/policy/check", json=body)).json()
    assert checked["verdict"] == "ask"
    assert {(each["source"], each["verdict"]) for each in checked["said"]} == {("floor", "ask"), ("hub", "allow")}
    code, out, _ = await fabric(hub, folder, "policy", "b-asks")
    assert code == 0
    assert "allow  systemctl restart nginx  [hub, restart]  no effect: the node's own file asks" in out
    _, out, _ = await fabric(hub, folder, "policy", "b-asks", "--check", "systemctl restart nginx")
    assert out.startswith("ask: ")
    assert "* ask" in out
