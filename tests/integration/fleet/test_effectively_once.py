"""kill -9 of hub and node at any moment: no command twice, none lost, every doubt named."""

import asyncio
import random
from collections import Counter
from pathlib import Path
from typing import Any

import httpx2
import pytest

from e2e.fabric_process import Fabric, settings
from e2e.server_process import serving
from effort import effort, report
from integration.fleet.machines import OPEN, Machine, enrol, execute, until_status

pytestmark = pytest.mark.slow

LIVES, KILLS = effort(1, 5), effort(2, 100)
"""Hubs with a machine each, side by side, and how often one of the two is killed in each of them."""
PORT_TIMEOUT_S = 60.0


@pytest.mark.proves("FL-20", "FL-21", "FL-22", "FC-070", "C19")
async def test_no_kill_of_either_side_repeats_or_loses_a_command(tmp_path: Path) -> None:
    """Each command appends its own line to a witness; a kill of a random side falls into a random moment of it."""
    folders = [tmp_path / f"life-{number}" for number in range(LIVES)]
    ended = await asyncio.gather(*(_live(folder, number) for number, folder in enumerate(folders)))
    report("kills of hub and node during a command", LIVES * KILLS)
    for status, count in sorted(sum(ended, Counter[str]()).items()):
        report(f"commands that ended as {status}", count)


async def _live(folder: Path, seed: int) -> "Counter[str]":
    """Kill one of the two again and again; return how the commands ended, none of them twice and none lost."""
    folder.mkdir()
    chance, witness = random.Random(seed), folder / "witness"
    fabric = Fabric(folder, settings("http://127.0.0.1:9/v1"))
    machine: Machine | None = None
    port, kills, connected = "", 0, 0
    while kills < KILLS:
        async with serving(fabric, *(("--port", port) if port else ())) as hub:
            port = hub.url.rpartition(":")[2]
            if machine is None:
                machine = await enrol(hub.client, folder / "node", "web", OPEN)
                await hub.client.put("/api/v1/nodes/web/policy", json={"profile": "open"})
            alive = True
            while alive and kills < KILLS:
                if machine.process is None:
                    machine.start()
                connected = (await until_status(hub.client, "web", "online", after=connected))["generation"]
                sending = asyncio.create_task(_send(hub.client, kills, witness))
                await asyncio.sleep(chance.uniform(0.0, 0.25))
                kills += 1
                alive = chance.random() < 0.5
                if alive:
                    machine.kill()
                    await until_status(hub.client, "web", "offline")
                else:
                    await hub.kill()
                sending.cancel()
                await asyncio.gather(sending, return_exceptions=True)
                print(f"life {seed}: kill {kills}", flush=True)
    async with serving(fabric, "--port", port) as hub:
        assert machine is not None
        if machine.process is None:
            machine.start()
        await until_status(hub.client, "web", "online", after=connected)
        found = await _all_settled(hub.client)
        machine.kill()
    _compare(found, witness)
    return Counter(command["status"] for command in found)


def _compare(found: list[dict[str, Any]], witness: Path) -> None:
    lines = Counter(witness.read_text().split()) if witness.exists() else Counter[str]()
    assert not {line: count for line, count in lines.items() if count > 1}
    for command in found:
        ran = lines[command["arguments"]["command"].split()[3]]
        match command["status"]:
            case "success":
                assert ran == 1, command
            case "in_doubt":
                assert ran <= 1
            case _:
                assert ran == 0, (command["status"], command["result"])
    assert set(lines) <= {command["arguments"]["command"].split()[3] for command in found}


async def _send(client: httpx2.AsyncClient, kill: int, witness: Path) -> None:
    for number in range(2):
        mark = f"r{kill}n{number}"
        await execute(client, "web", f"sleep 0.05; echo {mark} >> {witness}")


async def _all_settled(client: httpx2.AsyncClient) -> list[dict[str, Any]]:
    async with asyncio.timeout(PORT_TIMEOUT_S):
        while True:
            found = (await client.get("/api/v1/nodes/web/commands?limit=1000")).json()["commands"]
            if all(each["status"] not in {"waiting", "queued", "sent"} for each in found):
                return list(found)
            await asyncio.sleep(0.1)
