"""Restores hooks and settings of git repositories nested in a project.

Git follows an index entry into a nested repository and obeys its settings, so a `git status` of the project can execute
what a run has put there. A folder that is shaped like a bare repository is obeyed without any `.git`, by git in it or
below it. The sandbox protects only the top repository. So every nested repository is read before a drive and compared
after it, also in folders of which no snapshot is taken.
"""

import errno
import os
import secrets
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from agent_fabric.domain.policy.protected import GIT_FOLDER
from agent_fabric.infrastructure.sandbox.mounts_protected import is_harmless, put_aside_orders
from agent_fabric.infrastructure.tree_walk import TreeEntry, walk_tree

_OURS = ".fabric"
_BARE = "."
_HEAD = "HEAD"
_HOOKS = "hooks/"
_SINGLE = ("commondir", "config", "config.worktree")
_ASIDE = ".refused"
_MAX_ASIDE = 100
_MAX_DEPTH = 200
_MAX_BYTES = 1 << 20
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Orders(NamedTuple):
    """Hooks and settings of one repository."""

    kind: int
    """Whether `.git` is a folder, a file or a link."""
    said: Mapping[str, bytes]
    """The beginning of each file in it by name, or of `.git` itself under an empty one."""


def nested_repositories(root: Path) -> dict[str, Orders]:
    """Return what git would obey below a folder, by the path of each repository, the folder's own `.git` left out."""
    found: dict[str, Orders] = {}
    for path, parent, name in _walk(root, open_up=False):
        with suppress(OSError):
            found[path] = _orders(parent, name)
    return found


def put_back_orders(root: Path, before: Mapping[str, Orders]) -> list[str]:
    """Put aside what git would obey and was not there before, and put back what was; return the paths."""
    undone: list[str] = []
    for path, parent, git_name in _walk(root, open_up=True):
        known, now = before.get(path), _orders(parent, git_name, open_up=True)
        if now == known:
            continue
        if known is None and git_name == _BARE:
            if any(not _is_harmless(name, said) for name, said in now.said.items()) and _put_aside(parent, _HEAD):
                undone.append(f"{path}/{_HEAD}")
        elif known is None and now.kind == stat.S_IFDIR:
            with _open_repository(parent, GIT_FOLDER, open_up=True) as folder:
                undone += [f"{path}/{name}" for name in put_aside_orders(folder, _put_aside)]
        elif known is None or now.kind != known.kind or now.kind != stat.S_IFDIR:
            _put_aside(parent, GIT_FOLDER)
            if known is not None and known.kind == stat.S_IFREG:
                _write(parent, GIT_FOLDER, known.said[""])
            elif known is not None and known.kind == stat.S_IFLNK:
                os.symlink(known.said[""], os.fsencode(GIT_FOLDER), dir_fd=parent)
            undone.append(path)
        else:
            undone += [f"{path}/{name}" for name in _put_back(parent, git_name, known.said, now.said)]
    return undone


def _put_back(parent: int, git_name: str, known: Mapping[str, bytes], now: Mapping[str, bytes]) -> list[str]:
    changed = [name for name, said in now.items() if known.get(name) != said and not _is_harmless(name, said)]
    for name in changed:
        folder, _, last = name.rpartition("/")
        with _open_repository(parent, git_name) as git, _open_repository(git, folder or ".") as where:
            _put_aside(where, last)
            if 0 < len(known.get(name, b"")) < _MAX_BYTES and not known[name].startswith(b"\0"):
                _write(where, last, known[name], mode=0o755 if name.startswith(_HOOKS) else 0o644)
    return changed


def _is_harmless(name: str, said: bytes) -> bool:
    return name == "config" and len(said) < _MAX_BYTES and is_harmless(said.decode(errors="replace"))


def _walk(root: Path, *, open_up: bool) -> Iterator[tuple[str, int, str]]:
    """Yield each repository but the top's `.git`: its path, the open folder in which it lies, its name there."""

    def enter(found: TreeEntry) -> bool:
        if found.name == GIT_FOLDER or found.path == _OURS:
            return False
        if open_up:
            with suppress(OSError):  # someone else's, or gone
                _open_up(found.folder, found.name)
        return True

    for found in walk_tree(root, max_depth=_MAX_DEPTH, enter=enter, skip=_is_other_file):
        name = found.name.lower()  # some file systems do not tell letters apart
        if name == GIT_FOLDER and found.parents and _exists(found.folder, GIT_FOLDER):
            yield "/".join((*found.parents, GIT_FOLDER)), found.folder, GIT_FOLDER
        elif name == _HEAD.lower() and _is_bare(found.folder):
            yield "/".join(found.parents) or _BARE, found.folder, _BARE


def _is_other_file(found: os.DirEntry[str]) -> bool:
    return found.name.lower() not in (GIT_FOLDER, _HEAD.lower()) and not found.is_dir(follow_symlinks=False)


def _is_bare(folder: int) -> bool:
    """Tell whether git would take the folder itself for a repository, or would once a link in it leads somewhere."""
    if not _exists(folder, _HEAD):
        return False
    return _exists(folder, "commondir") or (_exists(folder, "objects") and _exists(folder, "refs"))


@contextmanager
def _open_repository(parent: int, name: str, *, open_up: bool = False) -> Iterator[int]:
    """Open a folder; with `open_up` also one that its owner has closed to listing, through which git still finds."""
    if open_up:
        with suppress(PermissionError):  # someone else's
            _open_up(parent, name)
    folder = os.open(name, _FOLDER, dir_fd=parent)
    try:
        yield folder
    finally:
        os.close(folder)


def _open_up(parent: int, name: str) -> None:
    place = os.open(name, _FOLDER | os.O_PATH, dir_fd=parent)
    try:
        mode = os.fstat(place).st_mode
        if mode & stat.S_IXUSR == 0 or mode & stat.S_IRUSR == 0:
            os.chmod(f"/proc/self/fd/{place}", stat.S_IMODE(mode) | stat.S_IRWXU)  # noqa: PTH101 - an open folder
    finally:
        os.close(place)


def _orders(parent: int, git_name: str, *, open_up: bool = False) -> Orders:
    kind = stat.S_IFMT(os.stat(git_name, dir_fd=parent, follow_symlinks=False).st_mode)
    if kind == stat.S_IFLNK:
        return Orders(kind, {"": os.fsencode(os.readlink(git_name, dir_fd=parent))})
    if kind != stat.S_IFDIR:
        return Orders(kind, {"": _beginning(parent, git_name)})
    said: dict[str, bytes] = {}
    with _open_repository(parent, git_name, open_up=open_up) as folder:
        said |= {name: _beginning(folder, name) for name in _SINGLE if _exists(folder, name)}
        try:
            with _open_repository(folder, "hooks", open_up=open_up) as hooks:
                names = os.listdir(hooks)  # noqa: PTH208 - an open folder
                said |= {_HOOKS + name: _beginning(hooks, name) for name in names if not name.endswith(".sample")}
        except FileNotFoundError:
            pass
        except OSError:  # a link, or no folder
            said["hooks"] = _beginning(folder, "hooks")
    return Orders(kind, said)


def _exists(folder: int, name: str) -> bool:
    with suppress(OSError):
        os.stat(name, dir_fd=folder, follow_symlinks=False)
        return True
    return False


def _beginning(folder: int, name: str) -> bytes:
    """Return the beginning of a file, or something that no file begins with."""
    try:
        file = os.open(name, _FILE, dir_fd=folder)
    except OSError as problem:
        target = os.fsencode(os.readlink(name, dir_fd=folder)) if problem.errno == errno.ELOOP else b""
        return b"\0not to be read\0" + target
    try:
        return os.read(file, _MAX_BYTES) if stat.S_ISREG(os.fstat(file).st_mode) else b"\0not a file\0"
    finally:
        os.close(file)


def _put_aside(folder: int, name: str) -> bool:
    with suppress(OSError):
        os.fchmod(folder, stat.S_IMODE(os.fstat(folder).st_mode) | stat.S_IRWXU)  # or nothing in it can be renamed
    for nth in range(_MAX_ASIDE + 1):
        # The last is one that no one can have taken beforehand.
        aside = f"{name}{_ASIDE}{nth or ''}" if nth < _MAX_ASIDE else f"{name}{_ASIDE}-{secrets.token_hex(8)}"
        if not _exists(folder, aside):
            with suppress(OSError):
                os.rename(name, aside, src_dir_fd=folder, dst_dir_fd=folder)
                return True
    return False


def _write(folder: int, name: str, data: bytes, *, mode: int = 0o644) -> None:
    with suppress(OSError):
        file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode, dir_fd=folder)
        try:
            os.write(file, data)
        finally:
            os.close(file)
