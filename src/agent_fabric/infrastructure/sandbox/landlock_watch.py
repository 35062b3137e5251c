"""What a command uses in all, looked at from outside, where the kernel's own limits count each process alone."""

import os
import time
from contextlib import suppress

from agent_fabric.infrastructure.sandbox.resource_use import (
    OverLimit,
    open_but_removed,
    parent_of,
    read_bytes,
    use_more_memory,
    written_since,
)

_LOOK_EVERY_S = 0.1
_MEGABYTE = 1 << 20
_WHOLE_LOOK_EVERY_S = 5.0


class Watch:
    """Looks now and then at the memory of a command's processes and at what it has written."""

    def __init__(self, limits: dict[str, int], folders: tuple[str, ...]) -> None:
        self._memory = limits["total_memory_mb"] * _MEGABYTE
        self._disk = limits["total_disk_mb"] * _MEGABYTE
        self._disk_allowed = self._disk
        self._files, self._depth = limits["files"], limits["depth"]
        self._folders = folders
        self._since = time.time()
        self._free_at_start = [_free(folder) for folder in folders]
        self._next = self._not_before = 0.0
        self._whole_look_at = time.monotonic() + _WHOLE_LOOK_EVERY_S

    def next_look_ms(self) -> int:
        """Return how long to wait before the next look."""
        return int(_LOOK_EVERY_S * 1000)

    def look(self) -> str:
        """Return which limit is exceeded by what is below this process; empty: none."""
        now = time.monotonic()
        if now < self._next:
            return ""
        self._next = now + _LOOK_EVERY_S
        pids = _below(os.getpid())
        if use_more_memory(pids, self._memory):
            return f"more than {self._memory // _MEGABYTE} MB of memory in all (sandbox.limits.total_memory_mb)"
        return self.look_at_disk()

    def look_at_disk(self) -> str:
        """Return the limit on disk if it is exceeded, or cannot be checked; empty: it is not."""
        try:
            if self._on_disk() > self._disk_allowed:
                return f"more than {self._disk // _MEGABYTE} MB of disk in all (sandbox.limits.total_disk_mb)"
        except OverLimit as problem:
            return str(problem)
        except OSError as problem:
            return f"a folder that cannot be counted ({problem.strerror})"
        return ""

    def begin(self) -> bool:
        """Begin to watch a command; tell whether earlier ones have used up the disk.

        Such a command may still take away, so it is held to what is there, or has some time before it is looked at.
        """
        try:
            there = self._on_disk()
        except OverLimit:
            self._whole_look_at = self._not_before = time.monotonic() + _WHOLE_LOOK_EVERY_S
            return True
        self._disk_allowed = max(self._disk, there + _MEGABYTE)
        return there > self._disk

    def _on_disk(self) -> int:
        """Return what was written since the box was made; 0 if it cannot be too much.

        Counting files is dear, so it is done only when so much less is free than at the start, and now and then.

        Raises:
            OverLimit: that is too much, or cannot be counted.
        """
        now = time.monotonic()
        if now < self._not_before:
            return 0
        lost = max(before - _free(folder) for before, folder in zip(self._free_at_start, self._folders, strict=True))
        if lost <= self._disk // 2 and now < self._whole_look_at:
            return 0
        written = sum(
            written_since(folder, self._since, files=self._files, depth=self._depth) for folder in self._folders
        )
        if lost > self._disk:
            written += open_but_removed(_below(os.getpid()), self._folders)
        took = time.monotonic() - now
        self._whole_look_at = time.monotonic() + max(_WHOLE_LOOK_EVERY_S, 50 * took)
        return written


def children(pid: int) -> list[int]:
    """Return the processes started by this one, or left to it."""
    try:
        text = read_bytes(f"/proc/{pid}/task/{pid}/children")
    except FileNotFoundError:
        return _children_by_search(pid)
    return [int(one) for one in text.split()]


def _children_by_search(pid: int) -> list[int]:
    found = []
    for name in os.listdir("/proc"):  # noqa: PTH208 - a path object per process costs
        if name.isdigit():
            with suppress(OSError, IndexError, ValueError):
                if parent_of(name) == pid:
                    found.append(int(name))
    return found


def _below(pid: int) -> list[int]:
    found, waiting = [], [pid]
    while waiting:
        below: list[int] = []
        with suppress(OSError):
            below = children(waiting.pop())
        found += below
        waiting += below
    return found


def _free(folder: str) -> int:
    status = os.statvfs(folder)
    return status.f_bfree * status.f_frsize
