"""A plan on light machines that are processes, and what each of them has noted when it was told to do something."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import httpx2

PATIENCE_S = 90.0


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


async def until_online(client: httpx2.AsyncClient, count: int) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while True:
            found = (await client.get("/api/v1/nodes")).json()["nodes"]
            if sum(node["status"] == "online" for node in found) == count:
                return
            await asyncio.sleep(0.05)


async def begin(client: httpx2.AsyncClient, waves: Sequence[int], **more: Any) -> dict[str, Any]:
    """Freeze a plan for all machines, with so many in each wave, and approve it."""
    count, done, shares = sum(waves), 0, list[str]()
    for size in waves:
        done += size
        shares.append(f"{100 * done // count}%")
    wish = {"selector": "all", "arguments": {"command": "touch x"}, "canary": waves[0], "waves": shares[1:], **more}
    frozen: dict[str, Any] = (await client.post("/api/v1/fleet/plans", json=wish)).json()
    counted = Counter(call["wave"] for call in frozen["calls"])
    assert [counted[wave] for wave in sorted(counted)] == list(waves), frozen
    asked = await client.post(f"/api/v1/fleet/plans/{frozen['id']}/apply")
    if approval := asked.json().get("approval_id"):
        await client.post(f"/approvals/{approval}", json={"decision": "approve"})
    return frozen


async def until_ended(client: httpx2.AsyncClient, plan: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {"status": "running"}
    async with asyncio.timeout(PATIENCE_S):
        while found["status"] in {"waiting", "running"}:
            await asyncio.sleep(0.05)
            found = (await client.get(f"/api/v1/fleet/plans/{plan['id']}")).json()
    return found


async def cross_boundaries(witness: Path, waves: Sequence[int], stop: Callable[[int], Awaitable[None]]) -> None:
    """Call `stop` at the beginning of a plan, and whenever the last machine of a wave has got its call."""
    before = len(lines(witness))
    for boundary in range(len(waves)):
        await until_lines(witness, before + sum(waves[:boundary]))
        await stop(boundary)


def require_whole(ended: dict[str, Any], frozen: dict[str, Any], seen: Sequence[Line]) -> None:
    """Check that each machine has done it once, wave after wave, and that the plan says so."""
    names = [call["node"] for call in frozen["calls"]]
    stood = (ended["status"], ended["outcomes"], ended["errors"], ended["skipped"])
    assert stood == ("completed", dict.fromkeys(names, "success"), 0, []), ended
    assert Counter(line.node for line in seen) == Counter(names), "each machine has done it once"
    wave_of = {call["node"]: call["wave"] for call in frozen["calls"]}
    assert [wave_of[line.node] for line in seen] == sorted(wave_of.values()), "a wave began before the last had ended"
