"""A server under load for ten minutes: is every request answered, and does memory stay flat?

    python benchmarks/load_server.py [--minutes 10] [--clients 200] [--rate 20]

`--clients` people with API keys of their own start `--rate` one-step runs a second between them, through the limits and
with an `Idempotency-Key` each; every tenth follows its run as a stream, every tenth looks at the list of runs, and one
in fifty sends its request twice. Every answer is checked, and at the end the store is asked whether each run that
somebody was told about is there once. Memory is that of the server process, a sample a second; flat means that the
last quarter of the time needs no more than the second one.
"""

import argparse
import asyncio
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp

from bench_http import HERE, Server, free_port
from mock_model import serving

PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass
class Seen:
    """What the clients saw."""

    statuses: Counter[str] = field(default_factory=Counter)
    latencies: list[float] = field(default_factory=list)
    runs: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    memory: list[float] = field(default_factory=list)
    """MB, a sample a second."""


async def one(session: aiohttp.ClientSession, key: str, number: int, seen: Seen) -> None:
    """Start a run as one client does, and see it through."""
    headers = {"X-API-Key": key, "Idempotency-Key": str(uuid.uuid4())}
    body = {"prompt": f"[steps=1] add {number}", "pack": "adding"}
    started = time.monotonic()
    try:
        if number % 10 == 0:
            run_id = await streamed(session, headers, body)
        else:
            run_id = await answered(session, headers, body)
            if number % 50 == 1 and await answered(session, headers, body) != run_id:
                seen.lost.append("a repeated request started another run")
        if number % 10 == 5:
            async with session.get("/runs", params={"limit": 20}, headers={"X-API-Key": key}) as listed:
                seen.statuses[f"list {listed.status}"] += 1
    except (aiohttp.ClientError, TimeoutError, ValueError, KeyError) as problem:
        seen.lost.append(f"{type(problem).__name__}: {problem}"[:200])
        return
    seen.latencies.append(time.monotonic() - started)
    seen.runs.append(run_id)


async def answered(session: aiohttp.ClientSession, headers: dict[str, str], body: dict[str, str]) -> str:
    async with session.post("/run", json=body, headers=headers) as answer:
        told = await answer.json()
        if answer.status != 200:
            raise ValueError(f"{answer.status} {told}")
        return str(told["_meta"]["run_id"])


async def streamed(session: aiohttp.ClientSession, headers: dict[str, str], body: dict[str, str]) -> str:
    async with session.post("/run/stream", json=body, headers=headers) as answer:
        if answer.status != 200:
            raise ValueError(f"{answer.status} {await answer.text()}")
        last = b""
        async for line in answer.content:
            if line.startswith(b"data: "):
                last = line
        end = json.loads(last.removeprefix(b"data: "))
        if end["kind"] != "_run_done_":
            raise ValueError(str(end)[:200])
        return str(end["run_id"])


async def load(server: Server, keys: list[str], minutes: float, rate: float, seen: Seen) -> None:
    connector = aiohttp.TCPConnector(limit=0)
    timeout = aiohttp.ClientTimeout(total=60)
    url = f"http://127.0.0.1:{server.port}"
    async with aiohttp.ClientSession(url, connector=connector, timeout=timeout) as session:
        watching = asyncio.create_task(watch(server, seen))
        end, number = time.monotonic() + 60 * minutes, 0
        async with asyncio.TaskGroup() as group:
            while time.monotonic() < end:
                group.create_task(one(session, keys[number % len(keys)], number, seen))
                number += 1
                await asyncio.sleep(random.expovariate(rate))
        watching.cancel()


async def new_keys(server: Server, token: str, count: int) -> list[str]:
    """Return API keys, one for each client."""
    headers = {"Authorization": f"Bearer {token}"}
    keys = []
    async with aiohttp.ClientSession(f"http://127.0.0.1:{server.port}", headers=headers) as session:
        for number in range(count):
            async with session.post("/api/v1/keys", json={"name": f"client-{number}", "scopes": ["runs"]}) as made:
                made.raise_for_status()
                keys.append(str((await made.json())["key"]))
    return keys


async def watch(server: Server, seen: Seen) -> None:
    while True:
        seen.memory.append(int(Path(f"/proc/{server.process.pid}/statm").read_text().split()[1]) * PAGE / 1e6)
        await asyncio.sleep(1)


def report(seen: Seen, listed: int, minutes: float) -> bool:
    quarter = max(1, len(seen.memory) // 4)
    second, last = seen.memory[quarter : 2 * quarter] or seen.memory, seen.memory[-quarter:]
    before, after = statistics.median(second), statistics.median(last)
    ordered = sorted(seen.latencies)
    print(f"{len(seen.runs)} runs in {minutes:g} minutes, {len(seen.lost)} lost, {listed} in the store")
    p50, p99 = (1000 * ordered[int(share * len(ordered))] for share in (0.5, 0.99))
    print(f"answered within {p50:.0f} ms p50, {p99:.0f} p99")
    print(f"memory: {seen.memory[0]:.0f} MB at first, {before:.0f} in the second quarter, {after:.0f} in the last")
    print(f"others: {dict(seen.statuses)}")
    for each in Counter(seen.lost).most_common(5):
        print("  lost:", each)
    flat = after <= 1.05 * before + 5
    whole = not seen.lost and len(set(seen.runs)) == len(seen.runs) == listed
    print("flat" if flat else "NOT FLAT", "|", "nothing lost" if whole else "SOMETHING LOST")
    return flat and whole


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--rate", type=float, default=20)
    options = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    fabric = str(Path(sys.executable).with_name("fabric"))
    with tempfile.TemporaryDirectory() as folder, serving() as model:
        environment = {
            "FABRIC_MODELS__QUALITY__BASE_URL": model,
            "FABRIC_MODELS__QUALITY__BACKEND": "generic",
            "FABRIC_SPECIALISTS__ADDING__BUILDER": "adding_pack:build",
            "FABRIC_SPECIALISTS__ADDING__DESCRIPTION": "Adds.",
            "PYTHONPATH": str(HERE),
            "XDG_CONFIG_HOME": folder,
        }
        os.environ |= environment
        workspace = f"{folder}/.fabric"
        port = free_port()
        server = Server([fabric, "serve", "--port", str(port), "--workspace", workspace], port)
        seen = Seen()
        try:
            token = Path(workspace, "token").read_text().strip()
            keys = asyncio.run(new_keys(server, token, options.clients))
            asyncio.run(load(server, keys, options.minutes, options.rate, seen))
            counted = subprocess.run(
                [fabric, "logs", "list", "--json", "--limit", "1000000", "--workspace", workspace],
                capture_output=True,
                text=True,
                check=True,
            )
        finally:
            server.stop()
        listed = len(json.loads(counted.stdout)["runs"])
        sys.exit(0 if report(seen, listed, options.minutes) else 1)


if __name__ == "__main__":
    main()
