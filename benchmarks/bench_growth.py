"""What a run costs while the store grows: rate, server CPU, memory, verifying, searching, and many open tabs.

    python benchmarks/bench_growth.py [--runs 3000] [--clients 16] [--every 1000] [--tabs 200]

Two-turn runs of the engineering pack that write one file each, over HTTP, by `--clients` clients that each begin the
next one when theirs has ended; the model answers at once. One row for each `--every` runs: their rate, what each cost
the server's processor, and the server's memory behind them. Beside them, one client searches, a second apart. Then the
same runs are measured with `--tabs` open pages and without, in turn, and `fabric audit verify` at the end; its floor is
the same command over the first run alone.
"""

import argparse
import asyncio
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import aiohttp

from bench_http import Server, free_port
from mock_model import serving

SEARCH_PAUSE_S = 1.0
ROUNDS = 3
"""With open tabs, and as many without."""
SETTLE_S = 1.0
RESIDENT_UNIT = os.sysconf("SC_PAGE_SIZE")

MAX_CPU_MS = 5.5
MIN_PER_S = 200
MAX_GROWTH_MB = 5.0
MAX_VERIFY_MS = 0.5
MAX_SEARCH_MS = 300.0
MAX_TAB_SHARE = 0.1


class Row(NamedTuple):
    """Some runs."""

    runs: int
    per_s: float
    cpu_ms: float
    """Of the server, each run."""
    memory_mb: float
    """Of the server, behind them."""


@dataclass
class Grown:
    """What a store cost as it grew."""

    rows: list[Row] = field(default_factory=list)
    searches_ms: list[float] = field(default_factory=list)
    verify_ms: float = 0.0
    """Each run."""
    alone: list[Row] = field(default_factory=list)
    beside_tabs: list[Row] = field(default_factory=list)

    @property
    def growth_mb(self) -> float:
        """Return how much memory is more than behind the first row, which warms up."""
        return max(row.memory_mb for row in self.rows) - self.rows[0].memory_mb

    @property
    def tab_share(self) -> float:
        """Return by what share open tabs lower the rate."""
        alone, beside = (statistics.median(row.per_s for row in rows) for rows in (self.alone, self.beside_tabs))
        return 1 - beside / alone


class Growing:
    """A server whose store grows."""

    def __init__(self, server: Server, session: aiohttp.ClientSession, clients: int) -> None:
        self.server = server
        self.session = session
        self.clients = clients
        self.begun = 0

    async def add(self, runs: int) -> Row:
        """Do runs, and tell what they cost."""
        upto = self.begun + runs
        cpu, since = self.server.cpu_s(), time.monotonic()

        async def client() -> None:
            while self.begun < upto:
                number, self.begun = self.begun, self.begun + 1
                await self.run(number)

        await asyncio.gather(*(client() for _ in range(self.clients)))
        took = time.monotonic() - since
        return Row(upto, runs / took, 1000 * (self.server.cpu_s() - cpu) / runs, resident_mb(self.server))

    async def run(self, number: int) -> None:
        task = {"prompt": f"[note={number}] Write down why host-{number % 97} is slow", "pack": "engineering"}
        async with self.session.post("/run", json=task) as answer:
            told = await answer.read()
            if answer.status != 200 or b"is in note.txt" not in told:
                raise SystemExit(f"{answer.status} {told[:500]!r}")

    async def search(self, into: list[float]) -> None:
        """Search again and again, for words that few runs have."""
        while True:
            wanted, since = f"ticket {max(self.begun - 50, 0)}", time.monotonic()
            async with self.session.get("/runs/matching", params={"q": wanted, "limit": 20}) as answer:
                await answer.read()
                answer.raise_for_status()
            into.append(1000 * (time.monotonic() - since))
            await asyncio.sleep(SEARCH_PAUSE_S)

    @asynccontextmanager
    async def tabs(self, count: int) -> AsyncIterator[None]:
        """Have pages open, which are told what happens."""
        async with AsyncExitStack() as stack:
            origin = f"http://127.0.0.1:{self.server.port}"
            jar = aiohttp.CookieJar(unsafe=True)
            browser = await stack.enter_async_context(
                aiohttp.ClientSession(origin, cookie_jar=jar, connector=aiohttp.TCPConnector(limit=0))
            )
            async with self.session.post("/api/v1/web/codes") as answer:
                code = (await answer.json())["code"]
            async with browser.post("/api/v1/web/session", json={"code": code}, headers={"Origin": origin}) as answer:
                answer.raise_for_status()
                token = (await answer.json())["page_token"]
            reading = []
            for _ in range(count):
                page = await stack.enter_async_context(browser.ws_connect("/api/v1/web/ws", origin=origin))
                await page.send_json({"type": "hello", "page_token": token})
                if json.loads(await page.receive_str(timeout=20))["type"] != "hello":
                    raise SystemExit("a page was not let in")
                reading.append(asyncio.create_task(_read_all(page)))
            await asyncio.sleep(SETTLE_S)
            yield
            for task in reading:
                task.cancel()
            ended = await asyncio.gather(*reading, return_exceptions=True)
            if not all(isinstance(each, asyncio.CancelledError) for each in ended):
                raise SystemExit("a page was closed by the server")


async def _read_all(page: aiohttp.ClientWebSocketResponse) -> None:
    async for _ in page:
        pass


def resident_mb(server: Server) -> float:
    """Return the memory of a server's process."""
    return int(Path(f"/proc/{server.process.pid}/statm").read_text().split()[1]) * RESIDENT_UNIT / 1e6


async def grow(server: Server, *, runs: int, clients: int, every: int, tabs: int, verify: list[str]) -> Grown:
    """Let a store grow, and measure."""
    grown = Grown()
    headers = {"Authorization": f"Bearer {server.token}"}
    url, timeout = f"http://127.0.0.1:{server.port}", aiohttp.ClientTimeout(total=60)
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(url, headers=headers, connector=connector, timeout=timeout) as session:
        growing = Growing(server, session, clients)
        await growing.add(1)
        floor = await cpu_ms(verify)
        searching = asyncio.create_task(growing.search(grown.searches_ms))
        while growing.begun < runs:
            grown.rows.append(await growing.add(min(every, runs - growing.begun)))
            print(_line(grown.rows[-1]), flush=True)
            if searching.done():
                searching.result()
        searching.cancel()
        await asyncio.gather(searching, return_exceptions=True)
        grown.verify_ms = (await cpu_ms(verify) - floor) / growing.begun
        for _ in range(ROUNDS if tabs else 0):
            grown.alone.append(await growing.add(every // 2))
            async with growing.tabs(tabs):
                grown.beside_tabs.append(await growing.add(every // 2))
    return grown


async def cpu_ms(command: list[str]) -> float:
    """Return the processor time of a command that has to succeed."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    await asyncio.to_thread(subprocess.run, command, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return 1000 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def _line(row: Row) -> str:
    return f"| {row.runs:,} | {row.per_s:.0f} | {row.cpu_ms:.2f} | {row.memory_mb:.1f} |"


def report(grown: Grown, tabs: int) -> None:
    """Print what came of it beside what it should be."""
    rates, costs = ([row.per_s for row in grown.rows], [row.cpu_ms for row in grown.rows])
    print("\n| | measured | goal |\n|---|--:|--:|")
    print(f"| runs per second, median | {statistics.median(rates):.0f} | {MIN_PER_S} |")
    print(f"| server CPU ms a run, median | {statistics.median(costs):.2f} | {MAX_CPU_MS} |")
    print(f"| the last rows beside the first, CPU | {costs[-1] / costs[0]:.2f} | |")
    print(f"| memory above that behind the first row, MB | {grown.growth_mb:.1f} | {MAX_GROWTH_MB} |")
    print(f"| `audit verify` CPU ms a run | {grown.verify_ms:.2f} | {MAX_VERIFY_MS} |")
    if grown.searches_ms:
        print(
            f"| slowest search ms, of {len(grown.searches_ms)} | {max(grown.searches_ms):.0f} | {MAX_SEARCH_MS:.0f} |"
        )
    if grown.alone:
        print(f"| {tabs} open tabs lower the rate by | {grown.tab_share:.0%} | {MAX_TAB_SHARE:.0%} |")


def measure(*, runs: int, clients: int, every: int, tabs: int) -> Grown:
    """Start a server and a model, and measure."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    with tempfile.TemporaryDirectory() as folder, serving() as model:
        environment = {
            "FABRIC_MODELS__QUALITY__BASE_URL": model,
            "FABRIC_MODELS__QUALITY__BACKEND": "generic",
            "XDG_CONFIG_HOME": folder,
            "XDG_DATA_HOME": folder,
        }
        os.environ |= environment
        fabric, port, workspace = str(Path(sys.executable).with_name("fabric")), free_port(), f"{folder}/.fabric"
        server = None
        try:
            server = Server([fabric, "serve", "--port", str(port), "--workspace", workspace], port)
            server.token = Path(workspace, "token").read_text().strip()
            print("| runs | per second | server CPU ms a run | server MB |\n|--:|--:|--:|--:|", flush=True)
            verify = [fabric, "audit", "verify", "--workspace", workspace]
            return asyncio.run(grow(server, runs=runs, clients=clients, every=every, tabs=tabs, verify=verify))
        finally:
            if server is not None:
                server.stop()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=3_000)
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--every", type=int, default=1_000)
    parser.add_argument("--tabs", type=int, default=200)
    options = parser.parse_args()
    report(measure(**vars(options)), options.tabs)


if __name__ == "__main__":
    main()
