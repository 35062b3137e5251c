"""The way of a command through hub and node is short: a newcomer follows it without a search."""

import asyncio
import json
import signal
import sys
from pathlib import Path

import pytest

import ways_through
from integration.fleet.machines import PATIENCE_S, enrol, execute, until_status
from integration.http.served import served

pytestmark = pytest.mark.slow

MAX_STOPS = 18
TIMES = 5
"""What runs each time is on the way; what runs only now and then is a duty of the server."""
VALUES = ("domain.", "wire.")
"""What is called and calls nothing outside: values and rules."""


@pytest.mark.proves("RM-15")
async def test_a_command_for_a_node_passes_few_modules_in_both_processes(tmp_path: Path) -> None:
    ways_through.watch_threads()
    async with served(tmp_path) as hub:
        machine, written = await enrol(hub.client, tmp_path / "web", "web"), tmp_path / "touched.json"
        words = [written, "agent_fabric.interfaces.node.main", "run", "--dir", machine.folder]
        node = await asyncio.create_subprocess_exec(sys.executable, ways_through.__file__, *map(str, words))

        async def touched() -> frozenset[str]:
            written.unlink(missing_ok=True)
            node.send_signal(signal.SIGUSR1)
            async with asyncio.timeout(PATIENCE_S):
                while not written.exists():
                    await asyncio.sleep(0.01)
            return frozenset(json.loads(written.read_text()))

        try:
            await until_status(hub.client, "web", "online")
            assert (await execute(hub.client, "web", "uname -s")).status_code == 200  # what is made once is made now
            frame, here, there = set[str](), list[frozenset[str]](), list[frozenset[str]]()
            for number in range(TIMES):
                with ways_through.Way() as other:
                    await hub.client.get("/api/v1/nodes/web")
                    await hub.client.patch("/api/v1/nodes/web", json={"labels": {"number": str(number)}})
                    await hub.client.post("/api/v1/nodes/invites", json={})
                    await asyncio.sleep(0.3)  # the duties of a server
                frame |= other.modules
                await touched()
                with ways_through.Way() as way:
                    assert (await execute(hub.client, "web", "uname -s")).json()["status"] == "success"
                here.append(way.modules)
                there.append(await touched())
        finally:
            node.kill()
            await node.wait()
    stops = {
        name
        for name in (frozenset.intersection(*here) - frame) | frozenset.intersection(*there)
        if not name.startswith(VALUES)
    }
    assert {"interfaces.http.fleet.node_execution", "infrastructure.node.processes"} <= stops
    assert len(stops) <= MAX_STOPS, sorted(stops)
