"""Other processes, where there is /proc: their environments, and the numbers of those that a command can have."""

import os
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

SETTLE_S: Final = 2.0
"""How long to wait for what was killed to be gone."""
_EXEC_TIMEOUT_S: Final = 1.0
"""How long a process may take to become another program, on a busy machine or a slow disk."""
_PAUSE_S: Final = 0.0005
_YOUNG_S: Final = 1.0
"""So long no machine takes to give all its numbers to processes."""


def environment_of(pid: int | str) -> set[bytes]:
    """Return the entries `NAME=value` of a process; none if it has ended, is someone else's, or has none.

    A process that is just being replaced by another program (exec) shows an empty environment until the kernel has
    set it up, and a search for a mark would then miss it: it is looked at again.
    """
    give_up_at = time.monotonic() + _EXEC_TIMEOUT_S
    with suppress(OSError):
        while True:
            found = Path(f"/proc/{pid}/environ").read_bytes()
            if found or not _is_program(pid) or _has_none(pid) or time.monotonic() > give_up_at:
                return set(found.split(b"\0")) - {b""}
            time.sleep(_PAUSE_S)
    return set()


def lowest_pid_of(leader: int, began: float) -> int:
    """Return the lowest number that a process of a command can have; 0: any.

    Numbers are given in turn: what a command has started has a higher one than its first process, unless they have
    begun anew since. `began` is a moment of `time.monotonic` before the first process was there.
    """
    is_young = time.monotonic() - began < _YOUNG_S
    return leader if is_young and newest_pid() >= leader else 0


def newest_pid() -> int:
    """Return the number that was given last, or 0 where no one says."""
    with suppress(OSError):
        return int(Path("/proc/loadavg").read_bytes().split()[-1])
    return 0


def _is_program(pid: int | str) -> bool:
    """Tell whether this is a program at all: threads of the kernel and those that have ended show no file."""
    with suppress(OSError):
        return bool(Path(f"/proc/{pid}/exe").readlink().name)
    return False


def _has_none(pid: int | str) -> bool:
    """Tell whether the environment of a program is empty, and not only not there yet: then its end is still at 0."""
    fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()  # the name before may hold anything
    start, end = fields[47:49]
    return start == end != b"0"


# Processes found by a mark in their environment, where there is /proc.
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
