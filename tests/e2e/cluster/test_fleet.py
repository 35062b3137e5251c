"""Two servers with one fleet: whichever holds a machine's connection, the other one reaches it, and takes it over."""

import asyncio
import os
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from agent_fabric.testing.scripted_model import Finish, Script
from cutting_proxy import CuttingProxy, run_proxy
from e2e.cluster.world import Member, World, world
from integration.fleet.machines import (
    PATIENCE_S,
    Machine,
    enrol,
    execute,
    open_shell,
    put_and_get,
    read_until,
    typed,
    until_settled,
    until_status,
)
from integration.http.served import TLS, bearer

SCRIPT = Script((Finish(summary="done", artifacts=[], next_steps=[], notes=""),))
FLOOR = "allow_root = true\npty_support = true\nfile_transfer = true\n"
LEASE_S = 3.0
AT_ONCE_S = 5.0
"""Far below the half minute after which a connection looks by itself, also on a busy machine."""
MOVED_S = 20.0
"""A reconnect or two, and until it is clear that the old server does not answer."""
REVOKED = 4
"""How a machine ends that its hub has revoked."""


class Fleet:
    """Servers, and two machines: `web` behind a proxy that leads to the first of them, `db` at the second."""

    def __init__(self, there: World, gate: CuttingProxy, clients: list[httpx2.AsyncClient]) -> None:
        self.world = there
        self.gate = gate
        self.clients = clients
        self.machines: dict[str, Machine] = {}

    async def enrol(self, folder: Path, name: str, client: httpx2.AsyncClient) -> None:
        """Add a machine that connects to where the client does."""
        root = folder / f"{name}-files"
        root.mkdir()
        made = await enrol(client, folder / name, name, f'{FLOOR}roots = ["{root}"]\n', labels={"role": "all"})
        self.machines[name] = made
        made.start()
        for each in self.clients:
            await until_status(each, name, "online")


def port_of(member: Member) -> int:
    return int(member.url.rpartition(":")[2])


@asynccontextmanager
async def fleet(folder: Path) -> AsyncIterator[Fleet]:
    async with AsyncExitStack() as stack:
        gate = stack.enter_context(run_proxy(0))
        there = await stack.enter_async_context(
            world(folder, SCRIPT, servers=2, doors=0, workers=0, ttl_s=LEASE_S, hosts=[f"127.0.0.1:{gate.port}"])
        )
        gate.lead_to(port_of(there.servers[0]))

        async def client(url: str) -> httpx2.AsyncClient:
            made = httpx2.AsyncClient(base_url=url, timeout=PATIENCE_S, headers=bearer(there.token), verify=TLS)
            return await stack.enter_async_context(made)

        made = Fleet(there, gate, [await client(each.url) for each in there.servers])
        try:
            await made.enrol(folder, "web", await client(f"http://127.0.0.1:{gate.port}"))
            await made.enrol(folder, "db", made.clients[1])
            yield made
        finally:
            for machine in made.machines.values():
                machine.kill()


async def took(client: httpx2.AsyncClient, name: str) -> float:
    """Run a command that only reads, and return how long it took."""
    began = time.monotonic()
    answer = await execute(client, name, "uname -s")
    assert (answer.status_code, answer.json().get("result", {}).get("stdout")) == (200, "Linux\n"), answer.text
    return time.monotonic() - began


async def use_shell(client: httpx2.AsyncClient) -> None:
    path = await open_shell(client)
    seen = await read_until(client, path, b"$ " if os.geteuid() else b"# ")
    await client.post(path, json=typed("echo made-$((40+2)); exit 4\n"))
    seen = await read_until(client, path, b"made-42\r\n", seen)
    assert seen.count(b"made-42") == 1
    settled = await until_settled(client, "web", path.split("/")[6])
    assert settled["result"]["exit_code"] == 4


async def roll_out(clients: list[httpx2.AsyncClient], witness: Path) -> None:
    """Freeze a plan at one server, approve it at the other; both machines do it once."""
    here, there = clients
    arguments = {"command": f"echo x >> {witness}"}
    wish = {"selector": "role=all", "arguments": arguments, "canary": 1, "waves": ["100%"]}
    frozen = (await here.post("/api/v1/fleet/plans", json=wish)).json()
    asked = await here.post(f"/api/v1/fleet/plans/{frozen['id']}/apply")
    assert asked.status_code == 202, asked.text
    await there.post(f"/approvals/{asked.json()['approval_id']}", json={"decision": "approve"})
    found: dict[str, Any] = {}
    async with asyncio.timeout(PATIENCE_S):
        while found.get("status") not in {"completed", "halted"}:
            found = (await here.get(f"/api/v1/fleet/plans/{frozen['id']}")).json()
            await asyncio.sleep(0.05)
    assert found["outcomes"] == {"web": "success", "db": "success"}, found
    assert witness.read_text() == "x\n" * 2


async def ended_with(machine: Machine) -> int:
    """Return the exit code of a machine that is told to end."""
    assert machine.process is not None
    async with asyncio.timeout(AT_ONCE_S):
        while (code := machine.process.poll()) is None:
            await asyncio.sleep(0.05)
    return code


async def move_to_the_other(there: Fleet, witness: Path) -> None:
    """Kill the server that holds `web` while a command is under way there; the other one brings the result."""
    gone, left = there.clients
    asked = (await execute(gone, "web", f"sleep 3; echo x >> {witness}")).json()
    await left.post(f"/approvals/{asked['approval_id']}", json={"decision": "approve"})
    async with asyncio.timeout(PATIENCE_S):
        path = f"/api/v1/nodes/web/commands/{asked['execution_id']}"
        while (await left.get(path)).json()["status"] != "sent":
            await asyncio.sleep(0.05)
    await there.world.servers[0].end()
    began = time.monotonic()
    await until_status(left, "web", "offline")  # it cannot reach any other server yet
    assert time.monotonic() - began < LEASE_S + AT_ONCE_S
    there.gate.lead_to(port_of(there.world.servers[1]))
    began = time.monotonic()
    settled = await until_settled(left, "web", asked["execution_id"])
    assert (settled["status"], witness.read_text()) == ("success", "x\n")
    assert time.monotonic() - began < MOVED_S
    assert await took(left, "web") < AT_ONCE_S


@pytest.mark.slow
@pytest.mark.proves("FL-9", "FL-13", "FL-21", "FL-24", "SC-8", "SC-10")
async def test_any_server_reaches_any_machine_and_a_killed_one_lets_its_machines_move(tmp_path: Path) -> None:
    async with fleet(tmp_path) as there:
        one, other = there.clients
        for client, name in ((other, "web"), (one, "db"), (one, "web"), (other, "db")):
            assert await took(client, name) < AT_ONCE_S
        await use_shell(other)
        await put_and_get(other, tmp_path / "web-files")
        await roll_out([other, one], tmp_path / "witness")
        assert (await other.get("/api/v1/nodes/web/audit")).json()["intact"]
        there.world.nats.kill()
        assert await took(one, "db") < AT_ONCE_S
        assert (await one.delete("/api/v1/nodes/db")).json()["status"] == "revoked"
        assert await ended_with(there.machines["db"]) == REVOKED
        there.world.nats.start()
        await move_to_the_other(there, tmp_path / "moved")
