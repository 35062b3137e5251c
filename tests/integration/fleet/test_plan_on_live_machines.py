"""A plan on a dozen machines that are processes: halted in the middle, and the hub killed in the middle of a wave."""

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from e2e.fabric_process import Fabric, settings
from e2e.server_process import Serving, serving
from integration.fleet.light_nodes import light_processes
from integration.fleet.rolled_plans import begin, lines, require_whole, until_ended, until_lines, until_online

pytestmark = pytest.mark.slow

MACHINES = 12
WAVES = [1, 2, 9]
"""How many machines are in each wave: the canary, a quarter, all."""
COMMAND_S = 0.8
"""How long a machine takes: a halt, or a kill, falls into this time."""
HALT_S = 1.0
"""After this nothing is dispatched any more (FL-24)."""


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


@pytest.mark.proves("FL-24", "FL-21")
async def test_a_halt_stops_dispatch_and_a_killed_hub_goes_on_in_the_same_wave(tmp_path: Path) -> None:
    fabric, witness = Fabric(tmp_path, settings("http://127.0.0.1:9/v1")), tmp_path / "witness"
    async with serving(fabric) as hub:
        token = (await hub.client.post("/api/v1/nodes/invites", json={"uses": MACHINES})).json()["token"]
        options = ("--witness", str(witness), "--pause-s", str(COMMAND_S))
        async with light_processes(hub.url, MACHINES, token, *options):
            await until_online(hub.client, MACHINES)
            plan = await begin(hub.client, WAVES)
            await halt_and_resume(hub, plan, witness)
            await until_lines(witness, sum(WAVES[:2]) + 1)
            before = (await hub.client.get(f"/api/v1/fleet/plans/{plan['id']}")).json()
            await hub.kill()
            async with serving(fabric, "--port", str(hub.port)) as again:
                ended = await until_ended(again.client, plan)
    assert (before["status"], before["wave"]) == ("running", len(WAVES) - 1)
    require_whole(ended, plan, lines(witness))
