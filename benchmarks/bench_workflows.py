"""Workflows beside one durable insert per step and beside LangGraph, in one run: CPU and wall time per step.

    python benchmarks/bench_workflows.py [--rounds 5] [--venvs FOLDER] [--without langgraph]

A step adds one to a number; in a chain it needs the step before, in a fan-out no step needs another. Five ways, each in
a process of its own, take turns within each round:

- floor: one durable insert per step into the same kind of database (see `workflow_peers/floor.py`).
- pure: our workflow, each step a `transform`; facts that follow from the state alone share commits.
- effect: our workflow, each step a call through the tool gateway, durable before it starts and after it has ended.
- langgraph-sync, langgraph-async: LangGraph's newest version with either of its SQLite checkpointers; the better one
  is shown. It is installed into an environment of its own. A node of LangGraph may have effects, so `effect` is what it
  is to be compared with; it does not record that a node is about to start, so a crash runs it again without asking.

Everything is committed with `synchronous=FULL`. CPU is that of the whole process, user and system, all threads. Tables
show medians and, since machines are shared, the best round of each. Read the ratios first.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from workflow_peers.jobs import CHAIN, WIDE, Job

HERE = Path(__file__).parent
JOBS = (
    Job(CHAIN, 1, 100, 1),
    Job(CHAIN, 10, 20, 1),
    Job(CHAIN, 100, 4, 1),
    Job(CHAIN, 1, 200, 50),
    Job(CHAIN, 10, 100, 50),
    Job(CHAIN, 100, 50, 50),
    Job(CHAIN, 1000, 1, 1),
    Job(WIDE, 100, 4, 1),
    Job(WIDE, 1000, 1, 1),
)
GROWING = ((Job(CHAIN, 100, 4, 1), Job(CHAIN, 1000, 1, 1)), (Job(WIDE, 100, 4, 1), Job(WIDE, 1000, 1, 1)))
"""What costs as much per step in the second as in the first grows linearly."""
PEERS = ("langgraph-sync", "langgraph-async")
PACKAGES = ("langgraph", "langgraph-checkpoint-sqlite")
MORE_RUNS = {"floor": 2}
"""So cheap that it must be done more often to be measured."""

Costs = dict[tuple[str, Job], list[float]]


class Worker:
    """One way to take the steps, in its own process."""

    def __init__(self, which: str, python: str, module: str, *arguments: str) -> None:
        self.which = which
        self.process = subprocess.Popen(
            [python, "-m", f"workflow_peers.{module}", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE), *_paths()])},
        )

    def ask(self, job: Job) -> tuple[float, float]:
        """Return CPU and wall milliseconds per step."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        job = replace(job, runs=job.runs * MORE_RUNS.get(self.which, 1))
        self.process.stdin.write(json.dumps(asdict(job)) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        answer: dict[str, Any] = json.loads(line) if line else {}
        steps = job.runs * job.steps
        if answer.get("done") != steps:
            raise SystemExit(f"{self.which} did not do {job}: {answer or 'it has ended'}")
        return 1000 * answer["cpu_s"] / steps, 1000 * answer["wall_s"] / steps

    def stop(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(20)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--venvs", type=Path, default=Path(tempfile.gettempdir()) / "agent-fabric-peers")
    parser.add_argument("--without", choices=("langgraph",), help="leave the peer out, where nothing can be installed")
    arguments = parser.parse_args()
    workers = [
        Worker("floor", sys.executable, "floor"),
        Worker("pure", sys.executable, "fabric_run", "pure"),
        Worker("effect", sys.executable, "fabric_run", "effect"),
    ]
    versions = "without LangGraph"
    if arguments.without is None:
        python, versions = _peer_python(arguments.venvs / "langgraph")
        workers += [Worker(which, python, "langgraph_graph", which.removeprefix("langgraph-")) for which in PEERS]
    cpu: Costs = {}
    wall: Costs = {}
    loads = []
    try:
        for turn in range(arguments.rounds):
            for job in JOBS:
                for worker in workers if turn % 2 else reversed(workers):
                    loads.append(os.getloadavg()[0])
                    cpu_ms, wall_ms = worker.ask(job)
                    cpu.setdefault((worker.which, job), []).append(cpu_ms)
                    wall.setdefault((worker.which, job), []).append(wall_ms)
    finally:
        for worker in workers:
            worker.stop()
    print(
        f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, {versions}, "
        f"{arguments.rounds} rounds, load {min(loads):.1f} to {max(loads):.1f}"
    )
    peers = PEERS if arguments.without is None else ()
    _print_table("CPU", cpu, peers)
    _print_table("Wall", wall, peers)
    _print_growth(cpu, peers)


def _paths() -> list[str]:
    """Return where else to look first, such as another version of ours to be measured."""
    return [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]


def _peer_python(folder: Path) -> tuple[str, str]:
    """Return LangGraph's Python, made if needed, and what is installed there."""
    python = folder / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", *PACKAGES], check=True)
    names = ", ".join(map(repr, PACKAGES))
    said = subprocess.run(
        [
            str(python),
            "-c",
            f"from importlib.metadata import version as v; print(*[n + ' ' + v(n) for n in ({names})])",
        ],
        check=True,
        capture_output=True,
        text=True,
    )
    return str(python), said.stdout.strip()


def _print_table(what: str, costs: Costs, peers: Sequence[str]) -> None:
    print(f"\n{what} ms per step, median (best)\n")
    print("| graph | at once | floor | pure | ÷ floor | effect | ÷ floor | LangGraph | ÷ pure | ÷ effect |")
    print("|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|")
    for job in JOBS:
        floor, pure, effect = (statistics.median(costs[which, job]) for which in ("floor", "pure", "effect"))
        row = [
            f"{job.shape} of {job.steps}",
            str(job.at_once),
            _shown(costs["floor", job]),
            _shown(costs["pure", job]),
            f"{pure / floor:.1f}",
            _shown(costs["effect", job]),
            f"{effect / floor:.1f}",
        ]
        if peers:
            best = min(peers, key=lambda which: statistics.median(costs[which, job]))
            peer = statistics.median(costs[best, job])
            row += [
                f"{_shown(costs[best, job])} {best.removeprefix('langgraph-')}",
                f"{peer / pure:.1f}",
                f"{peer / effect:.1f}",
            ]
        else:
            row += ["", "", ""]
        print(f"| {' | '.join(row)} |")


def _shown(costs: Sequence[float]) -> str:
    return f"{statistics.median(costs):.3f} ({min(costs):.3f})"


def _print_growth(cpu: Costs, peers: Sequence[str]) -> None:
    """Say what a step costs among a thousand, in steps among a hundred: 1 is linear."""
    for few, many in GROWING:
        ratios = (
            f"{which} {statistics.median(cpu[which, many]) / statistics.median(cpu[which, few]):.2f}"
            for which in ("floor", "pure", "effect", *peers)
        )
        print(f"\n{many.shape}: CPU of a step among {many.steps} ÷ among {few.steps}: {', '.join(ratios)}", end="")
    print()


if __name__ == "__main__":
    main()
