"""What the commands of a box use, read from outside: memory, tasks and disk.

Needs nothing but the standard library, as helpers in a box start with it.
"""

import os
import stat
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress

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


# Of processes, read from /proc.
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
