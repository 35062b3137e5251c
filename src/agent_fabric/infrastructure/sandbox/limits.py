"""How much the commands of a box may use: each by the kernel, all together by looking or by a control group."""

import os
import platform
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from agent_fabric.config.schema.sandbox import SandboxLimits
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.infrastructure.sandbox.resource_use import (
    OverLimit,
    open_but_removed,
    parent_of,
    tasks_of_user,
    use_more_memory,
    written_since,
)

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
            self._disk_limit = max(self._disk_limit, self._sum_limits() + _OVER_MB * _MEGABYTE)

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
                added = self._sum_limits()
                if is_less_free:
                    added += open_but_removed(_commands(self._top, parents), [self._workspace])
            except OverLimit as problem:
                return str(problem)
            if added > self._disk_limit:
                return f"more than {self._limits.total_disk_mb} MB of disk in all (sandbox.limits.total_disk_mb)"
            took = time.monotonic() - begun
            self._whole_look_at = time.monotonic() + max(_WHOLE_LOOK_EVERY_S, 50 * took)
        return ""

    def _sum_limits(self) -> int:
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


_PREFIX = "fabric-"
_SETTINGS: dict[str, dict[str, int | None]] = {
    "memory": {"memory.limit_in_bytes": None},
    "": {"memory.max": None, "memory.swap.max": 0, "memory.oom.group": 0},
}
"""What is set, by kind of tree; None: the limit. The second version has one tree for all kinds, here without a name."""


@dataclass(frozen=True, slots=True)
class ControlGroup:
    """The control group of one box. The number of processes is limited otherwise: each group costs time."""

    folder: Path

    def add(self, pid: int) -> None:
        """Make a process a member, with whatever it starts from then on. May take 10 ms, unless it is one already."""
        if f"/{self.folder.name}\n" in Path(f"/proc/{pid}/cgroup").read_text():
            return
        (self.folder / "cgroup.procs").write_text(str(pid))

    def killed_for_memory(self) -> int:
        """Return how many processes the kernel has ended here because there was no memory left."""
        for name in ("memory.events", "memory.oom_control"):
            with suppress(OSError):
                for line in (self.folder / name).read_text().splitlines():
                    if line.startswith("oom_kill "):
                        return int(line.split()[1])
        return 0

    def remove(self) -> None:
        """Take the group away, if no process is in it."""
        with suppress(OSError):
            self.folder.rmdir()


def make_control_group(run_id: str, mark: str, limits: SandboxLimits) -> ControlGroup | None:
    """Make a group that limits memory; None where we may not, or there is no such thing."""
    memory = limits.total_memory_mb * _MEGABYTE
    parents = _group_parents()
    for kind, settings in _SETTINGS.items():
        if kind in parents:
            folder = parents[kind] / f"{_PREFIX}{run_id}-{mark}"
            if _make(folder, {name: memory if value is None else value for name, value in settings.items()}):
                return ControlGroup(folder)
            ControlGroup(folder).remove()
    return None


def remove_left_groups(run_id: str) -> None:
    """Take away what an earlier driver of the run left."""
    for parent in _group_parents().values():
        with suppress(OSError):
            for folder in parent.glob(f"{_PREFIX}{run_id}-*"):
                with suppress(OSError):
                    folder.rmdir()


def _make(folder: Path, settings: dict[str, int]) -> bool:
    try:
        folder.mkdir()
        for name, value in settings.items():
            if value or (folder / name).exists():
                (folder / name).write_text(str(value))
    except OSError:
        return False
    return os.access(folder / "cgroup.procs", os.W_OK)


def _group_parents() -> dict[str, Path]:
    """Return where groups may be made, by kind of tree."""
    found: dict[str, Path] = {}
    with suppress(OSError, ValueError):
        mounts = _mounts()
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _, kinds, path = line.split(":", 2)
            for kind in kinds.split(","):
                if kind in mounts:
                    # In the second version a group with processes of its own has no room for groups with limits.
                    own = Path(path).parent if kind == "" else Path(path)
                    found[kind] = mounts[kind] / str(own).lstrip("/")
    return {kind: parent for kind, parent in found.items() if os.access(parent, os.W_OK)}


def _mounts() -> dict[str, Path]:
    found: dict[str, Path] = {}
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        before, _, after = line.partition(" - ")
        kind, _, options = after.split(" ", 2)
        place = Path(before.split()[4])
        if kind == "cgroup2":
            if "memory" in (place / "cgroup.controllers").read_text().split():
                found[""] = place
        elif kind == "cgroup":
            for option in options.split(" ")[-1].split(","):
                if option == "memory":
                    found[option] = place
    return found
