"""What a store in PostgreSQL costs, each figure beside its floor in one run.

    python benchmarks/bench_cluster.py [--rounds 3] [--queued 5000] [--only turns workers queued idle latencies]

Starts a PostgreSQL of its own. Read the ratios: the floor moves with the machine.

- turns: CPU ms per durable turn of the worker and of PostgreSQL itself, at 1 and 50 runs at once. Floor: the loop one
  would write by hand (`turn_workers.py floor`), and the same rows sent by the bare driver, in as many statements.
- workers: the same work by 1, 2 and 4 processes; CPU per run.
- queued: runs that nobody drives yet are created, then claimed at the beginning, in the middle and at the end of the
  queue; once more while a transaction stays open that sees the moment before.
- idle: queries a second of an idle server and worker, without and with runs that wait, and connections of a process.
- latencies: how late a reader at another server has an event, and how soon a driver hears of a cancellation or an
  answer that came to another server, with NATS and without (`cluster_latencies.py`).
"""

import argparse
import asyncio
import contextlib
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import psycopg

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from agent_fabric.application.ports.runs import RunQueue, RunRepository
from agent_fabric.application.ports.storage import Storage
from agent_fabric.config.store_address import URL_VARIABLE, StoreAddress
from agent_fabric.domain.errors import RunHeld
from agent_fabric.domain.events import Event, RunCreated, RunFailed, RunWaited
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.task import Budget, Profile
from agent_fabric.infrastructure.clock import RandomIds, SystemClock
from agent_fabric.infrastructure.persistence.postgres.migration import migrate
from agent_fabric.infrastructure.persistence.storage import open_storage
from bench_durable_turns import STEPS, Worker
from cluster_latencies import measure_latencies
from postgres_cluster import Cluster, run_cluster

HERE = Path(__file__).parent
PHASES = {1: 20, 50: 150}
"""At once → runs."""
ROOM = 8
"""Runs that a worker in this measurement has room for."""
EACH, EACH_AT_ONCE = 60, 12
"""Runs of each of several processes."""
PLACES = ("at first", "in the middle", "at last")
BATCH = 200
SETTLE_S = 8.0
"""Until a worker has looked at everything once, and the audit record of those before it is tied."""
TICK_S = 1 / os.sysconf("SC_CLK_TCK")
POOL = 8
STATEMENTS, PER_STATEMENT = 2, 2
"""Of a turn: an answer with the call that it asks for, and the result with the next question."""


def cpu_s(cluster: Cluster) -> float:
    """Return the CPU time of a server with all its processes, those that have ended included."""
    total = 0.0
    for folder in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            own, parent = int(folder.name), int(fields[1])
            if own == cluster.process.pid:
                total += sum(map(int, fields[11:15]))
            elif parent == cluster.process.pid:
                total += int(fields[11]) + int(fields[12])
    return total * TICK_S


def connections(url: str) -> int:
    """Return how many connections programs of ours have."""
    query = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'agent-fabric'"
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute(query).fetchone()
        assert row is not None
        return int(row[0])


def row_floor(url: str, at_once: int, turns: int) -> float:
    """Return CPU ms per turn of the bare driver, which writes the rows of the newest run as often as it takes.

    Each statement holds the rows of as many runs as were driven at once: nobody can send fewer.
    """
    columns = "seq, ts, kind, version, lane, step, payload, hash"
    with psycopg.connect(url, autocommit=True, prepare_threshold=None) as connection:
        connection.execute(f"CREATE TABLE IF NOT EXISTS floor AS SELECT run, {columns} FROM events LIMIT 0")
        rows = connection.execute(
            f"SELECT {columns} FROM events WHERE run = (SELECT max(number) FROM runs WHERE status = 'completed')"
            " ORDER BY seq"
        ).fetchall()
        types = ("bigint", "bigint", "float8", "text", "bigint", "text", "text", "bytea", "bytea")
        unnest = ", ".join(f"%s::{kind}[]" for kind in types)
        insert = f"INSERT INTO floor SELECT * FROM unnest({unnest})"
        groups = max(1, turns // at_once)
        some = rows[-PER_STATEMENT - 1 : -1]
        values = [list(column) for column in zip(*((run, *row) for run in range(at_once) for row in some), strict=True)]
        before = time.process_time()
        for _ in range(groups * STATEMENTS):
            connection.execute(insert, values)
        return (time.process_time() - before) / (groups * at_once) * 1000


def measure_turns(cluster: Cluster, model: str, rounds: int) -> None:
    url = _new_store(cluster)
    floor = Worker("floor", model)
    with _store_at(url):
        ours = Worker("fabric", model)
    seen: dict[tuple[str, int], list[float]] = {}

    def add(what: str, at_once: int, figure: float) -> None:
        seen.setdefault((what, at_once), []).append(figure)

    most = 0
    try:
        for _ in range(rounds):
            for at_once, runs in PHASES.items():
                answer = floor.ask(runs, at_once)
                add("loop", at_once, 1000 * answer["cpu_s"] / answer["turns"])
                before = cpu_s(cluster)
                answer = ours.ask(runs, at_once)
                most = max(most, connections(url))
                add("ours", at_once, 1000 * answer["cpu_s"] / answer["turns"])
                add("server", at_once, 1000 * (cpu_s(cluster) - before) / answer["turns"])
                add("rows", at_once, row_floor(url, at_once, answer["turns"]))
                add("rate", at_once, answer["turns"] / answer["wall_s"])
    finally:
        for worker in (floor, ours):
            worker.stop()
    print("\nCPU ms per durable turn, median (best); floor = raw loop + the same rows by the bare driver")
    print("| at once | raw loop | rows | fabric | ratio to both | PostgreSQL's own | turns/s (wall) |")
    print("|--:|--:|--:|--:|--:|--:|--:|")
    for at_once in PHASES:
        loop, rows, ours_, server, rate = (seen[what, at_once] for what in ("loop", "rows", "ours", "server", "rate"))
        ratio = statistics.median(ours_) / (statistics.median(loop) + statistics.median(rows))
        cells = " | ".join(_figure(each) for each in (loop, rows, ours_))
        print(f"| {at_once} | {cells} | {ratio:.2f} | {_figure(server)} | {statistics.median(rate):.0f} |")
    print(f"connections of the process at most: {most} (pool {POOL})")


def measure_workers(cluster: Cluster, model: str) -> None:
    print(f"\nSeveral processes, {EACH_AT_ONCE} runs at once and {EACH} in all for each of them: CPU ms per run")
    print("| processes | all of them | PostgreSQL's own | runs/s (wall) |")
    print("|--:|--:|--:|--:|")
    for many in (1, 2, 4):
        url = _new_store(cluster)
        with _store_at(url):
            workers = [Worker("fabric", model) for _ in range(many)]
        try:
            for worker in workers:
                worker.ask(2, 1)  # warm
            before, began = cpu_s(cluster), time.perf_counter()
            answers = _ask_all(workers, EACH, EACH_AT_ONCE)
            took, runs = time.perf_counter() - began, EACH * many
            theirs = 1000 * (cpu_s(cluster) - before) / runs
        finally:
            for worker in workers:
                worker.stop()
        cpu = sum(answer["cpu_s"] for answer in answers)
        print(f"| {many} | {1000 * cpu / runs:.1f} | {theirs:.1f} | {runs / took:.0f} |")


def _ask_all(workers: Sequence[Worker], runs: int, at_once: int) -> list[dict[str, Any]]:
    for worker in workers:
        assert worker.process.stdin is not None
        worker.process.stdin.write(json.dumps({"runs": runs, "at_once": at_once, "steps": STEPS}) + "\n")
        worker.process.stdin.flush()
    answers: list[dict[str, Any]] = []
    for worker in workers:
        assert worker.process.stdout is not None
        answers.append(json.loads(worker.process.stdout.readline()))
    return answers


async def measure_queued(cluster: Cluster, queued: int) -> None:
    print(f"\n{queued:,} queued runs; claims of a worker with room for {ROOM}, ms; floor: inserts of {BATCH} rows at a")
    print("time, and a commit of one changed row, both by the bare driver")
    print(f"| beside it | created/s | floor | {' | '.join(f'p50 {at} | p99 | floor p50 | p99' for at in PLACES)} |")
    print(f"|---|{'--:|' * (2 + 4 * len(PLACES))}")
    for beside in ("nothing", "an open transaction"):
        url = _new_store(cluster)
        with tempfile.TemporaryDirectory(prefix="bench-queue-") as name, psycopg.connect(url) as other:
            if beside != "nothing":
                other.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
                other.execute("SELECT count(*) FROM runs")
            door, worker = _open_store(url, Path(name) / "door"), _open_store(url, Path(name) / "worker")
            rate = await _enqueue(door.runs, queued)
            door.close()
            floor = insert_floor(url, min(queued, 5_000))
            cluster.execute("ANALYZE runs", url)  # as autovacuum does within a minute
            parts = []
            sample = min(400, queued // 4)
            for upto in (0, queued // 2, queued - sample):
                _settle_upto(url, upto)
                parts.append(await _claims(worker.queue, worker.runs, sample, url))
            worker.close()
        cells = " | ".join(f"{_share(each, 0.5):.1f} | {_share(each, 0.99):.1f}" for part in parts for each in part)
        print(f"| {beside} | {rate:.0f} | {floor:.0f} | {cells} |")


def _open_store(url: str, folder: Path) -> Storage:
    """Open a store without log files: what is measured is the database."""
    folder.mkdir()
    return open_storage(
        folder,
        address=StoreAddress(url, POOL),
        clock=SystemClock(),
        ids=RandomIds(),
        run_dir=lambda run_id: str(folder / run_id),
    )


async def _enqueue(runs: RunRepository, many: int) -> float:
    ids, todo = RandomIds(), iter(range(many))

    async def create() -> None:
        for _ in todo:
            held = await runs.create(run_id := ids.new_run_id(), [_created(run_id)])
            await held.release()

    began = time.perf_counter()
    await asyncio.gather(*(create() for _ in range(200)))
    return many / (time.perf_counter() - began)


def _created(run_id: RunId) -> Event:
    body = RunCreated(
        prompt=f"Do the task of {run_id}.",
        specialist_id=None,
        model_key="quality",
        network_allowed=False,
        profile=Profile.TASK,
        budget=Budget.of(Profile.TASK),
        workspace="/nowhere",
        sandbox="none",
        policy_version="benchmark",
        fabric_version="benchmark",
    )
    return Event(0, time.time(), None, "", body)


def _settle_upto(url: str, number: int) -> None:
    """Settle the runs before one, as workers would have; vacuum comes when it comes."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "UPDATE runs SET status = 'completed' WHERE status = 'running'"
            " AND number < %s + (SELECT min(number) FROM runs)",
            (number,),
        )


def insert_floor(url: str, many: int) -> float:
    """Return how many rows of runs, each with an event, the bare driver inserts in a second, in batches."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE TABLE floor_runs (LIKE runs); CREATE TABLE floor_events (LIKE events)")
        began = time.perf_counter()
        for first in range(0, many, BATCH):
            numbers = list(range(first, first + BATCH))
            for table in ("runs", "events"):
                connection.execute(
                    f"INSERT INTO floor_{table} SELECT one.* FROM unnest(%s::bigint[]),"
                    f" (SELECT * FROM {table} LIMIT 1) AS one",
                    (numbers,),
                )
        return many / (time.perf_counter() - began)


async def _claims(queue: RunQueue, runs: RunRepository, many: int, url: str) -> tuple[list[float], list[float]]:
    """Claim runs and end them; return the ms that each took, with its part of the look, and those of the floor."""
    took: list[float] = []
    floor: list[float] = []
    bare = psycopg.connect(url, autocommit=True)
    bare.execute("CREATE TABLE IF NOT EXISTS floor_commits (n BIGINT); INSERT INTO floor_commits VALUES (0)")
    ended: list[asyncio.Task[None]] = []

    async def end(held: Any, seq: int) -> None:
        failed = RunFailed(code="benchmark", message="enough", hint="")
        await held.append([Event(seq, time.time(), None, "", failed)])
        await held.release()

    while len(took) < many:
        began = time.perf_counter()
        found = await queue.list_unfinished(limit=ROOM)
        look = (time.perf_counter() - began) / max(1, len(found))
        began = time.perf_counter()
        bare.execute("UPDATE floor_commits SET n = n + 1")
        floor.append(1000 * (time.perf_counter() - began))
        if not found:
            break
        for run_id in found:
            began = time.perf_counter()
            with contextlib.suppress(RunHeld):
                held, events, _ = await runs.take(run_id)
                took.append(1000 * (time.perf_counter() - began + look))
                ended.append(asyncio.create_task(end(held, len(events))))
        await asyncio.gather(*ended)
        ended.clear()
    bare.execute("DROP TABLE floor_commits")
    bare.close()
    return took, floor


def measure_idle(cluster: Cluster, model: str, seconds: float, *, each: bool) -> None:
    url = _new_store(cluster)
    for statement in ("CREATE EXTENSION IF NOT EXISTS pg_stat_statements",):
        cluster.execute(statement, url)
    told: list[str] = []
    print("\nA process with nothing to do")
    print("| process | runs that wait | queries/s | connections |")
    print("|---|--:|--:|--:|")
    for process, waiting in (("serve", 0), ("worker", 0), ("worker", 1_000)):
        with tempfile.TemporaryDirectory(prefix="bench-idle-") as name:
            folder = Path(name)
            if waiting:
                asyncio.run(_put_waiting(url, folder / "door", waiting))
            (folder / ".fabric").mkdir(exist_ok=True)
            config = {
                "models": {"quality": {"base_url": model, "model": "mock", "backend": "generic"}},
                "store": {"url": url, "pool": POOL},
            }
            (folder / "config.json").write_text(json.dumps(config))
            door = ("--port", "0") if process == "serve" else ()
            command = [sys.executable, "-m", "agent_fabric", process, *door, "--json"]
            environment = {**os.environ, "FABRIC_CONFIG_PATH": str(folder / "config.json")}
            worker = subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True)
            try:
                assert worker.stdout is not None
                worker.stdout.readline()
                time.sleep(SETTLE_S)
                cluster.execute("SELECT pg_stat_statements_reset()", url)
                time.sleep(seconds)
                query = (
                    "SELECT query, calls FROM pg_stat_statements WHERE query NOT LIKE '%pg_stat%'"
                    " AND dbid = (SELECT oid FROM pg_database WHERE datname = current_database()) ORDER BY calls DESC"
                )
                found = cluster.execute(query, url)
                calls = sum(count for _, count in found)
                print(f"| {process} | {waiting:,} | {calls / seconds:.2f} | {connections(url)} |")
                if each:
                    told += [
                        f"{process}: {count / seconds:.2f}/s {' '.join(text.split())[:150]}" for text, count in found
                    ]
            finally:
                worker.terminate()
                worker.wait(20)
    print(*told, sep="\n")


async def _put_waiting(url: str, folder: Path, many: int) -> None:
    records, ids = _open_store(url, folder), RandomIds()

    async def put() -> None:
        run_id = ids.new_run_id()
        held = await records.runs.create(run_id, [_created(run_id)])
        await held.append([Event(1, time.time(), None, "", RunWaited(reason="benchmark", until=time.time() + 86_400))])
        await held.release()

    await asyncio.gather(*(put() for _ in range(many)))
    records.close()


def _new_store(cluster: Cluster) -> str:
    url = cluster.create_database()
    migrate(url)
    return url


@contextlib.contextmanager
def _store_at(url: str) -> Iterator[None]:
    """Let processes that are started meanwhile keep their runs there."""
    before = os.environ.get(URL_VARIABLE)
    os.environ[URL_VARIABLE] = url
    try:
        yield
    finally:
        if before is None:
            del os.environ[URL_VARIABLE]
        else:
            os.environ[URL_VARIABLE] = before


def _figure(values: Sequence[float]) -> str:
    return f"{statistics.median(values):.2f} ({min(values):.2f})"


def _share(values: Sequence[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(share * len(values)))] if values else float("nan")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--queued", type=int, default=5_000)
    parser.add_argument("--idle-seconds", type=float, default=60.0)
    parser.add_argument("--each-query", action="store_true", help="list the queries of idle processes")
    parser.add_argument("--latency-rounds", type=int, default=10)
    parser.add_argument("--only", nargs="*", default=["turns", "workers", "queued", "idle", "latencies"])
    options = parser.parse_args()
    model = subprocess.Popen([sys.executable, str(HERE / "mock_model.py")], stdout=subprocess.PIPE, text=True)
    assert model.stdout is not None
    address = model.stdout.readline().strip()
    machine = f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    print(f"{machine}, load {os.getloadavg()[0]:.1f}")
    try:
        with run_cluster() as cluster:
            cluster.execute("ALTER SYSTEM SET shared_preload_libraries = 'pg_stat_statements'")
            cluster.stop()
            cluster.start()
            if "turns" in options.only:
                measure_turns(cluster, address, options.rounds)
            if "workers" in options.only:
                measure_workers(cluster, address)
            if "queued" in options.only:
                asyncio.run(measure_queued(cluster, options.queued))
            if "idle" in options.only:
                measure_idle(cluster, address, options.idle_seconds, each=options.each_query)
        if "latencies" in options.only:
            asyncio.run(measure_latencies(options.latency_rounds))
    finally:
        model.terminate()
        model.wait()


if __name__ == "__main__":
    main()
