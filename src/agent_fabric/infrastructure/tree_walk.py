"""Walks and removes trees of folders that someone else made: of any depth, and while they change.

Everything goes by open folders, so no path can be too long and no link is followed. Nothing recurses. Needs nothing but
the standard library: the programs around a box use it, too.
"""

import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import NamedTuple

MAX_DEPTH = 100
"""Levels that a walk goes down. Each level takes two open files."""
_REMOVED_AT_ONCE = 50
"""Levels below which a folder is moved up before it is removed."""
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_GONE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})
_OWNER = stat.S_IRWXU


class TreeTooDeep(OSError):
    """A folder lies deeper than a walk goes."""


class TreeEntry(NamedTuple):
    """Something below the top of a tree."""

    folder: int
    """The open folder in which it lies; only until the walk continues."""
    name: str
    status: os.stat_result
    parents: tuple[str, ...]
    """The folders between the top and it."""
    problem: OSError | None = None
    """Why a folder cannot be listed; None: it is walked through next."""

    @property
    def path(self) -> str:
        """The path below the top."""
        return "/".join((*self.parents, self.name))


def walk_tree(
    top: str | os.PathLike[str],
    *,
    max_depth: int = MAX_DEPTH,
    enter: Callable[[TreeEntry], bool] | None = None,
    skip: Callable[[os.DirEntry[str]], bool] | None = None,
) -> Iterator[TreeEntry]:
    """Yield everything below a folder, each folder before what is in it. What is gone meanwhile is left out.

    A folder that `enter` refuses is yielded, but not walked through. What `skip` names is left out.

    Raises:
        OSError: the folder itself cannot be listed.
    """
    opened = [os.open(top, _FOLDER & ~os.O_NOFOLLOW)]
    listed: list[Iterator[os.DirEntry[str]]] = []
    parents: list[tuple[str, ...]] = [()]
    try:
        listed.append(os.scandir(opened[0]))
        while listed:
            found = next(listed[-1], None)
            if found is None:
                listed.pop().close()  # type: ignore[attr-defined]  # scandir's own iterator
                os.close(opened.pop())
                parents.pop()
                continue
            if skip is not None and skip(found):
                continue
            try:
                status = found.stat(follow_symlinks=False)
            except OSError:
                continue
            entry = TreeEntry(opened[-1], found.name, status, parents[-1])
            if not stat.S_ISDIR(status.st_mode) or (enter is not None and not enter(entry)):
                yield entry
                continue
            inner = -1
            try:
                if len(listed) >= max_depth:
                    raise TreeTooDeep(errno.ENAMETOOLONG, f"it lies deeper than {max_depth} folders")
                inner = os.open(found.name, _FOLDER, dir_fd=opened[-1])
                inside = os.scandir(inner)
            except OSError as problem:
                if inner >= 0:
                    os.close(inner)
                if problem.errno not in _GONE:
                    yield entry._replace(problem=problem)
                continue
            opened.append(inner)
            listed.append(inside)
            parents.append((*parents[-1], found.name))
            yield entry
    finally:
        for each in listed:
            each.close()  # type: ignore[attr-defined]  # as above
        for folder in opened:
            os.close(folder)


def remove_tree(top: str | os.PathLike[str], *, dir_fd: int | None = None) -> int:
    """Remove a folder with everything in it, as far as possible, and return the size of what was removed.

    Folders that their owner has closed are opened. A link is not followed, and not removed.
    """
    try:
        folder = _open_to_remove(os.fspath(top), dir_fd)
    except OSError:
        return 0
    try:
        size = _empty(folder)
    finally:
        os.close(folder)
    with suppress(OSError):
        os.rmdir(top, dir_fd=dir_fd)
    return size


class _Level:
    """A folder that is being emptied."""

    __slots__ = ("folder", "left", "name")

    def __init__(self, folder: int, name: str) -> None:
        self.folder = folder
        self.name = name
        self.left = set[str]()
        """What could not be removed."""


def _empty(top: int) -> int:
    size = moved = 0
    levels = [_Level(top, "")]
    try:
        while levels:
            level = levels[-1]
            inner, freed = _remove_files(level)
            size += freed
            if inner is None:
                levels.pop()
                if levels:
                    os.close(level.folder)
                    _remove_folder(levels[-1], level.name)
                continue
            try:
                if len(levels) > _REMOVED_AT_ONCE:
                    moved += 1
                    os.rename(inner, f".removed-{os.getpid()}-{moved}", src_dir_fd=level.folder, dst_dir_fd=top)
                else:
                    levels.append(_Level(_open_to_remove(inner, level.folder), inner))
            except OSError:
                level.left.add(inner)
    finally:
        for level in levels[1:]:
            os.close(level.folder)
    return size


def _remove_files(level: _Level) -> tuple[str | None, int]:
    """Remove what is no folder, up to the first folder; return that, and the size of what was removed."""
    size = 0
    try:
        entries = os.scandir(level.folder)
    except OSError:
        return None, 0
    with entries:
        for one in entries:
            if one.name in level.left:
                continue
            with suppress(OSError):
                size += one.stat(follow_symlinks=False).st_size
            if one.is_dir(follow_symlinks=False):
                return one.name, size
            try:
                os.unlink(one.name, dir_fd=level.folder)
            except OSError:
                level.left.add(one.name)
    return None, size


def _remove_folder(level: _Level, name: str) -> None:
    try:
        os.rmdir(name, dir_fd=level.folder)
    except OSError:
        level.left.add(name)


def _open_to_remove(name: str, parent: int | None) -> int:
    """Open a folder so that what is in it can be removed, whatever its owner has forbidden."""
    try:
        folder = os.open(name, _FOLDER, dir_fd=parent)
    except PermissionError:
        place = os.open(name, _FOLDER | getattr(os, "O_PATH", 0), dir_fd=parent)
        try:
            os.chmod(f"/proc/self/fd/{place}", _OWNER)  # noqa: PTH101 - an open folder
        finally:
            os.close(place)
        folder = os.open(name, _FOLDER, dir_fd=parent)
    mode = os.fstat(folder).st_mode
    if mode & _OWNER != _OWNER:
        with suppress(OSError):  # not ours: then it stays
            os.fchmod(folder, stat.S_IMODE(mode) | _OWNER)
    return folder
