"""Files beneath one folder, and never outside it.

A path is opened in one step by the kernel (`openat2` with RESOLVE_BENEATH) or, where that is missing, component by
component without following any link. It is never checked first and opened later: that leaks as soon as someone swaps
a folder for a link in between. Whatever has to be created is created by its bare name in a folder that is already
open. Where some names are hidden or protected, links are taken apart here, step by step, so that the names on the way
are the real ones.
"""

import ctypes
import errno
import heapq
import os
import platform
import secrets
import stat
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple

NOT_ENTERED = frozenset({b".git", b".venv", b"__pycache__", b"node_modules"})
"""Folders that programs fill by themselves: a listing names them, and shows what is in them only if asked for them."""

_SYS_OPENAT2 = 437
_OPENAT2_MACHINES = frozenset({"x86_64", "aarch64"})
_RESOLVE_NO_MAGICLINKS = 0x02
_RESOLVE_BENEATH = 0x08
_RACES_TOLERATED = 100
"""The kernel gives up (EAGAIN) when something was renamed while it resolved `..`; trying again is meant."""

_LOOK = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
_FOLDER = _LOOK | os.O_DIRECTORY
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC

_MAX_LINKS = 40
"""As the system has it."""
_MAX_NAME_BYTES = 255
_MAX_PATH_BYTES = 4095
_SHOWN_CHARS = 200
_READ_BYTES = 1 << 20


class _Wanted(NamedTuple):
    """A path taken apart: its names below the root, and whether it can only mean a folder."""

    parts: tuple[bytes, ...]
    is_folder: bool


class _Opened(NamedTuple):
    """Something open, and its names below the root: the real ones, wherever that matters."""

    descriptor: int
    names: tuple[bytes, ...]


class _Refused(OSError):
    """Not allowed here, whatever the system says; the message goes after the path's name."""


class _OpenHow(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


class Beneath:
    """Reads, writes and lists files below a root.

    Paths are relative to the root; an absolute path that begins with the root's own is taken as relative to it. Links
    that stay inside are followed with `openat2`, or where something is hidden or protected; refused otherwise. Errors
    name the path as given.

    Raises:
        PermissionError: the path leads out, is hidden or protected, or is neither a file nor a folder.
        ValueError: the path is no path: empty, with a NUL byte, or not valid text.
        OSError: as the system says.
    """

    def __init__(
        self,
        root: Path,
        *,
        is_resolved: bool = False,
        use_openat2: bool | None = None,
        owner: Callable[[], tuple[int, int] | None] = lambda: None,
        hidden: frozenset[bytes] = frozenset(),
        protected: Callable[[str], bool] | None = None,
    ) -> None:
        """Work below `root`. If that `is_resolved`, there are no links on the way to it.

        Files and folders that are made are given to the user and group that `owner` returns then. Names in `hidden`,
        directly below the root, are as if they were not there. Paths of which `protected` says so can be read but not
        written.
        """
        self._root = os.fsencode(root) if is_resolved else os.path.realpath(os.fsencode(root))
        self._own_paths = {self._root, os.fsencode(root.absolute())}
        self._owner = owner
        self._hidden = frozenset(map(_fold, hidden))
        self._protected = protected
        if hidden or protected is not None:
            self._open_parts = self._open_by_real_names
        elif has_openat2() if use_openat2 is None else use_openat2:
            self._open_parts = _open_at_once
        else:
            self._open_parts = _open_by_steps

    @property
    def root(self) -> bytes:
        """The folder, without links on the way to it."""
        return self._root

    def read_file(self, path: str, max_bytes: int) -> tuple[bytes, int]:
        """Return at most `max_bytes` from the start of a file, and the size of the whole."""
        wanted = self._take_apart(path)
        with _errors_naming(path):
            file = self._open_regular(wanted)
            try:
                data = _read(file, max_bytes)
                return data, max(os.fstat(file).st_size, len(data))
            finally:
                os.close(file)

    def open_file(self, path: str) -> int:
        """Open a regular file for reading; the caller closes it."""
        wanted = self._take_apart(path)
        with _errors_naming(path):
            return self._open_regular(wanted)

    def look_at(self, path: str) -> os.stat_result:
        """Return what lies at a path, without opening it; a link is looked at itself."""
        wanted = self._take_apart(path)
        with _errors_naming(path):
            folder = self._open(wanted.parts[:-1], _FOLDER)
            try:
                return os.stat(wanted.parts[-1] if wanted.parts else b".", dir_fd=folder, follow_symlinks=False)
            finally:
                os.close(folder)

    def write_file(self, path: str, data: bytes | memoryview) -> bool:
        """Write a file whole or not at all, making its folders; tell whether it is new.

        An existing file keeps its mode. A link that stays inside is replaced by the file, not followed.
        """
        wanted = self._take_apart(path)
        with _errors_naming(path):
            if wanted.is_folder:
                raise IsADirectoryError(errno.EISDIR, "")
            folder = self._make_folders(wanted.parts[:-1], wanted.parts[-1])
            try:
                before = self._replaceable(folder, wanted)
                _replace(folder, wanted.parts[-1], data, before, self._owner())
            finally:
                os.close(folder)
        return before is None

    def list_files(self, path: str, max_entries: int) -> tuple[list[str], bool]:
        """Return what lies below a folder, as paths from the root, and whether there was more.

        Near ones come before deep ones when not all fit. Links are listed, never followed.
        """
        wanted = self._take_apart(path)
        with _errors_naming(path):
            names, waiting = self._entries(wanted.parts, max_entries + 1), deque[tuple[bytes, ...]]()
        found: list[str] = []
        while True:
            for parts, is_folder in names:
                if len(found) == max_entries:
                    return sorted(found), True
                found.append(b"/".join(parts).decode(errors="replace") + ("/" if is_folder else ""))
                if is_folder and parts[-1] not in NOT_ENTERED:
                    waiting.append(parts)
            if not waiting:
                return sorted(found), False
            names = []
            with suppress(OSError):  # gone, or closed to us, since its parent was read
                names = self._entries(waiting.popleft(), max_entries - len(found) + 1)

    def _take_apart(self, path: str) -> _Wanted:
        if not path:
            raise ValueError("the path is empty")
        if "\0" in path:
            raise ValueError(f"{_short(path)!r} contains a NUL byte")
        try:
            raw = path.encode()
        except UnicodeEncodeError:
            raise ValueError(f"{_short(path)!r} is not valid text") from None
        if raw.startswith(b"/"):
            inside = [raw[len(own) :] for own in self._own_paths if raw == own or raw.startswith(own + b"/")]
            if not inside:
                raise _plain_error(errno.EXDEV, path)
            raw = inside[0]
        names = raw.split(b"/")
        if len(raw) > _MAX_PATH_BYTES or max(map(len, names)) > _MAX_NAME_BYTES:
            raise _plain_error(errno.ENAMETOOLONG, path)
        return _Wanted(tuple(name for name in names if name not in {b"", b"."}), names[-1] in {b"", b".", b".."})

    def _open(self, parts: Sequence[bytes], flags: int) -> int:
        return self._open_named(parts, flags).descriptor

    def _open_named(self, parts: Sequence[bytes], flags: int) -> _Opened:
        root = os.open(self._root, _FOLDER | os.O_NOFOLLOW)
        try:
            return self._open_parts(root, parts, flags)
        finally:
            os.close(root)

    def _open_by_real_names(self, root: int, parts: Sequence[bytes], flags: int) -> _Opened:
        """Walk down one name at a time, putting what a link says in its place; the names are those really walked."""
        way, names = [os.dup(root)], list[bytes]()
        left, links = deque(parts), 0
        try:
            while left:
                name = left.popleft()
                if name == b"..":
                    if not names:
                        raise OSError(errno.EXDEV, "")
                    names.pop()
                    os.close(way.pop())
                    continue
                if not names and _fold(name) in self._hidden:
                    raise _Refused("is not part of the workspace")
                try:
                    way.append(_step_into(way[-1], name, _FOLDER if left else flags))
                    names.append(name)
                except OSError as problem:
                    links += 1
                    if problem.errno != errno.ELOOP or links > _MAX_LINKS:
                        raise
                    left.extendleft(reversed(_parts_of_link(way[-1], name)))
            if flags & os.O_DIRECTORY or names:
                return _Opened(way.pop(), tuple(names))
            raise IsADirectoryError(errno.EISDIR, "")
        finally:
            for folder in way:
                os.close(folder)

    def _open_regular(self, wanted: _Wanted) -> int:
        """Open a regular file for reading; a pipe or a device is neither waited for nor read."""
        file = self._open(wanted.parts, _FOLDER if wanted.is_folder else _LOOK)
        try:
            _require_regular(os.fstat(file).st_mode)
        except OSError:
            os.close(file)
            raise
        return file

    def _make_folders(self, parts: tuple[bytes, ...], name: bytes) -> int:
        """Open the folder in which `name` is to be written, after making those on the way that are missing."""
        there = len(parts)
        while True:
            try:
                folder, names = self._open_named(parts[:there], _FOLDER)
                break
            except FileNotFoundError:
                if not there:
                    raise
                there -= 1
        try:
            if b".." in parts[there:]:  # as the system has it: from what is missing there is no way up
                raise FileNotFoundError(errno.ENOENT, "")
            self._require_writable((*names, *parts[there:], name))
            for missing in parts[there:]:
                folder = self._make_folder(folder, missing)
        except OSError:
            os.close(folder)
            raise
        return folder

    def _make_folder(self, parent: int, name: bytes) -> int:
        """Make a folder and open it in place of its parent."""
        is_new = False
        with suppress(FileExistsError):
            os.mkdir(name, dir_fd=parent)
            is_new = True
        made = _step_into(parent, name, _FOLDER)
        os.close(parent)
        if is_new and (owner := self._owner()) is not None:
            try:
                os.fchown(made, *owner)
            except OSError:
                os.close(made)
                raise
        return made

    def _require_writable(self, names: tuple[bytes, ...]) -> None:
        if _fold(names[0]) in self._hidden:
            raise _Refused("is not part of the workspace")
        if self._protected is not None and self._protected(b"/".join(names).decode(errors="surrogateescape")):
            raise _Refused("is protected: other programs obey it, so a run may read it but not change it")

    def _replaceable(self, folder: int, wanted: _Wanted) -> os.stat_result | None:
        """Return what the new file will replace, if anything; refuse what it must not."""
        try:
            before = os.stat(wanted.parts[-1], dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            return None
        if stat.S_ISLNK(before.st_mode):
            with suppress(FileNotFoundError):  # a link inside to nothing
                os.close(self._open_regular(wanted))
        else:
            _require_regular(before.st_mode)
        return before

    def _entries(self, parts: tuple[bytes, ...], limit: int) -> list[tuple[tuple[bytes, ...], bool]]:
        """Return the first entries of a folder by name, and whether each is a folder."""
        folder, names = self._open_named(parts, _FOLDER)
        hidden = frozenset[bytes]() if names else self._hidden
        try:
            with os.scandir(folder) as entries:
                return heapq.nsmallest(
                    limit,
                    (
                        ((*parts, name), one.is_dir(follow_symlinks=False))
                        for one in entries
                        if _fold(name := os.fsencode(one.name)) not in hidden
                    ),
                )
        finally:
            os.close(folder)


@cache
def has_openat2() -> bool:
    """Whether this kernel has `openat2` and nothing forbids it."""
    if platform.system() != "Linux" or platform.machine() not in _OPENAT2_MACHINES:
        return False
    here = os.open("/", _FOLDER)
    try:
        os.close(_open_at_once(here, (), _FOLDER).descriptor)
    except OSError:
        return False
    finally:
        os.close(here)
    return True


def _open_at_once(root: int, parts: Sequence[bytes], flags: int) -> _Opened:
    """Let the kernel resolve the whole path, links included, without ever leaving the root."""
    how = _OpenHow(flags=flags, mode=0, resolve=_RESOLVE_BENEATH | _RESOLVE_NO_MAGICLINKS)
    size = ctypes.c_size_t(ctypes.sizeof(how))
    path = ctypes.c_char_p(b"/".join(parts) or b".")
    number = errno.EAGAIN
    for _ in range(_RACES_TOLERATED):
        file = _syscall()(ctypes.c_long(_SYS_OPENAT2), ctypes.c_int(root), path, ctypes.byref(how), size)
        if file >= 0:
            return _Opened(file, tuple(parts))
        number = ctypes.get_errno()
        if number not in {errno.EAGAIN, errno.EINTR}:
            break
    raise OSError(number, os.strerror(number))


def _open_by_steps(root: int, parts: Sequence[bytes], flags: int) -> _Opened:
    """Walk down one name at a time; a link anywhere is ELOOP, climbing above the root is EXDEV."""
    way = [os.dup(root)]
    try:
        for nth, name in enumerate(parts, start=1):
            if name != b"..":
                way.append(_step_into(way[-1], name, flags if nth == len(parts) else _FOLDER))
            elif len(way) > 1:
                os.close(way.pop())
            else:
                raise OSError(errno.EXDEV, "")
        return _Opened(way.pop(), tuple(parts))
    finally:
        for folder in way:
            os.close(folder)


def _parts_of_link(folder: int, name: bytes) -> list[bytes]:
    """Return the names that a link stands for; one that begins at the root of the system leads out."""
    target = os.readlink(name, dir_fd=folder)
    if target.startswith(b"/"):
        raise OSError(errno.EXDEV, "")
    return [part for part in target.split(b"/") if part not in {b"", b"."}]


def _fold(name: bytes) -> bytes:
    """Return a name as file systems compare it that take upper and lower case as the same."""
    return name.decode(errors="surrogateescape").casefold().encode(errors="surrogateescape")


def _step_into(folder: int, name: bytes, flags: int) -> int:
    try:
        return os.open(name, flags | os.O_NOFOLLOW, dir_fd=folder)
    except NotADirectoryError:
        # A link is "not a folder" to the system; to the caller it is a link. Only the message depends on this look.
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if stat.S_ISLNK(found.st_mode):
            raise OSError(errno.ELOOP, "") from None
        raise


@cache
def _syscall() -> Callable[..., int]:
    function = ctypes.CDLL(None, use_errno=True).syscall
    function.restype = ctypes.c_long
    return function


def _read(file: int, max_bytes: int) -> bytes:
    data = bytearray()
    while len(data) < max_bytes and (chunk := os.read(file, min(_READ_BYTES, max_bytes - len(data)))):
        data += chunk
    return bytes(data)


def _replace(
    folder: int, name: bytes, data: bytes | memoryview, before: os.stat_result | None, owner: tuple[int, int] | None
) -> None:
    """Write beside the target, then put it in the target's place in one step."""
    beside = f".{secrets.token_hex(8)}.part".encode()
    file = os.open(beside, _NEW, 0o666, dir_fd=folder)
    try:
        try:
            if owner is not None:
                os.fchown(file, *owner)
            if before is not None and stat.S_ISREG(before.st_mode):
                if owner is None:
                    _keep_owner(file, before)
                os.fchmod(file, before.st_mode & 0o777)
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(file, rest) :]
            os.fsync(file)
        finally:
            os.close(file)
        os.rename(beside, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with suppress(OSError):
            os.unlink(beside, dir_fd=folder)
        raise
    os.fsync(folder)


def _keep_owner(file: int, before: os.stat_result) -> None:
    now = os.fstat(file)
    if (now.st_uid, now.st_gid) != (before.st_uid, before.st_gid):
        with suppress(PermissionError):  # only root can give files away
            os.fchown(file, before.st_uid, before.st_gid)


def _require_regular(mode: int) -> None:
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, "")
    if not stat.S_ISREG(mode):
        raise OSError(errno.ENXIO, "")


@contextmanager
def _errors_naming(path: str) -> Iterator[None]:
    """Let errors of the system name the path as given, and nothing of where the root lies."""
    try:
        yield
    except _Refused as refused:
        raise PermissionError(f"{_short(path)!r} {refused}") from None
    except OSError as error:
        raise _plain_error(error.errno or errno.EIO, path) from None


def _plain_error(number: int, path: str) -> OSError:
    name = _short(path)
    match number:
        case errno.EXDEV:
            return PermissionError(f"{name!r} leads out of the workspace")
        case errno.ELOOP:
            return PermissionError(f"{name!r} goes through a link that is not followed")
        case errno.ENXIO:
            return PermissionError(f"{name!r} is not a regular file")
        case _:
            return OSError(number, os.strerror(number), name)


def _short(path: str) -> str:
    return path if len(path) <= _SHOWN_CHARS else path[:_SHOWN_CHARS] + "…"
