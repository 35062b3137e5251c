"""Showing root's files to another user as that user's own, while on disk they stay root's: id-mapped mounts.

A box that root starts runs its commands as someone else, who must be able to write in the workspace. Nothing on disk
changes its owner for that: in the box's own view of the files, and only there, root's number and the user's are one.
Whatever the commands make belongs to root on disk, as if root had made it.

Needs Linux 5.12 and a file system that can do it (ext4, xfs, btrfs; tmpfs since 6.3). It is imported by helpers that
must start fast, so it needs nothing but what is quick to load: `os` and `ctypes` take longer than all the rest, so what
lies below them is used here. And it is a program of its own, which becomes another one in such a view (`PROGRAM`).
"""

import _ctypes
import posix
import struct
import sys
from posix import _exit

PROGRAM = __file__
"""Arguments: user, group, a folder, and the program to become, which sees the folder mapped at its own place."""
REFUSED = "root's files cannot be shown to another user here"
"""How every message about it begins."""
NO_VIEW = "a private view of the files"
"""How every message begins that tells that the system gives us none."""
HINT = "Run fabric as a plain user, or give the project to one (chown); its commands then run as that user."

_SYS_OPEN_TREE, _SYS_MOVE_MOUNT, _SYS_MOUNT_SETATTR = 428, 429, 442
_AT_FDCWD, _AT_EMPTY_PATH, _AT_RECURSIVE = -100, 0x1000, 0x8000
_OPEN_TREE_CLONE, _MOVE_MOUNT_F_EMPTY_PATH = 1, 4
_MOUNT_ATTR_IDMAP = 0x00100000
_NEW_MOUNTS, _NEW_USERS = 0x00020000, 0x10000000
_MS_REC, _MS_PRIVATE = 16384, 1 << 18
_HIGHEST = 2**32 - 2

_ATTRIBUTES = struct.Struct("=4Q")
"""What is set, what is cleared, how mounts spread, and the users of a mapping."""


class _Int(_ctypes._SimpleCData):  # type: ignore[type-arg]  # noqa: SLF001 - it cannot be subscripted when it runs
    _type_ = "i"


class _Function(_ctypes.CFuncPtr):
    _flags_ = _ctypes.FUNCFLAG_CDECL | _ctypes.FUNCFLAG_USE_ERRNO
    _restype_ = _Int


def c_library(name: str, *arguments: int | bytes | None) -> int:
    """Call a function of the C library with numbers that C's int can hold, and texts.

    Raises:
        OSError: it returned a negative number.
    """
    library = _ctypes.dlopen(None, 0)  # type: ignore[arg-type]  # None is what is loaded already
    result = int(_Function(_ctypes.dlsym(library, name))(*arguments))
    if result < 0:
        number = _ctypes.get_errno()
        raise OSError(number, posix.strerror(number))
    return result


def encode_path(path: str) -> bytes:
    """Return a path as the system takes it."""
    return path.encode(sys.getfilesystemencoding(), sys.getfilesystemencodeerrors())


class Mapping:
    """Root's number and another user's are one; likewise the groups'. All other numbers stay what they are."""

    def __init__(self, uid: int, gid: int) -> None:
        """Make the mapping; only for root.

        Raises:
            OSError: the system does not let us.
        """
        heard, say = posix.pipe()
        wait, let_go = posix.pipe()
        pid = posix.fork()
        if pid == 0:
            posix.close(let_go)
            # A namespace exists as long as a process in it, or an open file of it: it is made only to be opened.
            try:
                c_library("unshare", _NEW_USERS)
                posix.write(say, b"x")
                posix.close(say)
                posix.read(wait, 1)
            finally:
                _exit(0)
        posix.close(say)
        posix.close(wait)
        try:
            if not posix.read(heard, 1):
                raise OSError(1, f"{REFUSED}: there are no user namespaces")
            for kind, number in (("uid", uid), ("gid", gid)):
                _write(f"/proc/{pid}/{kind}_map", _map(number))
            self._users = posix.open(f"/proc/{pid}/ns/user", posix.O_RDONLY | posix.O_CLOEXEC)
        finally:
            posix.close(heard)
            posix.close(let_go)
            posix.waitpid(pid, 0)

    def show(self, file: int, place: str) -> None:
        """Show an open file or folder at another place, with this mapping. Needs mounts of our own: see `own_mounts`.

        Raises:
            OSError: the kernel or the file system cannot do it.
        """
        try:
            # File systems mounted below it that cannot do it are shown as they are: root's files stay root's there.
            tree = self._map_ids(file, _AT_RECURSIVE)
        except OSError:
            tree = self._map_ids(file, 0)
        try:
            _call(_SYS_MOVE_MOUNT, tree, b"", _AT_FDCWD, encode_path(place), _MOVE_MOUNT_F_EMPTY_PATH)
        finally:
            posix.close(tree)

    def _map_ids(self, file: int, how_deep: int) -> int:
        tree = _call(_SYS_OPEN_TREE, file, b"", _OPEN_TREE_CLONE | posix.O_CLOEXEC | _AT_EMPTY_PATH | _AT_RECURSIVE)
        attributes = _ATTRIBUTES.pack(_MOUNT_ATTR_IDMAP, 0, 0, self._users)
        try:
            _call(_SYS_MOUNT_SETATTR, tree, b"", _AT_EMPTY_PATH | how_deep, attributes, len(attributes))
        except OSError:
            posix.close(tree)
            raise
        return tree


def own_mounts() -> None:
    """Make this process's view of the files its own: what it mounts from now on, no one else sees.

    Raises:
        OSError: the system does not let us.
    """
    try:
        c_library("unshare", _NEW_MOUNTS)
        c_library("mount", b"none", b"/", None, _MS_REC | _MS_PRIVATE, None)
    except OSError as error:
        raise OSError(error.errno, f"{NO_VIEW}: {error.strerror}") from None


def main() -> None:
    """Become a program that sees a folder of root's as another user's; or say on stderr what failed."""
    uid, gid, folder, *program = sys.argv[1:]
    try:
        mapping = Mapping(int(uid), int(gid))
        own_mounts()
        mapping.show(posix.open(folder, posix.O_PATH | posix.O_CLOEXEC), folder)
        posix.execv(program[0], program)
    except OSError as error:
        sys.stderr.write(f"{error.strerror}\n")
        sys.exit(1)


def _map(number: int) -> bytes:
    """Return the map as the kernel takes it: what is on disk, what is seen, how many."""
    below = b"1 1 %d\n" % (number - 1) if number > 1 else b""
    return b"0 %d 1\n%s%d %d %d\n" % (number, below, number + 1, number + 1, _HIGHEST - number)


def _call(number: int, *arguments: int | bytes) -> int:
    try:
        return c_library("syscall", number, *arguments)
    except OSError as error:
        raise OSError(error.errno, f"{REFUSED}: {error.strerror}") from None


def _write(path: str, data: bytes) -> None:
    file = posix.open(path, posix.O_WRONLY | posix.O_CLOEXEC)
    try:
        posix.write(file, data)
    except OSError as error:
        raise OSError(error.errno, f"{REFUSED}: {error.strerror}") from None
    finally:
        posix.close(file)


if __name__ == "__main__":
    main()
