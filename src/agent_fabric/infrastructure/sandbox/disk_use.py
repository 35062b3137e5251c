"""What the commands of a box have written, counted from outside. Needs nothing but the standard library."""

import os
import stat
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress

from agent_fabric.infrastructure.sandbox.process_use import uses_memory
from agent_fabric.infrastructure.tree_walk import TreeTooDeep, walk_tree

_STARTING_S = 0.05
"""How long a process that is about to become a program may look like the one that starts it, which may not be seen."""


class OverLimit(Exception):
    """A limit on disk is exceeded, or cannot be checked. The text follows "used"."""


def written_since(folder: str | os.PathLike[str], since: float, *, files: int, depth: int) -> int:
    """Return the bytes on disk of what was made or changed below a folder since a time.

    A file with several names counts once. A folder that cannot be listed and that no one has changed since was there
    before, with all that is in it.

    Raises:
        OverLimit: there are more files or levels than may be, or a folder cannot be listed.
    """
    size = made = 0
    linked = set[tuple[int, int]]()
    for entry in walk_tree(folder, max_depth=depth):
        status = entry.status
        if isinstance(entry.problem, TreeTooDeep):
            raise OverLimit(f"folders in more than {depth} levels (sandbox.limits.depth = {depth})")
        if status.st_ctime < since:
            continue
        if entry.problem is not None:
            raise OverLimit(
                f"a folder that cannot be counted, {entry.path!r} ({entry.problem.strerror}), so that "
                "sandbox.limits.total_disk_mb cannot be checked"
            )
        made += 1
        if made > files:
            raise OverLimit(f"more than {files:,} new files and folders (sandbox.limits.files = {files})")
        if status.st_nlink > 1 and not stat.S_ISDIR(status.st_mode):
            identity = (status.st_dev, status.st_ino)
            if identity in linked:
                continue
            linked.add(identity)
        size += status.st_blocks * 512
    return size


def open_but_removed(pids: Iterable[int], folders: Sequence[str | os.PathLike[str]]) -> int:
    """Return the bytes on the disks of these folders of files that have no name any more but are still held open.

    Raises:
        OverLimit: a process does not let its open files be seen.
    """
    devices, sizes = {os.stat(folder).st_dev for folder in folders}, dict[tuple[int, int], int]()  # noqa: PTH116
    for pid in pids:
        for name in _open_files(pid):
            with suppress(OSError):
                status = os.stat(f"/proc/{pid}/fd/{name}")  # noqa: PTH116 - a path object per file costs
                if status.st_nlink == 0 and status.st_dev in devices:
                    sizes[status.st_dev, status.st_ino] = status.st_blocks * 512
    return sum(sizes.values())


def _open_files(pid: int) -> list[str]:
    deadline = time.monotonic() + _STARTING_S
    while True:
        try:
            return os.listdir(f"/proc/{pid}/fd")  # noqa: PTH208 - as above
        except PermissionError:
            if not uses_memory(pid):  # it has ended, and only waits to be cleared away
                return []
        except OSError:  # it is gone
            return []
        if time.monotonic() > deadline:
            raise OverLimit(
                "a process that hides its open files, so that sandbox.limits.total_disk_mb cannot be checked"
            )
        time.sleep(_STARTING_S / 10)
