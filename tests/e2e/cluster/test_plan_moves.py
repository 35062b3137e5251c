"""The hub moves to another server at every boundary of a plan: no machine is skipped that comes back in time."""

import asyncio
import random
import signal
from contextlib import AsyncExitStack
from pathlib import Path

import httpx2
import pytest

from agent_fabric.testing.scripted_model import Finish, Script
from cutting_proxy import run_proxy
from e2e.cluster.world import Member, world
from effort import effort, report
from integration.fleet.light_nodes import light_processes
from integration.fleet.rolled_plans import (
    PATIENCE_S,
    begin,
    cross_boundaries,
    lines,
    require_whole,
    until_ended,
    until_online,
)
from integration.http.served import TLS, bearer

SCRIPT = Script((Finish(summary="done", artifacts=[], next_steps=[], notes=""),))
LEASE_S = 3.0
WAVES = [1, 3, 4]
COMMAND_S = 0.3
AGAIN_S = 4.0
ROUNDS = effort(1, 10)


def port_of(member: Member) -> int:
    return int(member.url.rpartition(":")[2])


@pytest.mark.proves("WB-11", "FL-24")
async def test_a_hub_that_moves_at_every_boundary_of_a_plan_skips_no_machine(tmp_path: Path) -> None:
    witness, chance, moves = tmp_path / "witness", random.Random(11), 0
    async with AsyncExitStack() as stack:
        gate = stack.enter_context(run_proxy(0))
        hosts = [f"127.0.0.1:{gate.port}"]
        there = await stack.enter_async_context(
            world(tmp_path, SCRIPT, servers=2, doors=0, workers=0, ttl_s=LEASE_S, hosts=hosts)
        )
        old, new = there.servers

        async def client(url: str) -> httpx2.AsyncClient:
            made = httpx2.AsyncClient(base_url=url, timeout=PATIENCE_S, headers=bearer(there.token), verify=TLS)
            return await stack.enter_async_context(made)

        async def move(_: int) -> None:
            """End the server that machines are connected to; they find the other one at the same address."""
            nonlocal old, new, moves
            await asyncio.sleep(chance.uniform(0.0, 2 * COMMAND_S))
            await old.end(signal.SIGTERM if moves % 2 else signal.SIGKILL)
            gate.lead_to(port_of(new))
            gate.sever()
            await old.start()
            old, new, moves = new, old, moves + 1

        gate.lead_to(port_of(old))
        url = f"http://127.0.0.1:{gate.port}"
        invited = await (await client(url)).post("/api/v1/nodes/invites", json={"uses": sum(WAVES)})
        options = ("--witness", str(witness), "--pause-s", str(COMMAND_S), "--again-s", str(AGAIN_S))
        await stack.enter_async_context(light_processes(url, sum(WAVES), invited.json()["token"], *options))
        for number in range(ROUNDS):
            here = await client(old.url)
            await until_online(here, sum(WAVES))
            plan = await begin(here, WAVES)
            await cross_boundaries(witness, WAVES, move)
            ended = await until_ended(await client(old.url), plan)
            require_whole(ended, plan, lines(witness)[number * sum(WAVES) :])
    report("moves of a hub at the boundaries of a plan", moves)
