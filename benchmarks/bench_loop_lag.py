"""Event-loop lag of a server during runs, searches, a resume, an audit, a backup and answers that do not end.

    python benchmarks/bench_loop_lag.py [--runs 20000] [--events 10000] [--at-once 50] [--model-ms 500] [--seconds 5]
                                        [--long 10] [--long-mb 30] [--only-long]

A probe inside the server sleeps 5 ms again and again and notes how much later it wakes. The store holds `--runs`
settled runs and one of `--events` events that was interrupted. `--at-once` runs of ten turns are always in flight,
begun one after another; the mock model takes `--model-ms` for an answer (a small local model takes longer).
Beside each figure stands the lag of an idle process at the same time: what the machine itself adds.

Then `--long` runs at a time ask a model whose answers have `--long-mb` megabytes (`tests/standins/long_answers.py`),
and `/health` is asked beside them, one request after another. The floor is the same question to the server at rest.
What the loop's thread works in one go, in time of its processor, does not depend on what else the machine has to do.
"""

import argparse
import asyncio
import os
import platform
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp

from bench_http import HERE, Server, free_port

PAUSE_S = 0.005
SAMPLE = struct.Struct("<ddd")


async def probe(path: str) -> None:
    """Write when the loop was looked at, how late it was, and how much processor its thread took meanwhile."""
    with open(path, "wb", buffering=0) as out:  # noqa: ASYNC230, PTH123 - it is the probe that is watched
        while True:
            before, used = time.monotonic(), time.thread_time()
            await asyncio.sleep(PAUSE_S)
            now = time.monotonic()
            out.write(SAMPLE.pack(now, now - before - PAUSE_S, time.thread_time() - used))


_probing: set["asyncio.Task[None]"] = set()


def build(workspace_path: str, network_allowed: bool) -> Any:
    """Build the adding pack in the server, with the probe beside it."""
    import adding_pack

    if not _probing:
        _probing.add(asyncio.get_running_loop().create_task(probe(os.environ["LAG_PROBE"])))
    return adding_pack.build(workspace_path, network_allowed)


def lags(path: Path, since: float, until: float) -> list[float]:
    """Return the sorted lags of a time, in milliseconds."""
    return sorted(1000 * max(lag, 0) for at, lag, _ in SAMPLE.iter_unpack(path.read_bytes()) if since <= at <= until)


def bursts(path: Path, since: float, until: float) -> list[float]:
    """Return how long the loop's thread worked between two looks, sorted, in milliseconds of processor."""
    return sorted(1000 * used for at, _, used in SAMPLE.iter_unpack(path.read_bytes()) if since <= at <= until)


def figures(found: Sequence[float]) -> str:
    if not found:
        return "- | - | -"
    return " | ".join(f"{found[min(int(share * len(found)), len(found) - 1)]:.1f}" for share in (0.5, 0.99, 1.0))


async def fill(root: Path, count: int) -> None:
    """Put settled runs into the store."""
    from agent_fabric.domain.events import Event, RunCompleted, RunCreated
    from agent_fabric.domain.ids import RunId, SpecialistId
    from agent_fabric.domain.runs.task import Budget, Profile
    from agent_fabric.infrastructure.clock import SystemClock
    from agent_fabric.infrastructure.persistence.runs.event_store import SqlRunRepository
    from agent_fabric.infrastructure.persistence.store import Store

    store = Store(root / "fabric.db")
    runs = SqlRunRepository(store, SystemClock())

    async def one(number: int) -> None:
        run_id = RunId(f"{number:08x}-0000-4000-8000-000000000000")
        created = RunCreated(
            prompt=f"Look into ticket {number}: the backup of machine {number % 97} is slow at night",
            specialist_id=None,
            model_key="quality",
            network_allowed=True,
            profile=Profile.TASK,
            budget=Budget(max_steps=5),
            workspace="/nowhere",
            sandbox="none",
            policy_version="1",
            fabric_version="0",
        )
        done = RunCompleted(
            run_id=run_id,
            specialist_ids=(SpecialistId("adding"),),
            task_force_mode="sequential",
            payload={"summary": f"Disk {number % 13} was full; moved {number} files to the archive."},
        )
        at = time.time()
        events = [Event(0, at, None, "", created), Event(1, at, None, "", done)]
        await (await runs.create(run_id, events)).release()

    for first in range(0, count, 500):
        await asyncio.gather(*(one(number) for number in range(first, min(first + 500, count))))
    store.close()


async def lengthen(root: Path, run_id: str, events: int) -> str:
    """Make an interrupted run of many turns out of a finished one of a few; return its id."""
    from agent_fabric.domain.events import Event, RunCreated, RunInterrupted, ToolReturned
    from agent_fabric.domain.ids import RunId
    from agent_fabric.domain.runs.task import Budget
    from agent_fabric.infrastructure.clock import SystemClock
    from agent_fabric.infrastructure.persistence.runs.event_store import SqlRunRepository
    from agent_fabric.infrastructure.persistence.store import Store

    store = Store(root / "fabric.db")
    runs = SqlRunRepository(store, SystemClock())
    source = await runs.read(RunId(run_id))
    ends = [at for at, event in enumerate(source) if isinstance(event.body, ToolReturned)]
    opening, turn = list(source[: ends[0] + 1]), list(source[ends[0] + 1 : ends[1] + 1])
    log = [*opening]
    while len(log) < events - 1:
        log += turn
    log.append(source[0]._replace(body=RunInterrupted(reason="the benchmark")))
    created = log[0].body
    assert isinstance(created, RunCreated)
    log[0] = log[0]._replace(body=replace(created, budget=Budget(max_steps=events)))
    long = RunId("ffffffff-0000-4000-8000-000000000000")
    numbered = [Event(seq, event.ts, event.lane, event.step, event.body) for seq, event in enumerate(log)]
    (root / "runs" / long / "workspace").mkdir(parents=True)
    await (await runs.create(long, numbered)).release()
    store.close()
    return long


async def keep_going(session: aiohttp.ClientSession, at_once: int, model_ms: int) -> None:
    body = {"prompt": f"[steps=10] [wait={model_ms}] add", "pack": "adding"}

    async def one(number: int) -> None:
        await asyncio.sleep(number / at_once * model_ms / 1000)  # else all answers would come at the same instant
        while True:
            async with session.post("/run", json=body) as answer:
                await answer.read()

    async with asyncio.TaskGroup() as group:
        for number in range(at_once):
            group.create_task(one(number))


async def measure(server: Server, sampled: tuple[Path, Path], long: str, options: argparse.Namespace) -> None:
    headers = {"Authorization": f"Bearer {server.token}"}
    timeout, url = aiohttp.ClientTimeout(total=600), f"http://127.0.0.1:{server.port}"
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(url, headers=headers, timeout=timeout, connector=connector) as session:

        async def ask(method: str, path: str) -> None:
            async with session.request(method, path) as answer:
                body = await answer.read()
                if answer.status >= 400:
                    raise SystemExit(f"{method} {path}: {answer.status} {body[:300]!r}")

        async def search() -> None:
            for words in ("backup", "slow night", "ticket 12345", "archive", "nowhere at all"):
                await ask("GET", f"/runs/matching?q={words}&limit=20")
                await ask("GET", f"/runs?q={words}&limit=20")

        async def phase(name: str, work: Callable[[], Awaitable[None]]) -> None:
            since = time.monotonic()
            await work()
            took = time.monotonic() - since
            await asyncio.sleep(max(0.0, 1.0 - took))
            until = time.monotonic()
            ours, machine = (figures(lags(path, since, until)) for path in sampled)
            print(f"| {name} | {took:.2f} | {ours} | {machine} |", flush=True)

        print("| phase | s | p50 ms | p99 | max | machine p50 | p99 | max |")
        print("|---|--:|--:|--:|--:|--:|--:|--:|")
        await ask("GET", "/runs?limit=1")
        await phase("idle", lambda: asyncio.sleep(options.seconds))
        await phase("first search (the index is made)", search)
        going = asyncio.create_task(keep_going(session, options.at_once, options.model_ms))
        await asyncio.sleep(2)
        busy = f"{options.at_once} runs"
        await phase(busy, lambda: asyncio.sleep(options.seconds))
        await phase(f"{busy}, 10 searches", search)
        await phase(f"{busy}, a resume of {options.events:,} events", lambda: ask("POST", f"/runs/{long}/resume"))
        await phase(f"{busy}, audit verify", lambda: ask("GET", "/api/v1/audit/verify"))
        await phase(f"{busy}, backup", lambda: ask("POST", "/api/v1/db/backup"))
        going.cancel()
        await asyncio.gather(going, return_exceptions=True)


FORMS = {
    "text": "/run/stream?deltas=true",
    "arguments": "/run/stream?deltas=true",
    "reasoning": "/run/stream?deltas=true",
    "text, in one piece": "/run",
}
"""Answers, and the door through which a model is asked for them: streamed, or not."""


async def measure_long(server: Server, sampled: Path, options: argparse.Namespace) -> None:
    """Ask for answers that do not end, and `/health` beside them."""
    headers = {"Authorization": f"Bearer {server.token}"}
    timeout, url = aiohttp.ClientTimeout(total=600), f"http://127.0.0.1:{server.port}"
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(url, headers=headers, timeout=timeout, connector=connector) as session:

        async def ask_health(into: list[float]) -> None:
            while True:
                before = time.monotonic()
                async with session.get("/health") as answer:
                    await answer.read()
                into.append(1000 * (time.monotonic() - before))
                await asyncio.sleep(PAUSE_S)

        async def beside(work: Awaitable[object]) -> list[float]:
            found: list[float] = []
            asking = asyncio.create_task(ask_health(found))
            await work
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)
            return sorted(found)

        async def run(form: str) -> None:
            task = f"[long={1000 * options.long_mb}] [as={form.partition(',')[0]}] go on"
            async with session.post(
                FORMS[form], json={"prompt": task, "pack": "adding", "model_key": "long"}
            ) as answer:
                body = await answer.read()
                if answer.status >= 400 or b"All of it is done" not in body:
                    raise SystemExit(f"{form}: {answer.status} {body[-300:]!r}")

        print(
            f"\n| {options.long} answers of {options.long_mb} MB | s | /health p50 ms | p99 | max "
            "| at rest p50 | p99 | max | loop's CPU in one go p50 | p99 | max | peak MB |"
        )
        print("|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|")
        for form in FORMS:
            await run(form)  # what is loaded when it is first needed is no part of it
            rest = await beside(asyncio.sleep(options.seconds))
            since = time.monotonic()
            found = await beside(asyncio.gather(*(run(form) for _ in range(options.long))))
            took = time.monotonic() - since
            worked = figures(bursts(sampled, since, since + took))
            line = f"| {form} | {took:.2f} | {figures(found)} | {figures(rest)} | {worked} | {server.peak_mb():.0f} |"
            print(line, flush=True)


async def prepare(server: Server) -> str:
    """Do one short run, which also starts the probe; return its id."""
    headers = {"Authorization": f"Bearer {server.token}"}
    async with (
        aiohttp.ClientSession(f"http://127.0.0.1:{server.port}", headers=headers) as session,
        session.post("/run", json={"prompt": "[steps=3] add", "pack": "adding"}) as answer,
    ):
        answer.raise_for_status()
        return str((await answer.json())["_meta"]["run_id"])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=20_000)
    parser.add_argument("--events", type=int, default=10_000)
    parser.add_argument("--at-once", type=int, default=50)
    parser.add_argument("--model-ms", type=int, default=500)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--long", type=int, default=10)
    parser.add_argument("--long-mb", type=int, default=30)
    parser.add_argument("--only-long", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root, sampled = Path(folder, ".fabric"), (Path(folder, "server.lag"), Path(folder, "machine.lag"))
        model = subprocess.Popen([sys.executable, str(HERE / "mock_model.py")], stdout=subprocess.PIPE, text=True)
        serving = [sys.executable, str(HERE.parent / "tests/standins/long_answers.py")]
        long_model = subprocess.Popen(serving, stdout=subprocess.PIPE, text=True)
        assert model.stdout is not None
        assert long_model.stdout is not None
        environment = {
            "FABRIC_MODELS__LONG__BASE_URL": f"{long_model.stdout.readline().strip()}/v1",
            "FABRIC_MODELS__LONG__BACKEND": "generic",
            "FABRIC_MODELS__LONG__MODEL": "long",
            "FABRIC_MODELS__QUALITY__BASE_URL": model.stdout.readline().strip(),
            "FABRIC_MODELS__QUALITY__BACKEND": "generic",
            "FABRIC_SPECIALISTS__ADDING__BUILDER": "bench_loop_lag:build",
            "FABRIC_SPECIALISTS__ADDING__DESCRIPTION": "Adds.",
            "FABRIC_SERVER__MAX_RUNNING": str(2 * options.at_once),
            "PYTHONPATH": str(HERE),
            "XDG_CONFIG_HOME": folder,
            "LAG_PROBE": str(sampled[0]),
        }
        fabric = str(Path(sys.executable).with_name("fabric"))

        def serve() -> Server:
            port = free_port()
            server = Server([fabric, "serve", "--port", str(port), "--workspace", str(root)], port, environment)
            server.token = (root / "token").read_text().strip()
            return server

        watch = f"import asyncio, bench_loop_lag; asyncio.run(bench_loop_lag.probe({str(sampled[1])!r}))"
        machine = subprocess.Popen([sys.executable, "-c", watch], cwd=HERE)
        server: Server | None = None
        try:
            server = serve()
            short = asyncio.run(prepare(server))
            if not options.only_long:
                server.stop()
                asyncio.run(fill(root, options.runs))
                long = asyncio.run(lengthen(root, short, options.events))
                server = serve()
                asyncio.run(prepare(server))
            print(f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
            if not options.only_long:
                asyncio.run(measure(server, sampled, long, options))
            asyncio.run(measure_long(server, sampled[0], options))
        finally:
            if server is not None:
                server.stop()
            for process in (machine, model, long_model):
                process.terminate()
                process.wait()


if __name__ == "__main__":
    main()
