"""A second seccomp filter: no file can be made setuid or setgid.

What a command makes in its workspace belongs, on the disk, to the person who started us, or even to root. With such a
bit on it, any other user of the machine who can reach the file would run it with that person's rights. Filters add up:
this one goes beside `seccomp.filter_bytes`.

Needs nothing but the standard library: helpers that must start fast import it.
"""

import errno
import platform
import struct

_SET_ID_BITS = 0o6000
_O_CREAT, _O_TMPFILE = 0o100, 0o20000000

_WITH_MODE = {
    "x86_64": ((90, 1), (91, 1), (268, 2), (452, 2), (85, 1), (133, 1), (259, 2)),
    "aarch64": ((52, 1), (53, 2), (452, 2), (33, 2)),
}
"""chmod, fchmod, fchmodat, fchmodat2, creat, mknod, mknodat: their numbers, and which argument is the mode."""
_WITH_FLAGS = {"x86_64": ((2, 1, 2), (257, 2, 3)), "aarch64": ((56, 2, 3),)}
"""open, openat: their numbers, and which arguments are the flags and the mode."""
_OPENAT2 = 437
"""Its mode cannot be seen by a filter. Programs that know it can do without."""

_LOAD, _AND, _EQUAL, _RETURN = 0x20, 0x54, 0x15, 0x06
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000


def setid_filter(machine: str | None = None) -> bytes:
    """Return the filter as an array of `struct sock_filter`, for `bwrap --add-seccomp-fd` or prctl.

    It looks at no other architecture than the machine's own: the first filter ends programs of another one.

    Raises:
        KeyError: there is no filter for this kind of machine; see `seccomp.supported`.
    """
    here = machine or platform.machine()
    allow, refuse = _line(_RETURN, _ALLOW), _line(_RETURN, _ERRNO | errno.EPERM)
    lines = [_line(_LOAD, 0), _line(_EQUAL, _OPENAT2, 0, 1), _line(_RETURN, _ERRNO | errno.ENOSYS)]
    for number, mode in _WITH_MODE[here]:
        lines += [_line(_EQUAL, number, 0, 5), *_look_at(mode), refuse, allow]
    for number, flags, mode in _WITH_FLAGS[here]:
        lines += [
            _line(_EQUAL, number, 0, 8),
            *(_line(_LOAD, _argument(flags)), _line(_AND, _O_CREAT | _O_TMPFILE), _line(_EQUAL, 0, 4, 0)),
            *(*_look_at(mode), refuse, allow),
        ]
    return b"".join((*lines, allow))


def _look_at(mode: int) -> tuple[bytes, ...]:
    """Skip the next line if the mode has none of the bits."""
    return _line(_LOAD, _argument(mode)), _line(_AND, _SET_ID_BITS), _line(_EQUAL, 0, 1, 0)


def _argument(nth: int) -> int:
    return 16 + 8 * nth


def _line(code: int, value: int, when_true: int = 0, when_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, when_true, when_false, value)
