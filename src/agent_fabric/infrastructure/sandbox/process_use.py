"""What processes use, read from /proc. Needs nothing but the standard library, as helpers in a box start with it."""

import os
from collections.abc import Sequence
from contextlib import suppress

_PAGE = os.sysconf("SC_PAGE_SIZE")


def use_more_memory(pids: Sequence[int], limit: int) -> bool:
    """Tell whether processes use more bytes together; what they share is looked at only when it matters."""
    return sum(map(_resident, pids)) > limit and sum(map(_proportional, pids)) > limit


def uses_memory(pid: int) -> bool:
    """Tell whether a process is alive: one that has ended, and waits to be cleared away, has no memory."""
    return _resident(pid) > 0


def parent_of(pid: int | str) -> int:
    """Return who started a process, or has it now.

    Raises:
        OSError, IndexError: it is gone.
    """
    return int(read_bytes(f"/proc/{pid}/stat").rsplit(b")", 1)[1].split()[1])


def tasks_of_user() -> int:
    """Return how many tasks this user has, as the kernel counts them for its limit."""
    count, user = 0, os.getuid()
    for name in os.listdir("/proc"):  # noqa: PTH208 - a path object per process costs
        if name.isdigit():
            with suppress(OSError):
                if os.stat(f"/proc/{name}").st_uid == user:  # noqa: PTH116 - as above
                    count += len(os.listdir(f"/proc/{name}/task"))  # noqa: PTH208 - as above
    return count


def read_bytes(path: str) -> bytes:
    """Read a file of the kernel's.

    Raises:
        OSError: it is not there.
    """
    with open(path, "rb") as file:  # noqa: PTH123 - helpers start faster without path objects
        return file.read()


def _resident(pid: int) -> int:
    with suppress(OSError, IndexError):
        return int(read_bytes(f"/proc/{pid}/statm").split()[1]) * _PAGE
    return 0


def _proportional(pid: int) -> int:
    """Return a process's memory with what it shares counted in part, or all of it where it does not let us see."""
    with suppress(OSError):
        for line in read_bytes(f"/proc/{pid}/smaps_rollup").splitlines():
            if line.startswith(b"Pss:"):
                return int(line.split()[1]) * 1024
    return _resident(pid)
