"""How long it takes until another process knows: two servers that only take runs on, one worker, with NATS and without.

- follow: a run is read at one server, then at the other with `Last-Event-ID`; how late each event is there after it was
  made, its commit included.
- come back: how long the other server takes from the request with `Last-Event-ID` to the first event behind it.
- cancel, answer: from the request at a server that does not drive the run to the moment at which its driver has it.
- start: from the request at a server that drives nothing to the moment at which a worker asks the model.

Then so many runs at both servers that the worker is never idle: how many end in a second, with NATS and without.

Floor: one row committed by the bare driver, one message over NATS, one read of that row; what anybody pays who keeps
the truth in PostgreSQL and sends hints.
"""

import asyncio
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import nats
import psycopg
from nats.aio.msg import Msg

from e2e.cluster.test_any_server import Doors, answer, cancel, follow, two_doors

GOALS_MS = {
    "follow": (100, 1_200),
    "come back": (100, 1_200),
    "cancel": (300, 1_200),
    "answer": (300, 1_200),
    "start": (300, 1_500),
}
"""With NATS, and without."""
MANY = 40
"""Runs whose throughput is measured."""
SETTLE_S = 3.0
"""Until every process has noticed that NATS is gone."""


async def come_back(doors: Doors) -> float:
    """Return how long the first event behind `Last-Event-ID` takes at a server that has not seen the run."""
    run_id = await doors.start(door=0)
    await doors.event(run_id, "tool_result")
    began = time.time()
    stream = await doors.watch(run_id, 1, last=1)
    await stream.frame()
    stream.close()
    return time.time() - began


async def start(doors: Doors) -> float:
    """Return how long a run waits for a worker that has room."""
    began = time.time()
    run_id = await doors.start(door=0)
    return float((await doors.event(run_id, "llm_request"))["ts"]) - began


async def throughput(doors: Doors, many: int) -> float:
    """Return how many runs end in a second, started at both servers at once."""
    began = time.perf_counter()
    runs = await asyncio.gather(*(doors.start(door=number % 2) for number in range(many)))
    await asyncio.gather(*(doors.event(run_id, "run_complete") for run_id in runs))
    return many / (time.perf_counter() - began)


async def floor(doors: Doors, many: int) -> list[float]:
    """Return how long a commit, a message and a read of what was committed take, by the bare drivers."""
    client = await nats.connect(doors.world.nats.url)
    told: asyncio.Queue[int] = asyncio.Queue()

    async def hear(message: Msg) -> None:
        told.put_nowait(int(message.data))

    await client.subscribe("floor", cb=hear)
    took: list[float] = []
    url = doors.world.database_url
    async with (
        await psycopg.AsyncConnection.connect(url, autocommit=True) as writes,
        await psycopg.AsyncConnection.connect(url, autocommit=True) as reads,
    ):
        await writes.execute("CREATE TABLE floor_latencies (n BIGINT PRIMARY KEY)")
        for number in range(many):
            began = time.perf_counter()
            await writes.execute("INSERT INTO floor_latencies VALUES (%s)", (number,))
            await client.publish("floor", str(number).encode())
            heard = await told.get()
            row = await (await reads.execute("SELECT n FROM floor_latencies WHERE n = %s", (heard,))).fetchone()
            assert row == (number,)
            took.append(time.perf_counter() - began)
    await client.close()
    return took


async def measure_latencies(rounds: int) -> None:
    """Print the table."""
    print("\nHow late another process knows, ms: median (p95, max), goal; two servers, one worker")
    print("| what | with NATS | goal | without | goal |")
    print("|---|--:|--:|--:|--:|")
    with tempfile.TemporaryDirectory(prefix="bench-latencies-") as name:
        async with two_doors(Path(name)) as doors:
            bare = await floor(doors, 200)
            with_nats = await _measure(doors, rounds)
            rate = await throughput(doors, MANY)
            doors.world.nats.kill()
            await asyncio.sleep(SETTLE_S)
            without = await _measure(doors, rounds)
            rate_without = await throughput(doors, MANY)
    for what, figures in with_nats.items():
        goal, goal_without = GOALS_MS[what]
        print(f"| {what} | {_figures(figures)} | {goal} | {_figures(without[what])} | {goal_without} |")
    print(f"| floor | {_figures(bare)} | | | |")
    share = rate_without / rate
    print(f"{MANY} runs: {rate:.1f} a second with NATS, {rate_without:.1f} without: {share:.0%} (goal: at least 80 %)")


async def _measure(doors: Doors, rounds: int) -> dict[str, list[float]]:
    once: dict[str, Callable[[Doors], Awaitable[float]]] = {
        "come back": come_back,
        "cancel": cancel,
        "answer": answer,
        "start": start,
    }
    found: dict[str, list[float]] = {"follow": []}
    for _ in range(rounds):
        found["follow"] += await follow(doors)
        for what, measure in once.items():
            found.setdefault(what, []).append(await measure(doors))
    return found


def _figures(seconds: Sequence[float]) -> str:
    ordered = sorted(1_000 * each for each in seconds)
    return f"{statistics.median(ordered):.1f} ({ordered[int(0.95 * (len(ordered) - 1))]:.1f}, {ordered[-1]:.1f})"
