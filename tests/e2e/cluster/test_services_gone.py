"""PostgreSQL is gone for a while, then Redis: what users see is what the failure table of the guide says."""

import asyncio
import itertools
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import pytest

from e2e.cluster.witness import examine, script
from e2e.cluster.world import World, world
from effort import effort, report
from integration.http.served import TLS, Stream, bearer, data_of

TTL_S = 3.0
GONE_S = effort(8, 30)
"""Longer than a lease."""
RUNS = 6
MOVES_S = 5.0
"""Every run moves so soon after PostgreSQL is back."""
BUSY_S = effort(10, 2)
"""What a busy machine adds: a test of every commit shares it with others."""
PATIENCE_S = 90.0
TASK = {"prompt": "Do all steps.", "pack": "engineering"}
ASKED: tuple[tuple[str, str, dict[str, Any] | None], ...] = (
    ("GET", "/runs", None),
    ("GET", "/runs/{run}", None),
    ("GET", "/runs/{run}/status", None),
    ("GET", "/runs/{run}/events?limit=10", None),
    ("GET", "/api/v1/approvals", None),
    ("GET", "/api/v1/sessions", None),
    ("GET", "/api/v1/cluster", None),
    ("POST", "/run", TASK),
    ("POST", "/runs", TASK),
    ("POST", "/runs/{run}/cancel", {}),
    ("POST", "/api/v1/sessions", {}),
    ("POST", "/v1/chat/completions", {"model": "engineering", "messages": [{"role": "user", "content": "do it"}]}),
)
"""Doors that need the store, of every kind."""


@dataclass
class Outage:
    """What was answered while the database was gone."""

    answers: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    slowest_s: float = 0.0
    not_ready: int = 0
    """How often a server said to its proxy that it is not ready."""

    def note(self, what: str, answer: httpx2.Response, took_s: float) -> None:
        self.answers[str(answer.status_code)] += 1
        self.slowest_s = max(self.slowest_s, took_s)
        if answer.status_code != 503:
            self.wrong.append(f"{what}: {answer.status_code} {answer.text[:200]}")
        elif not int(answer.headers.get("retry-after", "0")):
            self.wrong.append(f"{what}: no Retry-After")
        elif "PostgreSQL at" not in answer.text:
            self.wrong.append(f"{what}: it does not say what is gone: {answer.text[:200]}")


async def ask_all(client: httpx2.AsyncClient, there: World, run_id: str, outage: Outage) -> None:
    """Ask every server at every door."""

    async def ask(url: str, method: str, path: str, body: Any) -> None:
        began = time.monotonic()
        answer = await client.request(method, url + path.format(run=run_id), json=body)
        outage.note(f"{method} {path}", answer, time.monotonic() - began)

    await asyncio.gather(*(ask(server.url, *door) for server in there.servers for door in ASKED))


async def read_to_the_end(there: World, run_id: str) -> list[int]:
    """Follow a run as a client does, which comes back behind the last event that it had; return all their numbers."""
    seqs: list[int] = []
    servers = itertools.cycle(there.servers)
    while True:
        port = int(next(servers).url.rpartition(":")[2])
        headers = bearer(there.token) | ({"Last-Event-ID": str(seqs[-1])} if seqs else {})
        stream = await Stream.send(port, "GET", f"/runs/{run_id}/events", headers=headers)
        head = (await stream.reader.readuntil(b"\r\n\r\n")).decode()
        if " 200 " in head.splitlines()[0]:
            while frame := await stream.frame():
                if frame.startswith("id: "):
                    seqs.append(data_of(frame)["seq"])
                elif "_run_done_" in frame:
                    stream.close()
                    return seqs
        stream.close()
        await asyncio.sleep(0.5)


async def newest(client: httpx2.AsyncClient, url: str, run_id: str) -> dict[str, Any]:
    """Return the last event of a run; a server that has just tried in vain tries again after a moment."""
    while (answer := await client.get(f"{url}/runs/{run_id}/events", params={"limit": 1_000})).status_code == 503:
        await asyncio.sleep(0.1)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()["events"][-1]
    return found


async def until_all_moved(client: httpx2.AsyncClient, url: str, runs: list[str], since: float) -> float:
    """Wait until every run has settled or has an event after a moment; return how long after it that was."""
    waiting, moved_at = set(runs), since
    async with asyncio.timeout(PATIENCE_S):
        while waiting:
            for run_id in list(waiting):
                event = await newest(client, url, run_id)
                if event["ts"] > since or event["kind"] == "run_complete":
                    waiting.discard(run_id)
                    moved_at = max(moved_at, event["ts"])
            await asyncio.sleep(0.1)
    return moved_at - since


@pytest.mark.slow
@pytest.mark.proves("SC-7", "SC-8")
async def test_servers_say_that_postgresql_is_gone_and_runs_go_on_by_themselves(tmp_path: Path) -> None:
    async with world(tmp_path, script(), servers=2, workers=2, ttl_s=TTL_S) as there:
        pids = [member.told["pid"] for member in there.members]
        door = there.servers[0].url
        async with httpx2.AsyncClient(headers=bearer(there.token), timeout=PATIENCE_S, verify=TLS) as client:
            started = [
                await client.post(f"{door}/runs", json=TASK, headers={"Idempotency-Key": f"before-{number}"})
                for number in range(RUNS)
            ]
            runs = [str(answer.json()["run_id"]) for answer in started]
            while (await newest(client, door, runs[0]))["kind"] != "tool_call":
                await asyncio.sleep(0.05)
            reading = asyncio.create_task(read_to_the_end(there, runs[0]))
            outage = Outage()
            await asyncio.to_thread(there.postgres.crash)
            gone_at = time.monotonic()
            while time.monotonic() - gone_at < GONE_S:
                await ask_all(client, there, runs[0], outage)
                ready = await client.get(f"{door}/ready")
                outage.not_ready += ready.status_code == 503 and "store" in ready.json()["failing"]
                await asyncio.sleep(1.0)
            await asyncio.to_thread(there.postgres.start)
            moved_s = await until_all_moved(client, door, runs, time.time())
            assert outage.wrong == []
            assert outage.not_ready
            assert outage.slowest_s < 10.0
            assert moved_s < MOVES_S + BUSY_S, moved_s
            # Whoever was refused sends the same request again, to another server: there is one run.
            again = [
                await client.post(f"{each.url}/runs", json=TASK, headers={"Idempotency-Key": "after"})
                for each in there.servers
            ]
            runs.append(str(again[0].json()["run_id"]))
            assert again[1].json()["run_id"] == runs[-1]
            async with asyncio.timeout(PATIENCE_S):
                for run_id in runs:
                    while (await client.get(f"{door}/runs/{run_id}/status")).json()["status"] != "completed":
                        await asyncio.sleep(0.2)
            seqs = await asyncio.wait_for(reading, PATIENCE_S)
            assert seqs == list(range(len(seqs)))
        assert [member.started.process.returncode for member in there.members if member.started] == [None] * len(pids)
        findings = await asyncio.to_thread(examine, there.database_url, there.fabric.root / "runs")
        assert findings.wrong == []
        assert findings.runs == len(runs)
        verified = await there.fabric("audit", "verify", "--json")
        assert verified.code == 0, verified.out + verified.err
        assert [line for member in there.members for line in member.accidents] == []
        report("answers while PostgreSQL was gone", outage.answers.total())
        print(
            f"gone {GONE_S} s: all runs moved {moved_s:.1f} s after its return, slowest answer {outage.slowest_s:.1f} s"
        )


@pytest.mark.slow
@pytest.mark.proves("SC-8")
async def test_without_redis_nobody_sees_an_error(tmp_path: Path) -> None:
    limits = {"storage": "redis", "local": True, "requests": "600/minute"}
    async with world(tmp_path, script(), servers=2, workers=1, ttl_s=TTL_S, limits=limits) as there:
        async with httpx2.AsyncClient(headers=bearer(there.token), timeout=PATIENCE_S, verify=TLS) as client:
            statuses = Counter[int]()

            async def ask_often() -> None:
                for number in range(20):
                    answer = await client.get(f"{there.servers[number % 2].url}/runs")
                    statuses[answer.status_code] += 1

            await ask_often()
            there.redis.pause()
            await ask_often()
            there.redis.go_on()
            there.redis.kill()
            await ask_often()
            answers = await asyncio.gather(*(client.post(f"{each.url}/run", json=TASK) for each in there.servers))
            assert [answer.json()["_meta"]["status"] for answer in answers] == ["completed"] * 2, answers[0].text
            there.redis.start()
            await ask_often()
            assert statuses == {200: 80}
        assert [line for member in there.members for line in member.accidents] == []
