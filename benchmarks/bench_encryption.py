"""What encryption costs: durable turns of encrypted runs beside those of runs in the clear, and reading both back.

    python benchmarks/bench_encryption.py [--rounds 5]

The turns are those of `bench_durable_turns.py`; the two workers take turns within each round. CPU is that of the whole
worker process. An encrypted run seals every event, but writes no runlog.jsonl. Read the ratio.
"""

import argparse
import asyncio
import base64
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from agent_fabric.bootstrap.records import open_records
from agent_fabric.domain.events import Body, Event, RunCreated, RunInterrupted
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.task import Budget, Profile
from bench_durable_turns import HERE, PHASES, Worker

EVENTS = 2_000
TEXT = "what a tool printed, two thousand times over; " * 20


async def reading(rounds: int) -> dict[bool, float]:
    """Return the CPU microseconds that one event of a long log costs to read, in the clear and encrypted."""
    created = RunCreated(
        prompt=TEXT,
        specialist_id=None,
        model_key="mock",
        network_allowed=False,
        profile=Profile.TASK,
        budget=Budget.of(Profile.TASK),
        workspace="",
        sandbox="none",
        policy_version="",
        fabric_version="",
    )
    best: dict[bool, float] = {}
    with tempfile.TemporaryDirectory(prefix="bench-encryption-") as folder:
        records = open_records(Path(folder) / ".fabric")
        ids = {False: RunId("in-the-clear"), True: RunId("encrypted")}
        for encrypted, run_id in ids.items():
            await records.layout.prepare(run_id)
            bodies: list[Body] = [
                replace(created, encrypted=encrypted),
                *(RunInterrupted(reason=TEXT) for _ in range(EVENTS - 1)),
            ]
            events = [Event(seq, float(seq), None, "", body) for seq, body in enumerate(bodies)]
            await (await records.runs.create(run_id, events)).release()
        for _ in range(rounds):
            for encrypted, run_id in ids.items():
                before = time.process_time()
                await records.runs.read(run_id)
                spent = 1e6 * (time.process_time() - before) / EVENTS
                best[encrypted] = min(spent, best.get(encrypted, spent))
        records.close()
    return best


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    os.environ["ENCRYPTION_KEY"] = base64.urlsafe_b64encode(os.urandom(32)).decode()
    model = subprocess.Popen([sys.executable, str(HERE / "mock_model.py")], stdout=subprocess.PIPE, text=True)
    assert model.stdout is not None
    base_url = model.stdout.readline().strip()
    workers = [Worker("fabric", base_url), Worker("encrypted", base_url)]
    cpu: dict[tuple[str, str], list[float]] = {}
    try:
        for turn in range(arguments.rounds):
            for phase, (runs, at_once) in PHASES.items():
                for worker in workers if turn % 2 else reversed(workers):
                    answer = worker.ask(runs, at_once)
                    cpu.setdefault((worker.which, phase), []).append(1000 * answer["cpu_s"] / answer["turns"])
    finally:
        for worker in workers:
            worker.stop()
        model.terminate()
        model.wait()
    machine = f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    print(f"{machine}, load {os.getloadavg()[0]:.1f}, {arguments.rounds} rounds; CPU ms per turn, median (best)")
    print("| at once | in the clear | encrypted | ratio (of the best) |")
    print("|--:|--:|--:|--:|")
    for phase in PHASES:
        plain, sealed = cpu["fabric", phase], cpu["encrypted", phase]
        low, middle = statistics.median(plain), statistics.median(sealed)
        print(
            f"| {phase} | {low:.2f} ({min(plain):.2f}) | {middle:.2f} ({min(sealed):.2f}) "
            f"| {middle / low:.2f} ({min(sealed) / min(plain):.2f}) |"
        )
    best = asyncio.run(reading(max(arguments.rounds, 3)))
    print(
        f"reading an event of 1 kB back, best, CPU µs: {best[False]:.1f} in the clear, {best[True]:.1f} encrypted "
        f"({best[True] / best[False]:.2f})"
    )


if __name__ == "__main__":
    main()
