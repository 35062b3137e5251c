"""Changes of mode, owner and times at level B: done for the command, and only to what it may write.

Landlock guards what is opened. Who a file belongs to, who may read it and when it was changed can be set by its path
alone, so a command could close or lay open every file of the person who started us. A seccomp filter hands such calls
over to the keeper instead (`SECCOMP_RET_USER_NOTIF`), which is the same user outside the walls. It opens what is meant,
looks where that lies, and makes the change itself: the command waits and gets the answer. It never lets a call go on,
since other threads of the command could change the path meanwhile.

Needs nothing but the standard library: helpers that must start fast import it.
"""

import _thread
import ctypes
import errno
import fcntl
import os
import platform
import select
import socket
import struct
from typing import Literal, NamedTuple

_Change = Literal["mode", "owner", "times"]


class _Call(NamedTuple):
    """What a system call changes, and which of its arguments are what."""

    change: _Change
    value: int
    """The mode, the owner with the group behind it, or where the times lie in memory."""
    folder: int | None = None
    """An open folder, or an open file where no path is given; None: the current folder."""
    path: int | None = None
    """None: the open file itself."""
    flags: int | None = None
    follows: bool = True
    unit_ns: int = 1
    """What the second number of each time counts; 0: there is none."""


_CALLS: dict[str, dict[int, _Call]] = {
    "x86_64": {
        90: _Call("mode", 1, path=0),
        91: _Call("mode", 1, folder=0),
        268: _Call("mode", 2, folder=0, path=1),
        452: _Call("mode", 2, folder=0, path=1, flags=3),
        92: _Call("owner", 1, path=0),
        93: _Call("owner", 1, folder=0),
        94: _Call("owner", 1, path=0, follows=False),
        260: _Call("owner", 2, folder=0, path=1, flags=4),
        132: _Call("times", 1, path=0, unit_ns=0),
        235: _Call("times", 1, path=0, unit_ns=1000),
        261: _Call("times", 2, folder=0, path=1, unit_ns=1000),
        280: _Call("times", 2, folder=0, path=1, flags=3),
    },
    "aarch64": {
        52: _Call("mode", 1, folder=0),
        53: _Call("mode", 2, folder=0, path=1),
        452: _Call("mode", 2, folder=0, path=1, flags=3),
        54: _Call("owner", 2, folder=0, path=1, flags=4),
        55: _Call("owner", 1, folder=0),
        88: _Call("times", 2, folder=0, path=1, flags=3),
    },
}
"""chmod, fchmod, fchmodat, fchmodat2, chown, fchown, lchown, fchownat, utime, utimes, futimesat, utimensat."""

_LOAD, _EQUAL, _RETURN = 0x20, 0x15, 0x06
_ALLOW, _ASK, _ERRNO = 0x7FFF0000, 0x7FC00000, 0x00050000
_SECCOMP = {"x86_64": 317, "aarch64": 277}
_SET_FILTER, _NEW_LISTENER, _WAIT_KILLABLE = 1, 1 << 3, 1 << 5
_RECEIVE, _ANSWER, _IS_VALID = 0xC0502100, 0xC0182101, 0x40082102
_ASKED, _ANSWERED = struct.Struct("=QIIiIQ6Q"), struct.Struct("=QqiI")
_AT_FDCWD, _NOFOLLOW, _EMPTY_PATH = -100, 0x100, 0x1000
_NOBODY = 0xFFFFFFFF
_PAGE, _MAX_PATH_BYTES = 4096, 4096
_TIMES = struct.Struct("=4q")
_NOW = (1 << 30) - 1

_libc = ctypes.CDLL(None, use_errno=True)


class Program(ctypes.Structure):
    """A seccomp filter, as the kernel takes it."""

    _fields_ = (("count", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def hand_over() -> int | None:
    """Have such calls of this process, and of all that it starts, handed over; return where they arrive.

    None: someone around us has calls handed over already, which the kernel allows once. Then they are all refused.

    Raises:
        OSError: the kernel refuses.
    """
    for flags, answer in ((_NEW_LISTENER | _WAIT_KILLABLE, _ASK), (_NEW_LISTENER, _ASK), (0, _ERRNO | errno.EPERM)):
        text = _filter(answer)
        program = Program(len(text) // 8, text)
        listener = _libc.syscall(_SECCOMP[platform.machine()], _SET_FILTER, flags, ctypes.byref(program))
        if listener >= 0:
            return int(listener) if flags else None
        number = ctypes.get_errno()
        if number not in {errno.EINVAL, errno.EBUSY}:  # an older kernel; the only listener is another's
            break
    raise OSError(number, "seccomp was refused")


def serve(line: socket.socket, folders: tuple[str, ...]) -> None:
    """Answer in the background what arrives at the place that someone sends over this line.

    Args:
        line: where it comes from; nothing comes if the command is not started.
        folders: what commands may write, as real paths.
    """
    _thread.start_new_thread(_serve, (line, folders))


def _serve(line: socket.socket, folders: tuple[str, ...]) -> None:
    _, files, _, _ = socket.recv_fds(line, 1, 1)
    if not files:
        return
    try:
        waiting = select.poll()
        waiting.register(files[0], select.POLLIN)
        while not any(event & select.POLLHUP for _, event in waiting.poll()):  # then no one is left who could ask
            _answer_one(files[0], folders)
    finally:
        os.close(files[0])  # a process that asks now, or waits, is told by the kernel that there is no such call


def _answer_one(listener: int, folders: tuple[str, ...]) -> None:
    asked = bytearray(_ASKED.size)
    try:
        fcntl.ioctl(listener, _RECEIVE, asked)
    except OSError:  # the caller is gone
        return
    number, task, _, call, _, _, *arguments = _ASKED.unpack(asked)
    error = errno.EPERM
    try:
        asks = _Asker(listener, number, task)
        error = asks.do(_CALLS[platform.machine()][call], arguments, folders)
    except OSError as problem:
        error = problem.errno or errno.EPERM
    except (struct.error, ValueError, OverflowError):
        error = errno.EINVAL
    try:
        fcntl.ioctl(listener, _ANSWER, _ANSWERED.pack(number, 0, -error, 0))
    except OSError:
        return


class _Asker:
    """A task of the command that waits for an answer."""

    def __init__(self, listener: int, number: int, task: int) -> None:
        self._listener, self._number, self._task = listener, number, task

    def do(self, call: _Call, arguments: list[int], folders: tuple[str, ...]) -> int:
        """Make the change; return the error, 0 for none.

        Raises:
            OSError: it cannot be made.
        """
        file = self._open_target(call, arguments)
        try:
            place = f"/proc/self/fd/{file}"
            where = os.readlink(place)  # noqa: PTH115 - helpers start faster without path objects
            if not any(f"{where}/".startswith(f"{folder}/") for folder in folders):
                return errno.EPERM
            return self._change(call, arguments, place)
        finally:
            os.close(file)

    def _change(self, call: _Call, arguments: list[int], place: str) -> int:
        value = arguments[call.value]
        if call.change == "mode":
            os.chmod(place, value & 0o1777)  # noqa: PTH101 - as above
        elif call.change == "owner":
            who = [-1 if each & _NOBODY == _NOBODY else each & _NOBODY for each in (value, arguments[call.value + 1])]
            os.chown(place, *who)
        else:
            times = self._times(value, call.unit_ns) if value else _TIMES.pack(0, _NOW, 0, _NOW)
            if _libc.utimensat(_AT_FDCWD, place.encode(), times, 0):
                return ctypes.get_errno()
        return 0

    def _times(self, where: int, unit_ns: int) -> bytes:
        if not unit_ns:
            accessed, changed = struct.unpack("=2q", self._memory(where, 16))
            return _TIMES.pack(accessed, 0, changed, 0)
        accessed, part, changed, other = _TIMES.unpack(self._memory(where, _TIMES.size))
        if unit_ns > 1 and not (0 <= part < 10**9 // unit_ns and 0 <= other < 10**9 // unit_ns):
            raise OSError(errno.EINVAL, "no time")
        return _TIMES.pack(accessed, part * unit_ns, changed, other * unit_ns)

    def _open_target(self, call: _Call, arguments: list[int]) -> int:
        """Open what is meant, without a right to it: enough to see where it lies and to change it."""
        flags = 0 if call.flags is None else arguments[call.flags]
        folder = _AT_FDCWD if call.folder is None else ctypes.c_int(arguments[call.folder]).value
        around = f"/proc/{self._task}/{'cwd' if folder == _AT_FDCWD else f'fd/{folder}'}"
        path = b"" if call.path is None else self._text(arguments[call.path], may_be_none=call.folder is not None)
        itself = call.path is None or not arguments[call.path] or bool(flags & _EMPTY_PATH and not path)
        if not itself and not path:
            raise FileNotFoundError(errno.ENOENT, "no path")
        start = os.open("/" if path.startswith(b"/") else around, os.O_PATH | os.O_CLOEXEC)
        try:
            self._check()
            if itself:
                return os.dup(start)
            follows = call.follows and not flags & _NOFOLLOW
            return os.open(
                self._as_seen(path), os.O_PATH | os.O_CLOEXEC | (0 if follows else os.O_NOFOLLOW), dir_fd=start
            )
        finally:
            os.close(start)

    def _as_seen(self, path: bytes) -> bytes:
        """Return a path in which it is the asking task that is meant by `self`."""
        for own in (b"/proc/self/", b"/proc/thread-self/"):
            if path.startswith(own):
                return b"/proc/%d/%b" % (self._task, path.removeprefix(own))
        return path

    def _text(self, where: int, *, may_be_none: bool) -> bytes:
        if not where and may_be_none:
            return b""
        text = b""
        while len(text) < _MAX_PATH_BYTES:
            # Not beyond a page: the next one may not be there.
            text += self._memory(where + len(text), _PAGE - (where + len(text)) % _PAGE)
            if (end := text.find(b"\0")) >= 0:
                return text[:end]
        raise OSError(errno.ENAMETOOLONG, "the path is too long")

    def _memory(self, where: int, size: int) -> bytes:
        """Read the memory of the calling process.

        Raises:
            OSError: there is nothing, or it may not be read.
        """
        file = os.open(f"/proc/{self._task}/mem", os.O_RDONLY | os.O_CLOEXEC)
        try:
            self._check()
            text = os.pread(file, size, where)
        except (OSError, OverflowError):
            raise OSError(errno.EFAULT, "no memory there") from None
        finally:
            os.close(file)
        return text

    def _check(self) -> None:
        """Make sure that the task still waits: its number could be another's by now.

        Raises:
            OSError: it does not.
        """
        fcntl.ioctl(self._listener, _IS_VALID, struct.pack("=Q", self._number))


def _filter(answer: int) -> bytes:
    """Return the filter; it looks at no other architecture than the machine's own, whose programs another one ends."""
    numbers = sorted(_CALLS[platform.machine()])
    lines = [(_LOAD, 0, 0, 0)]
    lines += [(_EQUAL, len(numbers) - place, 0, number) for place, number in enumerate(numbers)]
    lines += [(_RETURN, 0, 0, _ALLOW), (_RETURN, 0, 0, answer)]
    return b"".join(struct.pack("=HBBI", *line) for line in lines)
