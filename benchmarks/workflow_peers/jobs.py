"""What every worker is asked and how it answers; only the standard library, since peers have their own environments.

A worker reads one JSON job a line, `{"shape": "chain", "steps": 10, "runs": 20, "at_once": 1}`, does all its runs and
answers with what they cost. `done` counts the steps that were really taken, so that nobody wins by doing less.
"""

import cProfile
import gc
import json
import os
import resource
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

CHAIN, WIDE = "chain", "wide"
"""Each step needs the one before and adds one to its number; or no step needs another."""


@dataclass(frozen=True, slots=True)
class Job:
    """So many workflows of so many steps, so many of them at once."""

    shape: str
    steps: int
    runs: int
    at_once: int

    @property
    def graph(self) -> tuple[str, int]:
        """What all its runs have in common; made ready before the clock starts."""
        return self.shape, self.steps

    def smallest(self) -> "Job":
        """Return one run of it."""
        return Job(self.shape, self.steps, 1, 1)


class Peer(Protocol):
    """One way to take the steps."""

    def do(self, job: Job) -> int:
        """Do all runs and return how many steps were taken."""
        ...


def serve(open_peer: Callable[[Path], Peer], profile: str = "") -> None:
    """Answer jobs until there are no more; `profile` is a file for statistics of the main thread."""
    folder = Path(tempfile.mkdtemp(prefix="bench-workflows-"))
    code = 1
    try:
        peer = open_peer(folder)
        warm: set[tuple[str, int]] = set()
        profiler = cProfile.Profile(time.thread_time) if profile else None
        for line in sys.stdin:
            job = Job(**json.loads(line))
            if job.graph not in warm:
                peer.do(job.smallest())
                warm.add(job.graph)
            with profiler or nullcontext():
                answer = measured(peer, job)
            sys.stdout.write(json.dumps(answer) + "\n")
            sys.stdout.flush()
        if profiler:
            profiler.dump_stats(profile)
        code = 0
    except BaseException:  # noqa: BLE001 - the process ends here in any case
        traceback.print_exc()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        sys.stderr.flush()
        os._exit(code)  # connections and threads of peers need no farewell


def measured(peer: Peer, job: Job) -> dict[str, Any]:
    """Do a job and say what it cost, all threads of the process together."""
    gc.collect()
    before, wall = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
    done = peer.do(job)
    after, wall = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter() - wall
    user_s, system_s = after.ru_utime - before.ru_utime, after.ru_stime - before.ru_stime
    return {"cpu_s": user_s + system_s, "user_s": user_s, "system_s": system_s, "wall_s": wall, "done": done}
