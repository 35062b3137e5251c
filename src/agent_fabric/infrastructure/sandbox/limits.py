"""How much a box's commands may use: each process alone by the kernel's limits, all together by looking."""

import os
import platform
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from agent_fabric.config.schema.sandbox import SandboxLimits
from agent_fabric.infrastructure.sandbox.disk_use import OverLimit, open_but_removed, written_since
from agent_fabric.infrastructure.sandbox.process_use import parent_of, tasks_of_user, use_more_memory

LOOK_EVERY_S = 0.1
"""How often a working box is looked at."""

_MEGABYTE = 1 << 20
_OPEN_FILES = 4096
_COUNTED_PER_BOX = (5, 14)
"""Since this version the kernel counts a user's processes for each user namespace apart."""
_WHOLE_LOOK_EVERY_S = 5.0
_OVER_MB = 64
"""How much a box whose workspace is too large already may add, so that it can tidy up."""


def process_limits(limits: SandboxLimits) -> list[str]:
    """Return the limits of each process, as the worker takes them."""
    memory, file_size = limits.memory_mb * _MEGABYTE, limits.file_size_mb * _MEGABYTE
    processes = limits.processes
    if _kernel() < _COUNTED_PER_BOX:
        processes += tasks_of_user()
    # Not the address space: programs reserve much more of it than they ever use.
    return [f"DATA={memory}", f"FSIZE={file_size}", f"NPROC={processes}", f"NOFILE={_OPEN_FILES}", "CORE=0"]


class Watch:
    """Looks at what a box uses in all."""

    def __init__(self, limits: SandboxLimits, top: int, workspace: Path) -> None:
        """Watch the processes below `top` and what they add to the workspace."""
        self._limits = limits
        self._top = top
        self._workspace = workspace
        self.since = time.time()
        self.free = _free(workspace)
        self._disk_limit = limits.total_disk_mb * _MEGABYTE
        self._whole_look_at = time.monotonic() + _WHOLE_LOOK_EVERY_S

    def carry_on(self, before: "Watch") -> None:
        """Count from where an earlier box of the same run began; what is too much already may grow a little."""
        self.since, self.free = before.since, before.free
        with suppress(OverLimit):  # then there is until the first look to tidy up
            self._disk_limit = max(self._disk_limit, self._added() + _OVER_MB * _MEGABYTE)

    def look(self) -> str:
        """Return which limit is exceeded, in words that follow "used"; empty: none. Blocks; may take a while."""
        parents = _parents()
        pids = list(_below(self._top, parents))
        memory = self._limits.total_memory_mb * _MEGABYTE
        if use_more_memory(pids, memory):
            return f"more than {self._limits.total_memory_mb} MB of memory in all (sandbox.limits.total_memory_mb)"
        # Counting files is dear: only when so much less is free that it may be too much, and now and then.
        is_less_free = self.free - _free(self._workspace) > self._disk_limit
        if is_less_free or time.monotonic() > self._whole_look_at:
            begun = time.monotonic()
            try:
                added = self._added()
                if is_less_free:
                    added += open_but_removed(_commands(self._top, parents), [self._workspace])
            except OverLimit as problem:
                return str(problem)
            if added > self._disk_limit:
                return f"more than {self._limits.total_disk_mb} MB of disk in all (sandbox.limits.total_disk_mb)"
            took = time.monotonic() - begun
            self._whole_look_at = time.monotonic() + max(_WHOLE_LOOK_EVERY_S, 50 * took)
        return ""

    def _added(self) -> int:
        """Return the size of what was made or changed in the workspace since the box was made.

        Raises:
            OverLimit: that is too much, or cannot be counted.
        """
        limits = self._limits
        return written_since(self._workspace, self.since, files=limits.files, depth=limits.depth)


def _parents() -> dict[int, list[int]]:
    """Return the children of every process that has some."""
    parents: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):  # noqa: PTH208 - a path object per process costs
        if name.isdigit():
            with suppress(OSError, IndexError):
                parents.setdefault(parent_of(name), []).append(int(name))
    return parents


def _below(top: int, parents: Mapping[int, list[int]]) -> Iterator[int]:
    waiting = [top]
    while waiting:
        below = parents.get(waiting.pop(), [])
        yield from below
        waiting += below


def _commands(top: int, parents: Mapping[int, list[int]]) -> Iterator[int]:
    """Return what runs below the keepers of a box: not these, which hide from commands as their worker does."""
    for keeper in parents.get(top, []):
        yield from _below(keeper, parents)


def _free(folder: Path) -> int:
    status = os.statvfs(folder)
    return status.f_bfree * status.f_frsize


def _kernel() -> tuple[int, ...]:
    numbers = platform.release().split("-")[0].split(".")[:2]
    return tuple(int(number) for number in numbers if number.isdigit())
