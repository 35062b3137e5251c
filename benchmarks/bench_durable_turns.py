"""Durable turns beside the raw loop, in one run: CPU per turn at 1, 50 and 200 at once, and memory of runs in flight.

    python benchmarks/bench_durable_turns.py [--rounds 5] [--memory-runs 1000] [--beside CHECKOUT]

A turn is one model call with the tool call it asks for; a run is 10 of them and an answer. The model answers at once,
so what is left is the caller's own cost. Workers take turns within each round; the table shows medians and, since
machines are shared, the best round of each. CPU is that of the whole worker process, all threads. Read the ratio first:
it is the median of the rounds' own ratios. With `--beside`, the engine of another checkout, such as an earlier
version, takes its turns in the same rounds.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
STEPS = 10
PHASES = {"1": (20, 1), "50": (100, 50), "200": (200, 200)}
"""At once → (runs, at once)."""


class Worker:
    """One way to do the job, in its own process."""

    def __init__(self, which: str, base_url: str, *, checkout: Path = HERE.parent, name: str = "") -> None:
        self.which = name or which
        folder = checkout / "benchmarks"
        self.process = subprocess.Popen(
            [sys.executable, str(folder / "turn_workers.py"), which, base_url],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": f"{checkout / 'src'}:{folder}"},
        )

    def ask(self, runs: int, at_once: int, wait_ms: int = 0) -> dict[str, Any]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        command = {"runs": runs, "at_once": at_once, "steps": STEPS, "wait_ms": wait_ms}
        self.process.stdin.write(json.dumps(command) + "\n")
        self.process.stdin.flush()
        answer: dict[str, Any] = json.loads(self.process.stdout.readline())
        if answer["wrong"] or answer["calls"] != runs * STEPS:
            raise SystemExit(f"{self.which} did not do the job: {answer}")
        return answer

    def stop(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(20)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--memory-runs", type=int, default=1000)
    parser.add_argument("--beside", type=Path, help="another checkout, whose engine is measured as well")
    arguments = parser.parse_args()
    model = subprocess.Popen([sys.executable, str(HERE / "mock_model.py")], stdout=subprocess.PIPE, text=True)
    assert model.stdout is not None
    base_url = model.stdout.readline().strip()
    workers = [Worker("floor", base_url), Worker("fabric", base_url)]
    if arguments.beside is not None:
        workers.append(Worker("fabric", base_url, checkout=arguments.beside.resolve(), name="beside"))
    cpu: dict[tuple[str, str], list[float]] = {}
    rate: dict[tuple[str, str], list[float]] = {}
    try:
        # Memory first, while the heap is clean: every run waits for its model at the same time.
        grown = {
            worker.which: worker.ask(arguments.memory_runs, arguments.memory_runs, wait_ms=1500)["grown_kb"]
            for worker in workers
        }
        for turn in range(arguments.rounds):
            for phase, (runs, at_once) in PHASES.items():
                for worker in workers if turn % 2 else reversed(workers):
                    answer = worker.ask(runs, at_once)
                    cpu.setdefault((worker.which, phase), []).append(1000 * answer["cpu_s"] / answer["turns"])
                    rate.setdefault((worker.which, phase), []).append(answer["turns"] / answer["wall_s"])
    finally:
        for worker in workers:
            worker.stop()
        model.terminate()
        model.wait()
    machine = f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    print(f"{machine}, load {os.getloadavg()[0]:.1f}, {arguments.rounds} rounds; CPU ms per turn, median (best)")
    print("| at once | which | CPU ms | ratio | turns per CPU-s | turns/s (wall) |")
    print("|--:|---|--:|--:|--:|--:|")
    for phase in PHASES:
        for worker in workers:
            ours, floor = cpu[worker.which, phase], cpu["floor", phase]
            middle, ratio = statistics.median(ours), statistics.median(a / b for a, b in zip(ours, floor, strict=True))
            print(
                f"| {phase} | {worker.which} | {middle:.2f} ({min(ours):.2f}) | {ratio:.2f} "
                f"| {1000 / middle:.0f} ({1000 / min(ours):.0f}) | {statistics.median(rate[worker.which, phase]):.0f} |"
            )
    per_thousand = {which: kb / 1024 * 1000 / arguments.memory_runs for which, kb in grown.items()}
    print(f"memory of {arguments.memory_runs} ten-step runs in flight, MB per 1,000: ", end="")
    print(", ".join(f"{which} {megabytes:.0f}" for which, megabytes in per_thousand.items()))


if __name__ == "__main__":
    main()
