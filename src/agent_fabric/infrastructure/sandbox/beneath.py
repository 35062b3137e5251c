"""Files beneath one folder, and never outside it.

A path is opened in one step by the kernel (`openat2` with RESOLVE_BENEATH) or, where that is missing, component by
component without following any link. It is never checked first and opened later: that leaks as soon as somebody swaps
a folder for a link in between. Whatever has to be created is created by its bare name in a folder that is already
open.
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

_MAX_NAME_BYTES = 255
_MAX_PATH_BYTES = 4095
_SHOWN_CHARS = 200
_READ_BYTES = 1 << 20


class _Wanted(NamedTuple):
    """A path taken apart: its names below the root, and whether it can only mean a folder."""

    parts: tuple[bytes, ...]
    is_folder: bool


class _OpenHow(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


class Beneath:
    """Reads, writes and lists files below a root.

    Paths are relative to the root; an absolute path that begins with the root's own is taken as relative to it. Links
    that stay inside are followed with `openat2`, refused otherwise. Errors name the path as given.

    Raises:
        PermissionError: the path leads out, or is neither a file nor a folder.
        ValueError: the path is no path: empty, with a NUL byte, or not valid text.
        OSError: as the system says.
    """

    def __init__(self, root: Path, *, use_openat2: bool | None = None) -> None:
        self._root = os.path.realpath(os.fsencode(root))
        self._own_paths = {self._root, os.fsencode(root.absolute())}
        self._open_parts = _open_at_once if (has_openat2() if use_openat2 is None else use_openat2) else _open_by_steps

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

    def write_file(self, path: str, data: bytes) -> bool:
        """Write a file whole or not at all, making its folders; tell whether it is new.

        An existing file keeps its mode. A link that stays inside is replaced by the file, not followed.
        """
        wanted = self._take_apart(path)
        with _errors_naming(path):
            if wanted.is_folder:
                raise IsADirectoryError(errno.EISDIR, "")
            folder = self._make_folders(wanted.parts[:-1])
            try:
                before = self._replaceable(folder, wanted)
                _replace(folder, wanted.parts[-1], data, before)
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
        root = os.open(self._root, _FOLDER | os.O_NOFOLLOW)
        try:
            return self._open_parts(root, parts, flags)
        finally:
            os.close(root)

    def _open_regular(self, wanted: _Wanted) -> int:
        """Open a regular file for reading; a pipe or a device is neither waited for nor read."""
        file = self._open(wanted.parts, _FOLDER if wanted.is_folder else _LOOK)
        try:
            _require_regular(os.fstat(file).st_mode)
        except OSError:
            os.close(file)
            raise
        return file

    def _make_folders(self, parts: tuple[bytes, ...]) -> int:
        """Open a folder, after making those on the way that are missing."""
        there = len(parts)
        while True:
            try:
                folder = self._open(parts[:there], _FOLDER)
                break
            except FileNotFoundError:
                if not there:
                    raise
                there -= 1
        try:
            if b".." in parts[there:]:  # as the system has it: from what is missing there is no way up
                raise FileNotFoundError(errno.ENOENT, "")
            for name in parts[there:]:
                with suppress(FileExistsError):
                    os.mkdir(name, dir_fd=folder)
                made = _step_into(folder, name, _FOLDER)
                os.close(folder)
                folder = made
        except OSError:
            os.close(folder)
            raise
        return folder

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
        folder = self._open(parts, _FOLDER)
        try:
            with os.scandir(folder) as entries:
                return heapq.nsmallest(
                    limit, (((*parts, os.fsencode(one.name)), one.is_dir(follow_symlinks=False)) for one in entries)
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
        os.close(_open_at_once(here, (), _FOLDER))
    except OSError:
        return False
    finally:
        os.close(here)
    return True


def _open_at_once(root: int, parts: Sequence[bytes], flags: int) -> int:
    """Let the kernel resolve the whole path, links included, without ever leaving the root."""
    how = _OpenHow(flags=flags, mode=0, resolve=_RESOLVE_BENEATH | _RESOLVE_NO_MAGICLINKS)
    size = ctypes.c_size_t(ctypes.sizeof(how))
    path = ctypes.c_char_p(b"/".join(parts) or b".")
    number = errno.EAGAIN
    for _ in range(_RACES_TOLERATED):
        file = _syscall()(ctypes.c_long(_SYS_OPENAT2), ctypes.c_int(root), path, ctypes.byref(how), size)
        if file >= 0:
            return file
        number = ctypes.get_errno()
        if number not in {errno.EAGAIN, errno.EINTR}:
            break
    raise OSError(number, os.strerror(number))


def _open_by_steps(root: int, parts: Sequence[bytes], flags: int) -> int:
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
        return way.pop()
    finally:
        for folder in way:
            os.close(folder)


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


def _replace(folder: int, name: bytes, data: bytes, before: os.stat_result | None) -> None:
    """Write beside the target, then put it in the target's place in one step."""
    beside = f".{secrets.token_hex(8)}.part".encode()
    file = os.open(beside, _NEW, 0o666, dir_fd=folder)
    try:
        try:
            if before is not None and stat.S_ISREG(before.st_mode):
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
