"""A plan on a dozen machines that are processes: halted in the middle, and the hub killed in the middle of a wave."""

import asyncio
import time
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import pytest

from e2e.fabric_process import Fabric, settings
from e2e.server_process import Serving, serving
from integration.fleet.light_nodes import light_processes

pytestmark = pytest.mark.slow

MACHINES = 12
WAVES = [1, 2, 9]
"""How many machines are in each wave: the canary, a quarter, all."""
COMMAND_S = 0.8
"""How long a machine takes: a halt, or a kill, falls into this time."""
HALT_S = 1.0
"""After this nothing is dispatched any more (FL-24)."""
PATIENCE_S = 60.0


class Line(NamedTuple):
    """What a machine has noted when it was told to execute something."""

    node: str
    at: float


def lines(witness: Path) -> list[Line]:
    text = witness.read_text() if witness.exists() else ""
    return [Line(name, float(at)) for name, at in map(str.split, text.splitlines())]


async def until_lines(witness: Path, count: int) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while len(lines(witness)) < count:
            await asyncio.sleep(0.01)


async def until_online(client: httpx2.AsyncClient) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while True:
            found = (await client.get("/api/v1/nodes")).json()["nodes"]
            if sum(node["status"] == "online" for node in found) == MACHINES:
                return
            await asyncio.sleep(0.05)


async def begin(client: httpx2.AsyncClient) -> dict[str, Any]:
    """Freeze a plan for all machines, and approve it."""
    wish = {"selector": "all", "arguments": {"command": "touch x"}, "canary": 1, "waves": ["25%", "100%"]}
    frozen: dict[str, Any] = (await client.post("/api/v1/fleet/plans", json=wish)).json()
    counted = Counter(call["wave"] for call in frozen["calls"])
    assert [counted[wave] for wave in sorted(counted)] == WAVES, frozen
    asked = await client.post(f"/api/v1/fleet/plans/{frozen['id']}/apply")
    if approval := asked.json().get("approval_id"):
        await client.post(f"/approvals/{approval}", json={"decision": "approve"})
    return frozen


async def halt_and_resume(hub: Serving, plan: dict[str, Any], witness: Path) -> None:
    """Halt the plan while its second wave is under way; resume it once it is clear that nothing follows."""
    await until_lines(witness, WAVES[0] + 1)
    halted = await hub.client.post(f"/api/v1/fleet/plans/{plan['id']}/halt")
    since = time.time()
    assert halted.json()["status"] == "halted", halted.text
    await asyncio.sleep(HALT_S + 2 * COMMAND_S)
    seen = lines(witness)
    assert len(seen) <= WAVES[0] + WAVES[1], seen
    assert max(line.at for line in seen) < since + HALT_S
    resumed = await hub.client.post(f"/api/v1/fleet/plans/{plan['id']}/resume")
    assert resumed.status_code == 200, resumed.text


async def until_ended(client: httpx2.AsyncClient, plan: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    async with asyncio.timeout(PATIENCE_S):
        while found.get("status") not in {"completed", "halted"}:
            await asyncio.sleep(0.05)
            found = (await client.get(f"/api/v1/fleet/plans/{plan['id']}")).json()
    return found


@pytest.mark.proves("FL-24", "FL-21")
async def test_a_halt_stops_dispatch_and_a_killed_hub_goes_on_in_the_same_wave(tmp_path: Path) -> None:
    fabric, witness = Fabric(tmp_path, settings("http://127.0.0.1:9/v1")), tmp_path / "witness"
    async with serving(fabric) as hub:
        token = (await hub.client.post("/api/v1/nodes/invites", json={"uses": MACHINES})).json()["token"]
        options = ("--witness", str(witness), "--pause-s", str(COMMAND_S))
        async with light_processes(hub.url, MACHINES, token, *options):
            await until_online(hub.client)
            plan = await begin(hub.client)
            await halt_and_resume(hub, plan, witness)
            await until_lines(witness, sum(WAVES[:2]) + 1)
            before = (await hub.client.get(f"/api/v1/fleet/plans/{plan['id']}")).json()
            await hub.kill()
            async with serving(fabric, "--port", str(hub.port)) as again:
                ended = await until_ended(again.client, plan)
    assert (before["status"], before["wave"]) == ("running", len(WAVES) - 1)
    names = [call["node"] for call in plan["calls"]]
    assert (ended["status"], ended["outcomes"]) == ("completed", dict.fromkeys(names, "success"))
    seen = lines(witness)
    assert Counter(line.node for line in seen) == Counter(names), "each machine has done it once"
    wave_of = {call["node"]: call["wave"] for call in plan["calls"]}
    assert [wave_of[line.node] for line in seen] == sorted(wave_of.values()), (
        "no wave begins before the one before it ends"
    )
