"""How many threads a model should compute with.

Imported by the child process: the standard library only.
"""

import math
import os
from pathlib import Path

_CPUS = Path("/sys/devices/system/cpu")
_CGROUPS = Path("/sys/fs/cgroup")


def usable_cores(cpus: Path = _CPUS, cgroups: Path = _CGROUPS, membership: Path = Path("/proc/self/cgroup")) -> int:
    """Return how many physical cores this process may use at once.

    Two threads on one core are no faster than one here: both wait for the same memory. More threads than a container's
    share of the machine are much slower: a thread that is out of turn makes all others wait.
    """
    allowed = _allowed_cpus()
    cores = {_core_of(cpu, cpus) for cpu in allowed}
    share = _container_share(cgroups, membership)
    return max(1, min(len(cores), len(cores) if share is None else math.floor(share)))


def _allowed_cpus() -> set[int]:
    if hasattr(os, "sched_getaffinity"):
        return os.sched_getaffinity(0)
    return set(range(os.cpu_count() or 1))


def _core_of(cpu: int, cpus: Path) -> str:
    """Return what all threads of one core have in common."""
    try:
        return (cpus / f"cpu{cpu}" / "topology" / "thread_siblings_list").read_text().strip() or f"cpu{cpu}"
    except OSError:
        return f"cpu{cpu}"


def _container_share(cgroups: Path, membership: Path) -> float | None:
    """Return how many CPUs' worth of time the container gets; None: no limit that we can see."""
    shares = [share for folder in _groups(cgroups, membership) if (share := _share(folder)) is not None]
    return min(shares, default=None)


def _groups(cgroups: Path, membership: Path) -> set[Path]:
    found = {cgroups, cgroups / "cpu"}
    try:
        lines = membership.read_text().splitlines()
    except OSError:
        return found
    for line in lines:
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number == "0" or "cpu" in controllers.split(","):
            base = cgroups if number == "0" else cgroups / "cpu"
            own = base / path.strip("/")
            found |= {own, *(parent for parent in own.parents if parent.is_relative_to(base))}
    return found


def _share(folder: Path) -> float | None:
    try:
        quota, _, period = (folder / "cpu.max").read_text().strip().partition(" ")
        return None if quota == "max" else int(quota) / int(period)
    except (OSError, ValueError, ZeroDivisionError):
        pass
    try:
        quota_us = int((folder / "cpu.cfs_quota_us").read_text())
        return quota_us / int((folder / "cpu.cfs_period_us").read_text()) if quota_us > 0 else None
    except (OSError, ValueError, ZeroDivisionError):
        return None
