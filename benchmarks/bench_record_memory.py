"""Peak memory of listing, showing, exporting, verifying and serving: a long log, and one very large event.

    python benchmarks/bench_record_memory.py [--events 1000000] [--megabytes 50]

Each command is a process of its own; the floor is the same command on a store with one small run. For the server, it is
that of a server that has sent the small run's events in the same way.
"""

import argparse
import asyncio
import json
import os
import random
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from agent_fabric.bootstrap.records import open_records
from agent_fabric.domain.events import Event, GuidanceGiven, RunCancelled, RunCreated
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.task import Budget, Profile

RUN = RunId("00000000-0000-4000-8000-000000000001")
COMMANDS = (
    ["logs", "list"],
    ["logs", "show", RUN],
    ["logs", "show", RUN, "--full"],
    ["logs", "show", RUN, "--json"],
    ["logs", "show", RUN, "--jsonl", "--follow"],
    ["logs", "export", RUN],
    ["logs", "export"],
    ["audit", "list"],
    ["audit", "verify"],
)
BATCH = 5_000


def events(count: int, text: str) -> Iterator[Event]:
    created = RunCreated(
        prompt="work",
        specialist_id=None,
        model_key="quality",
        network_allowed=False,
        profile=Profile.TASK,
        budget=Budget.of(Profile.TASK),
        workspace="/nowhere",
        sandbox="C",
        policy_version="",
        fabric_version="",
    )
    yield Event(0, 1.0, None, "", created)
    for seq in range(1, count - 1):
        yield Event(seq, float(seq), None, "", GuidanceGiven(reason="unproven", message=text))


async def fill(root: Path, count: int, text: str) -> None:
    with open_records(root) as records:
        held = await records.runs.create(RUN, [next(log := events(count, text))])
        batch: list[Event] = []
        for event in log:
            batch.append(event)
            if len(batch) == BATCH:
                await held.append(batch)
                batch = []
        await held.append([*batch, Event(count - 1, float(count), None, "", RunCancelled(by="a benchmark", reason=""))])
        await held.release()


def peak_mb(root: Path, command: list[str]) -> float:
    process = subprocess.Popen(
        [sys.executable, "-m", "agent_fabric", *command, "--workspace", str(root)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    _, status, usage = os.wait4(process.pid, 0)
    if os.waitstatus_to_exitcode(status):
        raise SystemExit(f"{command} failed")
    return usage.ru_maxrss / 1024


def served_mb(root: Path, query: str, accept: str) -> float:
    """Return the peak of a server that has sent all events of the run, page by page or as a stream."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "agent_fabric", "serve", "--port", str(port), "--workspace", str(root)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        address = f"http://127.0.0.1:{port}"
        wait_for(f"{address}/health")
        headers = {"Authorization": f"Bearer {(root / 'token').read_text().strip()}", "Accept": accept}
        following: str | None = f"/runs/{RUN}/events?{query}"
        while following:
            with urllib.request.urlopen(urllib.request.Request(address + following, headers=headers)) as answer:
                if accept == "application/json":
                    following = json.load(answer)["next"]
                else:
                    following = None
                    while answer.read(1 << 20):
                        pass
        status = Path(f"/proc/{process.pid}/status").read_text()
        return int(status.split("VmHWM:")[1].split()[0]) / 1024
    finally:
        process.terminate()
        process.wait()


def wait_for(address: str) -> None:
    for _ in range(300):
        try:
            urllib.request.urlopen(address).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise SystemExit("the server does not answer")


SERVED = (
    ("GET events, pages", "limit=100", "application/json"),
    ("GET events, whole pages", "limit=100&full=true", "application/json"),
    ("GET events, stream", "after=-1", "text/event-stream"),
)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--megabytes", type=int, default=50)
    parser.add_argument("--stores", type=Path, help="Keep the stores in this folder, and use those that are there.")
    parser.add_argument("--fill", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.fill is not None:
        letters = random.Random(1).choices("abcdefghijklmnopqrstuvwxyz ", k=arguments.megabytes * 1_000_000)
        asyncio.run(fill(arguments.fill, arguments.events, "".join(letters) or "go on"))
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.stores or temporary
        roots = {name: Path(folder) / name / ".fabric" for name in ("small", "long", "large")}
        for name, count, megabytes in (
            ("small", 3, 0),
            ("large", 3, arguments.megabytes),
            ("long", arguments.events, 0),
        ):
            if (roots[name] / "fabric.db").exists():
                continue
            # In a process of its own: a child's peak begins with that of its parent.
            made = [sys.executable, __file__, "--fill", str(roots[name]), "--events", str(count)]
            subprocess.run([*made, "--megabytes", str(megabytes)], check=True)
        print(f"| command | floor MB | {arguments.events:,} events | one of {arguments.megabytes} MB |")
        print("|---|--:|--:|--:|")
        for command in COMMANDS:
            floor, long, big = (peak_mb(roots[name], command) for name in ("small", "long", "large"))
            shown = " ".join(part for part in command if part != RUN) + " RUN_ID" * (RUN in command)
            print(f"| `{shown}` | {floor:.0f} | +{long - floor:.0f} | +{big - floor:.0f} |", flush=True)
        for name, query, accept in SERVED:
            floor, long, big = (served_mb(roots[root], query, accept) for root in ("small", "long", "large"))
            print(f"| server: {name} | {floor:.0f} | +{long - floor:.0f} | +{big - floor:.0f} |", flush=True)


if __name__ == "__main__":
    main()
