"""What the commands of a box have written, counted from outside. Needs nothing but the standard library."""

import os
import stat

from agent_fabric.infrastructure.tree_walk import TreeTooDeep, walk_tree


class OverLimit(Exception):
    """A limit on disk is exceeded, or cannot be checked. The text follows "used"."""


def written_since(folder: str | os.PathLike[str], since: float, *, files: int, depth: int) -> int:
    """Return the bytes on disk of what was made or changed below a folder since a time.

    A file with several names counts once. A folder that cannot be listed and that nobody has changed since was there
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
