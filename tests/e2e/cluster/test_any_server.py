"""It does not matter which server is asked: two doors, one worker, with NATS and without."""

import asyncio
import statistics
import time
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from agent_fabric.testing.scripted_model import Call, Calls, Finish, Script, Slow
from e2e.cluster.world import Member, World, world
from integration.http.served import PATIENCE_S, TLS, Stream, bearer, data_of

TTL_S = 3.0
LOOK = Call("list_files", {"path": "."})
STEPS = [Call("shell", {"command": f"echo {n}"}) for n in range(30)]
DONE = Finish(summary="all done", artifacts=[], next_steps=[], notes="")
TEXT = "I look around before I do anything else, and I say so at length. " * 6
SCRIPT = Script(
    turns=(*(Slow(step, 0.1) for step in STEPS[:8]), DONE),
    named={
        "talk": (Slow(LOOK, 0.3), Calls((LOOK,), text=TEXT), DONE),
        "long": (*(Slow(step, 0.4) for step in STEPS), DONE),
        "ask": (Call("shell", {"command": "make deploy"}), DONE),
    },
)


class Doors:
    """Two servers that only take runs on, and clients of theirs."""

    def __init__(self, there: World) -> None:
        self.world = there
        self.headers = bearer(there.token)
        self.clients = [
            httpx2.AsyncClient(base_url=each.url, timeout=PATIENCE_S, headers=self.headers, verify=TLS)
            for each in there.servers
        ]

    async def start(self, script: str = "", *, door: int = 0, **more: Any) -> str:
        prompt = f"do it [[script={script}]]" if script else "do it"
        answer = await self.clients[door].post("/runs", json={"prompt": prompt, "pack": "engineering"}, **more)
        assert answer.status_code == 202, answer.text
        return str(answer.json()["run_id"])

    async def watch(self, run_id: str, door: int, query: str = "", last: int | None = None) -> Stream:
        port = int(self.world.servers[door].url.rpartition(":")[2])
        headers = self.headers if last is None else {**self.headers, "Last-Event-ID": str(last)}
        stream = await Stream.send(port, "GET", f"/runs/{run_id}/events{query}", headers=headers)
        stream.head = (await stream.reader.readuntil(b"\r\n\r\n")).decode()
        return stream

    async def event(self, run_id: str, kind: str) -> dict[str, Any]:
        """Wait for an event."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                told = (await self.clients[0].get(f"/runs/{run_id}/events", params={"limit": 1000})).json()["events"]
                found: dict[str, Any] | None = next((event for event in told if event["kind"] == kind), None)
                if found is not None:
                    return found
                await asyncio.sleep(0.05)


@asynccontextmanager
async def two_doors(folder: Path) -> AsyncIterator[Doors]:
    async with world(folder, SCRIPT, servers=2, doors=2, workers=1, ttl_s=TTL_S, slots=8) as there:
        doors = Doors(there)
        try:
            yield doors
        finally:
            for client in doors.clients:
                await client.aclose()


async def follow(doors: Doors) -> list[float]:
    """Read a run at one server, then at the other; return how late each event was there."""
    run_id, seqs, lags = await doors.start(door=0), list[int](), list[float]()
    for door, most in ((1, 9), (0, 9), (1, 10_000)):
        stream = await doors.watch(run_id, door, last=seqs[-1] if seqs else None)
        came, enough = time.time(), len(seqs) + most
        while len(seqs) < enough and (frame := await stream.frame()).startswith("id: "):
            event = data_of(frame)
            seqs.append(event["seq"])
            lags += [time.time() - event["ts"]] if event["ts"] > came else []
        stream.close()
    assert seqs == list(range(len(seqs)))
    return lags


async def cancel(doors: Doors) -> float:
    """Cancel a run at a server that does not drive it; return how long it took until its driver had ended it."""
    run_id = await doors.start("long", door=0)
    await doors.event(run_id, "llm_response")
    began = time.time()
    assert (await doors.clients[1].post(f"/runs/{run_id}/cancel")).status_code == 200
    return float((await doors.event(run_id, "run_cancelled"))["ts"]) - began


async def answer(doors: Doors) -> float:
    """Answer what a run asks; return how long it took until its driver had it."""
    run_id = await doors.start("ask", door=0)
    asked = await doors.event(run_id, "approval_requested")
    await doors.event(run_id, "run_waiting")
    began = time.time()
    told = await doors.clients[1].post(f"/approvals/{asked['payload']['approval_id']}", json={"decision": "deny"})
    assert told.status_code == 200, told.text
    return float((await doors.event(run_id, "approval_decided"))["ts"]) - began


async def deltas(doors: Doors) -> tuple[str, list[str]]:
    """Return the text of the pieces that a reader at another server than the driver's got, and all kinds in order."""
    run_id = await doors.start("talk", door=0)
    stream = await doors.watch(run_id, 1, "?deltas=true")
    frames = [frame for frame in await stream.frames() if "data: " in frame]  # a slow one has signs of life, too
    stream.close()
    pieces = [frame for frame in frames if frame.startswith("event: delta\n")]
    kinds = ["delta" if frame in pieces else data_of(frame)["kind"] for frame in frames if "event: notice" not in frame]
    return "".join(data_of(frame)["text"] for frame in pieces), kinds


def lost_warnings(member: Member) -> list[str]:
    return [line for line in member.lines if '"level":"warning"' in line and "NATS" in line]


@pytest.mark.slow
@pytest.mark.proves("SC-8", "SC-10", "FC-002")
async def test_any_server_follows_cancels_answers_and_repeats(tmp_path: Path) -> None:
    async with two_doors(tmp_path) as doors:
        lags = await follow(doors)
        text, kinds = await deltas(doors)
        assert TEXT in text
        assert kinds.index("delta") > kinds.index("llm_request")
        assert kinds[-1] == "_run_done_"
        took = [await cancel(doors) for _ in range(3)] + [await answer(doors) for _ in range(3)]
        key = {"Idempotency-Key": str(uuid.uuid4())}
        assert len({*await asyncio.gather(*(doors.start(door=n % 2, headers=key) for n in range(6)))}) == 1
        waited = await doors.clients[1].post("/run", json={"prompt": "do it", "pack": "engineering"})
        assert waited.json()["_meta"]["status"] == "completed", waited.text
        doors.world.nats.kill()
        late = await follow(doors)
        # Far below the look once a second; on a busy machine both take longer.
        assert statistics.median(lags) < max(0.4, statistics.median(late)), (lags, late)
        late = [await cancel(doors) for _ in range(2)] + [await answer(doors) for _ in range(2)]
        assert statistics.median(took) < max(0.9, statistics.median(late)), (took, late)
        text, kinds = await deltas(doors)
        assert (text, kinds[-1]) == ("", "_run_done_")
        for member in doors.world.members:
            assert len(lost_warnings(member)) <= 1, lost_warnings(member)
        doors.world.nats.start()
        async with asyncio.timeout(PATIENCE_S):
            while TEXT not in (await deltas(doors))[0]:
                await asyncio.sleep(0.2)
