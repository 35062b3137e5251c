"""Search over many runs: how long the indexes take to build, how large they are, and what a search costs.

    python benchmarks/bench_search.py --runs 20000

Each run has a task, three calls with results, three answers and a summary. "Before" is the index of tasks and summaries
alone, as in version 0.5.
"""

import argparse
import asyncio
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from agent_fabric.domain.events import Event, ModelAnswered, RunCompleted, RunCreated, ToolCalled, ToolReturned
from agent_fabric.domain.ids import CallId, LaneId, RunId, SpecialistId
from agent_fabric.domain.models.messages import Usage
from agent_fabric.domain.runs.task import Budget, Profile
from agent_fabric.infrastructure.clock import SystemClock
from agent_fabric.infrastructure.persistence.dialects import SQLITE
from agent_fabric.infrastructure.persistence.runs.event_store import SqlRunRepository
from agent_fabric.infrastructure.persistence.runs.run_catalogue import SqlRunCatalogue
from agent_fabric.infrastructure.persistence.runs.run_text_index import (
    RunActivityIndex,
    RunTextIndex,
    hits_of,
    words_of,
)
from agent_fabric.infrastructure.persistence.sql import SqlConnection
from agent_fabric.infrastructure.persistence.store import Store

LANE = LaneId("engineering")
QUERIES = ("backup slow", "ticket 1234", "machine", "pytest", "calc_1234.py", '"connection refused"', "nowhere")
LINES = [f"tests/test_module_{number}.py::test_case_{number} PASSED [{number % 100}%]" for number in range(12)]


def turn(number: int, step: int) -> Sequence[ModelAnswered | ToolCalled | ToolReturned]:
    call = CallId(f"call_{step}")
    command = f"pytest -q tests/test_module_{number % 50}.py calc_{number}.py --maxfail={step}"
    refused = "connection refused" if number % 500 == 0 else "all is well"
    output = "\n".join([*LINES, f"{step} passed for ticket {number} on host-{number % 97}: {refused}"])
    said = f"Step {step}: I look at calc_{number}.py and run the tests of module {number % 50}."
    answer = ModelAnswered(
        content=said, tool_calls=(), usage=Usage(900, 40), model="m", finish_reason="stop", duration_s=1.0
    )
    called = ToolCalled(tool="shell", args={"command": command}, call_id=call)
    return (answer, called, ToolReturned(tool="shell", result={"stdout": output, "exit_code": 0}, call_id=call))


def log(number: int) -> tuple[RunId, list[Event]]:
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
        specialist_ids=(SpecialistId("engineering"),),
        task_force_mode="sequential",
        payload={"summary": f"Disk {number % 13} was full; moved {number} files to the archive."},
    )
    bodies = (created, *turn(number, 1), *turn(number, 2), *turn(number, 3), done)
    return run_id, [Event(seq, time.time(), LANE, "", body) for seq, body in enumerate(bodies)]


async def fill(runs: SqlRunRepository, count: int) -> None:
    async def one(number: int) -> None:
        await (await runs.create(*log(number))).release()

    for first in range(0, count, 500):
        await asyncio.gather(*(one(number) for number in range(first, min(first + 500, count))))


async def lag() -> list[float]:
    """Wake every 5 ms, and note by how much that came too late, until cancelled."""
    found: list[float] = []
    try:
        while True:
            before = time.perf_counter()
            await asyncio.sleep(0.005)
            found.append(1000 * (time.perf_counter() - before - 0.005))
    except asyncio.CancelledError:
        return sorted(found)


async def timed(name: str, work: RunTextIndex | RunActivityIndex) -> None:
    probe = asyncio.create_task(lag())
    wall, cpu = time.perf_counter(), time.process_time()
    await work.catch_up()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    probe.cancel()
    lags = await probe
    worst = f"{lags[int(0.99 * len(lags))]:.1f} ms p99, {lags[-1]:.1f} max" if lags else "-"
    print(f"{name}: {wall:.1f} s, {cpu:.1f} s of CPU, event-loop lag {worst}")


def size(store: Store, *tables: str) -> float:
    names = [f"{table}_{part}" for table in tables for part in ("data", "idx", "docsize", "content", "config")]
    return size_of(store, names)


def size_of(store: Store, names: Sequence[str]) -> float:
    query = f"SELECT coalesce(sum(pgsize), 0) FROM dbstat WHERE name IN ({','.join('?' * len(names))})"
    return float(str(store.read_now(lambda connection: connection.execute(query, names).fetchall()[0][0]))) / 1e6


async def search_times(store: Store, catalogue: SqlRunCatalogue, query: str) -> tuple[float, float, int]:
    hits = hits_of(SQLITE.text_search, words_of(query))
    ranked = f"SELECT run, score FROM ({hits.sql}) ORDER BY score DESC, run DESC LIMIT 20"

    def before(connection: SqlConnection) -> list[int]:
        return [int(row[0]) for row in connection.execute(ranked, hits.values).fetchall()]

    async def old() -> None:
        numbers = await store.read(before)
        await store.read(lambda connection: catalogue.by_number(connection, numbers))

    async def new() -> int:
        return len(await catalogue.search(query, limit=20))

    found = await new()
    times: dict[str, list[float]] = {"old": [], "new": []}
    for _ in range(7):
        for name, work in (("old", old), ("new", new)):
            began = time.perf_counter()
            await work()
            times[name].append(1000 * (time.perf_counter() - began))
    return median(times["old"]), median(times["new"]), found


async def main(count: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = Store(Path(folder) / "fabric.db")
        began = time.perf_counter()
        await fill(SqlRunRepository(store, SystemClock()), count)
        print(f"{count:,} runs of 11 events made in {time.perf_counter() - began:.0f} s")
        await timed("index of tasks and summaries", RunTextIndex(store))
        await timed("index of what was done and said", RunActivityIndex(store))
        print(
            f"size: events {size_of(store, ['events']):.1f} MB, tasks and summaries {size(store, 'run_text'):.1f} MB,",
            end=" ",
        )
        print(f"done and said {size(store, 'run_activity'):.1f} MB")
        catalogue = SqlRunCatalogue(store)
        print("| query | found (of 20) | before, ms | now, ms | ratio |\n|---|--:|--:|--:|--:|")
        for query in QUERIES:
            old, new, found = await search_times(store, catalogue, query)
            print(f"| `{query}` | {found} | {old:.1f} | {new:.1f} | {new / old:.1f} |")
        store.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=20_000)
    asyncio.run(main(parser.parse_args().runs))
