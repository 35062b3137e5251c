"""The kernel's own count of what a box uses in all: a control group, where we may make one."""

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from agent_fabric.config.schema.sandbox import SandboxLimits

_MEGABYTE = 1 << 20
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
        """Take the group away, if nobody is in it."""
        with suppress(OSError):
            self.folder.rmdir()


def make_control_group(run_id: str, mark: str, limits: SandboxLimits) -> ControlGroup | None:
    """Make a group that limits memory; None where we may not, or there is no such thing."""
    memory = limits.total_memory_mb * _MEGABYTE
    parents = _parents()
    for kind, settings in _SETTINGS.items():
        if kind in parents:
            folder = parents[kind] / f"{_PREFIX}{run_id}-{mark}"
            if _make(folder, {name: memory if value is None else value for name, value in settings.items()}):
                return ControlGroup(folder)
            ControlGroup(folder).remove()
    return None


def remove_left_groups(run_id: str) -> None:
    """Take away what an earlier driver of the run left."""
    for parent in _parents().values():
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


def _parents() -> dict[str, Path]:
    """Return where groups may be made, by kind of tree."""
    found: dict[str, Path] = {}
    with suppress(OSError, ValueError):
        mounts = _mounted()
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _, kinds, path = line.split(":", 2)
            for kind in kinds.split(","):
                if kind in mounts:
                    # In the second version a group with processes of its own has no room for groups with limits.
                    own = Path(path).parent if kind == "" else Path(path)
                    found[kind] = mounts[kind] / str(own).lstrip("/")
    return {kind: parent for kind, parent in found.items() if os.access(parent, os.W_OK)}


def _mounted() -> dict[str, Path]:
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
