"""Files of a workspace that other programs obey: read-only in a box, and put aside where a command makes them.

A box can only cover what exists. Whatever appears at the other names while a command runs is renamed within a tenth of
a second (`.envrc` to `.envrc.refused`), and for good when the command has ended; its caller is told. So nothing has to
stand there for the missing ones, where a person would wonder what it is. Of a `.git` folder that a command has made,
what git would execute or obey is put aside, and the rest may stay.
"""

import os
import re
import secrets
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from agent_fabric.domain.policy.protected import GIT_FOLDER

PutAside = Callable[[int, str], bool]
"""Renames a name in an open folder; tells whether it was there."""

_KEPT_HOOK = ".sample"
_NEVER = ("commondir", "config.worktree", "modules", "worktrees")
_MAX_BYTES = 64 * 1024
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK

_SECTION = re.compile(r'\[\s*([a-z]+)(?:\s+"[^"\\]*")?\s*\]')
_SETTING = re.compile(r"([a-z]+)\s*=\s*[^\\]*")
_HARMLESS = {
    "core": {"repositoryformatversion", "filemode", "bare", "logallrefupdates", "ignorecase", "symlinks", "autocrlf"},
    "user": {"name", "email"},
    "init": {"defaultbranch"},
    "remote": {"url", "fetch"},
    "branch": {"remote", "merge", "rebase"},
    "extensions": {"objectformat", "refstorage"},
    "pull": {"rebase"},
    "commit": {"gpgsign"},
}
"""Settings that start nothing. Any other, and the whole file is put aside."""


def put_aside_orders(folder: int, put_aside: PutAside) -> list[str]:
    """Put aside what git would obey in this folder; return the names."""
    names = [name for name in _NEVER if _exists(folder, name)]
    if _has_hooks(folder):
        names.append("hooks")
    if _exists(folder, "config") and not is_harmless(_text(folder, "config")):
        names.append("config")
    return [name for name in names if put_aside(folder, name)]


def is_repository(folder: int) -> bool:
    """Whether git takes this folder itself for a repository and obeys its settings, as it does with a bare one."""
    has = {name for name in ("HEAD", "objects", "refs", "commondir") if _exists(folder, name)}
    return has >= {"HEAD", "objects", "refs"} or has >= {"HEAD", "commondir"}


def is_harmless(text: str | None) -> bool:
    """Whether git's settings only say who and where, and start nothing. What cannot be read for sure does not pass."""
    if text is None:
        return False
    harmless: set[str] = set()
    for line in (line.strip() for line in text.casefold().splitlines()):
        if not line or line[0] in "#;":
            continue
        if section := _SECTION.fullmatch(line):
            harmless = _HARMLESS.get(section[1], set())
        elif not (setting := _SETTING.fullmatch(line)) or setting[1] not in harmless:
            return False
    return True


def _has_hooks(folder: int) -> bool:
    try:
        hooks = os.open("hooks", _FOLDER, dir_fd=folder)
    except FileNotFoundError:
        return False
    except OSError:  # a link, or not a folder
        return True
    try:
        return any(not name.endswith(_KEPT_HOOK) for name in os.listdir(hooks))  # noqa: PTH208 - an open folder
    finally:
        os.close(hooks)


def _exists(folder: int, name: str) -> bool:
    with suppress(OSError):
        os.stat(name, dir_fd=folder, follow_symlinks=False)
        return True
    return False


def _text(folder: int, name: str) -> str | None:
    """Return a short text; None if it is none."""
    try:
        file = os.open(name, _FILE, dir_fd=folder)
    except OSError:
        return None
    try:
        data = os.read(file, _MAX_BYTES)
        return data.decode() if len(data) < _MAX_BYTES else None
    except (OSError, UnicodeDecodeError):
        return None
    finally:
        os.close(file)


_ASIDE = ".refused"
_MAX_ASIDE = 100
_HEAD = "HEAD"
"""Without it git takes no folder for a repository."""
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class ProtectedPaths:
    """The protected names of one workspace, as one box after the other uses it.

    Everything here is done by names in open folders, since commands may put links there at any moment.
    """

    def __init__(self, workspace: Path, names: Iterable[str]) -> None:
        """Take the names as paths below the workspace, with one folder above them at most."""
        self._workspace = workspace
        self._names = sorted(names, key=lambda one: (one.count("/"), one))
        self._around = sorted({GIT_FOLDER, *(name.rpartition("/")[0] for name in self._names)} - {""})
        """Folders in which some of the names lie."""
        self._missing: set[str] | None = None
        """Where nothing was when a box was made; None: there was no box yet."""
        self._links: dict[str, str] = {}
        """Those that are links, which cannot be mounted over, and what they say."""
        self._new_around: set[str] = set()
        """Folders around names that were not there when a box was made."""
        self._was_repository = False
        """Whether the workspace itself was one, without a `.git`, when a box was made."""

    def cover(self) -> Iterator[tuple[Path, bool]]:
        """Yield what to mount over itself, outer ones first, and whether it may be written.

        A folder around a protected path is mounted too, or it could be moved away with what is in it.
        """
        kinds = self._kinds()
        self._missing = {name for name, kind in kinds.items() if not kind}
        self._links = {}
        with self._open_path("") as top:
            around = {folder: _kind(top, folder) for folder in self._around}
            self._was_repository = is_repository(top)
        self._new_around = {folder for folder, kind in around.items() if not kind}
        for folder, kind in around.items():
            if kind in {stat.S_IFREG, stat.S_IFDIR}:  # a file `.git` says where the real one is
                yield self._workspace / folder, kind == stat.S_IFDIR
        for name, kind in kinds.items():
            if kind in {stat.S_IFREG, stat.S_IFDIR}:
                yield self._workspace / name, False
            elif kind == stat.S_IFLNK:
                with suppress(OSError):
                    self._links[name] = str((self._workspace / name).readlink())

    def is_changed(self) -> bool:
        """Whether something is at a name where nothing was. Between commands: a person or another program made it."""
        if self._missing is None:
            return False
        return any(self._kinds(self._missing).values()) or bool(self._new_links())

    def undo(self, *, has_ended: bool) -> list[str]:
        """Put aside what was made at missing names and put back links that were replaced; return what was undone.

        A `.git` that a command has made may stay, but for what git would execute; that waits until the command
        `has_ended`.
        """
        undone = []
        for name, kind in self._kinds(self._missing or ()).items():
            if kind and not (self._is_git_new and name.startswith(f"{GIT_FOLDER}/")):
                with self._open_path(name) as folder:
                    if _put_aside(folder, _last(name)):
                        undone.append(name)
        for name, target in self._links.items():
            with self._open_path(name) as folder:
                if _put_back(folder, _last(name), target):
                    undone.append(name)
        with self._open_path("") as top:
            undone += [folder for folder in self._new_links() if _put_aside(top, folder)]
            if has_ended and not self._was_repository and is_repository(top) and _put_aside(top, _HEAD):
                undone.append(_HEAD)
        if self._is_git_new and has_ended:
            undone += self._look_at_new_git()
        return undone

    @property
    def _is_git_new(self) -> bool:
        return GIT_FOLDER in self._new_around

    def _new_links(self) -> list[str]:
        """Return links in the place of folders around names, whose targets would be obeyed like these."""
        with self._open_path("") as top:
            return [each for each in sorted(self._new_around - {GIT_FOLDER}) if _kind(top, each) == stat.S_IFLNK]

    def _look_at_new_git(self) -> list[str]:
        with self._open_path("") as top:
            kind = _kind(top, GIT_FOLDER)
            if kind not in {0, stat.S_IFDIR}:
                return [GIT_FOLDER] if _put_aside(top, GIT_FOLDER) else []
        with self._open_path(f"{GIT_FOLDER}/") as folder:
            return [f"{GIT_FOLDER}/{name}" for name in put_aside_orders(folder, _put_aside)] if folder >= 0 else []

    def _kinds(self, names: Iterable[str] | None = None) -> dict[str, int]:
        """Return what is at each name, links not followed; 0: nothing, or no folder above it."""
        wanted = self._names if names is None else sorted(names)
        found: dict[str, int] = {}
        for parent in sorted({name.rpartition("/")[0] for name in wanted}):
            with self._open_path(f"{parent}/" if parent else "") as folder:
                found |= {name: _kind(folder, _last(name)) for name in wanted if name.rpartition("/")[0] == parent}
        return found

    @contextmanager
    def _open_path(self, name: str) -> Iterator[int]:
        """Open the folder in which the name is; -1: there is none."""
        file = -1
        with suppress(OSError):
            file = _open_up(self._workspace)
            parent = name.rpartition("/")[0]
            if parent:
                outer, file = file, -1
                try:
                    file = _open_up(parent, outer)
                finally:
                    os.close(outer)
        try:
            yield file
        finally:
            if file >= 0:
                os.close(file)


def _last(name: str) -> str:
    return name.rpartition("/")[2]


def _kind(folder: int, name: str) -> int:
    if folder < 0:
        return 0
    try:
        return stat.S_IFMT(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    except OSError:
        return 0


def _open_up(path: Path | str, folder: int | None = None) -> int:
    """Open a folder; one of ours that a command has closed to us is opened again, or nothing in it could be undone."""
    place = os.open(path, _FOLDER | os.O_PATH, dir_fd=folder)
    try:
        status, itself = os.fstat(place), f"/proc/self/fd/{place}"
        if status.st_uid == os.geteuid() and status.st_mode & stat.S_IRWXU != stat.S_IRWXU:
            os.chmod(itself, stat.S_IMODE(status.st_mode) | stat.S_IRWXU)  # noqa: PTH101 - an open folder, not a path
        return os.open(".", _FOLDER, dir_fd=place)
    finally:
        os.close(place)


def _put_aside(folder: int, name: str) -> bool:
    """Rename something to a free name; tell whether it was there."""
    for nth in range(_MAX_ASIDE + 1):
        # The last is one that no one can have taken beforehand.
        aside = f"{name}{_ASIDE}{nth or ''}" if nth < _MAX_ASIDE else f"{name}{_ASIDE}-{secrets.token_hex(8)}"
        if not _kind(folder, aside):
            try:
                os.rename(name, aside, src_dir_fd=folder, dst_dir_fd=folder)
            except FileNotFoundError:
                return False
            except OSError:  # another was put there just now
                continue
            return True
    return False


def _put_back(folder: int, name: str, target: str) -> bool:
    """Make a link what it was; tell whether it was something else."""
    if folder < 0:
        return False
    with suppress(OSError):
        if os.readlink(name, dir_fd=folder) == target:
            return False
    _put_aside(folder, name)
    with suppress(OSError):
        os.symlink(target, name, dir_fd=folder)
    return True
