"""The hub is killed or restarted at every boundary of a plan: no machine is skipped that comes back in time."""

import asyncio
import random
import signal
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from e2e.fabric_process import Fabric, settings
from e2e.server_process import Serving, serving
from effort import SOAK, effort, report
from integration.fleet.light_nodes import LightNode, light_processes
from integration.fleet.rolled_plans import (
    begin,
    cross_boundaries,
    lines,
    require_whole,
    until_ended,
    until_lines,
    until_online,
)

pytestmark = pytest.mark.slow

WAVES = [1, 3, 4]
COMMAND_S = 0.3
AGAIN_S = 4.0
"""How long machines take at most to connect again: some are back while others are away."""
ROUNDS = effort(1, 15)
LATEST_S = 2 * COMMAND_S
"""How much later than the beginning of a wave's last command the hub ends: before, at and after the boundary."""


class RestartedHub:
    """A hub that is ended and started again at the same port."""

    def __init__(self, fabric: Fabric, stack: AsyncExitStack) -> None:
        self.fabric, self.stack = fabric, stack
        self.now: Serving | None = None
        self.ends = 0

    async def start(self, *options: str) -> Serving:
        self.now = await self.stack.enter_async_context(serving(self.fabric, *options))
        return self.now

    async def restart(self, number: int) -> None:
        """End it, every second time without a warning, and start it again."""
        assert self.now is not None
        if number == signal.SIGKILL:
            await self.now.kill()
        else:
            await self.now.stop(number)
        self.ends += 1
        await self.start("--port", str(self.now.port))


async def roll_out(hub: RestartedHub, witness: Path, chance: random.Random) -> tuple[dict[str, Any], dict[str, Any]]:
    """Roll a plan out, and end the hub at each boundary; return the plan as frozen and as it ended."""
    assert hub.now is not None
    await until_online(hub.now.client, sum(WAVES))
    plan = await begin(hub.now.client, WAVES)

    async def stop(_: int) -> None:
        await asyncio.sleep(chance.uniform(0.0, LATEST_S))
        await hub.restart(signal.SIGTERM if hub.ends % 2 else signal.SIGKILL)

    await cross_boundaries(witness, WAVES, stop)
    return plan, await until_ended(hub.now.client, plan)


@pytest.mark.proves("WB-11", "FL-24")
async def test_a_hub_that_ends_at_every_boundary_of_a_plan_skips_no_machine(tmp_path: Path) -> None:
    witness, seen, chance = tmp_path / "witness", 0, random.Random(11)
    async with AsyncExitStack() as stack:
        hub = RestartedHub(Fabric(tmp_path, settings("http://127.0.0.1:9/v1")), stack)
        first = await hub.start()
        token = (await first.client.post("/api/v1/nodes/invites", json={"uses": sum(WAVES)})).json()["token"]
        options = ("--witness", str(witness), "--pause-s", str(COMMAND_S), "--again-s", str(AGAIN_S))
        await stack.enter_async_context(light_processes(first.url, sum(WAVES), token, *options))
        for _ in range(ROUNDS):
            plan, ended = await roll_out(hub, witness, chance)
            require_whole(ended, plan, lines(witness)[seen:])
            seen += sum(WAVES)
    report("restarts of a hub at the boundaries of a plan", hub.ends)


@pytest.mark.proves("WB-11")
async def test_a_plan_with_a_machine_that_is_away_ends_incomplete_and_the_command_line_says_so(tmp_path: Path) -> None:
    fabric = Fabric(tmp_path, settings("http://127.0.0.1:9/v1"))
    async with serving(fabric) as hub:
        token = (await hub.client.post("/api/v1/nodes/invites", json={"uses": 2})).json()["token"]
        await LightNode(hub.url, token, "laptop").join(hub.client)
        async with light_processes(hub.url, 1, token):
            await until_online(hub.client, 1)
            plan = await begin(hub.client, [1, 1])
            await until_ended(hub.client, plan)  # it begins when its run has heard of the approval
            away = replace(fabric, server=hub.url)
            shown = await away("fleet", "show", plan["id"], "--wait")
            listed = await away("fleet", "list")
            alerts = (await hub.client.get("/api/v1/alerts")).json()["alerts"]
    assert (shown.code, shown.err) == (1, "")
    assert f"{plan['name']} is incomplete: 1 machine(s) were skipped: laptop\n" in shown.out
    assert "laptop skipped" in shown.out
    assert "  incomplete  wave 2/2" in listed.out
    assert [each["name"] for each in alerts if each["status"] == "firing" and "plan" in each["name"]] == [
        "plan-incomplete"
    ]


@pytest.mark.skipif(not SOAK, reason="it waits for a minute")
@pytest.mark.proves("WB-11")
async def test_a_machine_that_is_gone_for_good_halts_the_plan_after_a_minute(tmp_path: Path) -> None:
    fabric, witness = Fabric(tmp_path, settings("http://127.0.0.1:9/v1")), tmp_path / "witness"
    async with serving(fabric) as hub:
        token = (await hub.client.post("/api/v1/nodes/invites", json={"uses": 2})).json()["token"]
        async with light_processes(hub.url, 1, token, "--prefix", "first", "--witness", str(witness)):
            async with light_processes(hub.url, 1, token, "--prefix", "second"):
                await until_online(hub.client, 2)
                plan = await begin(hub.client, [1, 1], pause_s=5.0)
                await until_lines(witness, 1)
            ended = await until_ended(hub.client, plan)
    assert (ended["status"], ended["errors"], ended["skipped"]) == ("halted", 1, ["second-0000"])
