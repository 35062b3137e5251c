"""Processes found by a mark in their environment, where there is /proc."""

import os
import signal
import time
from contextlib import suppress
from pathlib import Path

from agent_fabric.infrastructure.sandbox.draining import SETTLE_S
from agent_fabric.infrastructure.sandbox.process_environments import environment_of

RUN = "FABRIC_RUN_ID"
"""The variable that every process of a run has."""


def entry(name: str, value: str) -> bytes:
    """Return a variable as it stands in an environment."""
    return os.fsencode(f"{name}={value}")


def kill_marked(mark: bytes, *, spare: set[bytes] | None = None, lowest: int = 0) -> int:
    """Kill every process with this entry in its environment, until there is none; return how many there were.

    Those with an entry of `spare`, and those with a number below `lowest`, are left alone.
    """
    killed: set[int] = set()
    deadline = time.monotonic() + SETTLE_S
    while found := _mark(mark, spare or set(), lowest):
        for pid in found:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        killed.update(found)
        if time.monotonic() > deadline:
            break
        time.sleep(0.0005)
    return len(killed)


def _mark(mark: bytes, spare: set[bytes], lowest: int) -> list[int]:
    found = []
    for name in os.listdir("/proc") if _has_proc() else ():  # noqa: PTH208 - a path object per process costs
        if name.isdigit() and int(name) >= lowest and int(name) != os.getpid():
            entries = environment_of(name)
            if mark in entries and not entries & spare:
                found.append(int(name))
    return found


def _has_proc() -> bool:
    return Path("/proc/self/environ").exists()
