"""Showing root's files to another user as that user's own, while on disk they stay root's: id-mapped mounts.

A box that root starts runs its commands as somebody else, who must be able to write in the workspace. Nothing on disk
changes its owner for that: in the box's own view of the files, and only there, root's number and the user's are one.
Whatever the commands make belongs to root on disk, as if root had made it.

Needs Linux 5.12 and a file system that can do it (ext4, xfs, btrfs; tmpfs since 6.3). It is imported by helpers that
must start fast, so it needs nothing but what is quick to load; and it is a program of its own, which becomes another
one in such a view (`PROGRAM`).
"""

import ctypes
import os
import sys

PROGRAM = __file__
"""Arguments: user, group, a folder, and the program to become, which sees the folder mapped at its own place."""
REFUSED = "root's files cannot be shown to another user here"
"""How every message about it begins."""
NO_VIEW = "a private view of the files"
"""How every message begins that tells that the system gives us none."""
HINT = "Run fabric as a plain user, or give the project to one (chown), whom its commands then run as."

_SYS_OPEN_TREE, _SYS_MOVE_MOUNT, _SYS_MOUNT_SETATTR = 428, 429, 442
_AT_FDCWD, _AT_EMPTY_PATH, _AT_RECURSIVE = -100, 0x1000, 0x8000
_OPEN_TREE_CLONE, _MOVE_MOUNT_F_EMPTY_PATH = 1, 4
_MOUNT_ATTR_IDMAP = 0x00100000
_NEW_MOUNTS, _NEW_USERS = 0x00020000, 0x10000000
_MS_REC, _MS_PRIVATE = 16384, 1 << 18
_HIGHEST = 2**32 - 2

_libc = ctypes.CDLL(None, use_errno=True)


class _Attributes(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_uint64) for name in ("to_set", "to_clear", "propagation", "users"))


class Mapping:
    """Root's number and another user's are one; likewise the groups'. All other numbers stay what they are."""

    def __init__(self, uid: int, gid: int) -> None:
        """Make the mapping; only for root.

        Raises:
            OSError: the system does not let us.
        """
        heard, say = os.pipe()
        wait, let_go = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(let_go)
            # A namespace exists as long as a process in it, or an open file of it: it is made only to be opened.
            os.write(say, b"x" if _libc.unshare(_NEW_USERS) == 0 else b"")
            os.close(say)
            os.read(wait, 1)
            os._exit(0)
        os.close(say)
        os.close(wait)
        try:
            if not os.read(heard, 1):
                raise OSError(1, f"{REFUSED}: there are no user namespaces")
            for kind, number in (("uid", uid), ("gid", gid)):
                _write(f"/proc/{pid}/{kind}_map", _map(number))
            self._users = os.open(f"/proc/{pid}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
        finally:
            os.close(heard)
            os.close(let_go)
            os.waitpid(pid, 0)

    def show(self, file: int, place: str) -> None:
        """Show an open file or folder at another place, with this mapping. Needs mounts of our own: see `own_mounts`.

        Raises:
            OSError: the kernel or the file system cannot do it.
        """
        try:
            # File systems mounted below it that cannot do it are shown as they are: root's files stay root's there.
            tree = self._mapped(file, _AT_RECURSIVE)
        except OSError:
            tree = self._mapped(file, 0)
        try:
            _call(_SYS_MOVE_MOUNT, tree, b"", _AT_FDCWD, os.fsencode(place), _MOVE_MOUNT_F_EMPTY_PATH)
        finally:
            os.close(tree)

    def _mapped(self, file: int, how_deep: int) -> int:
        tree = _call(_SYS_OPEN_TREE, file, b"", _OPEN_TREE_CLONE | os.O_CLOEXEC | _AT_EMPTY_PATH | _AT_RECURSIVE)
        attributes = _Attributes(_MOUNT_ATTR_IDMAP, 0, 0, self._users)
        size = ctypes.sizeof(attributes)
        try:
            _call(_SYS_MOUNT_SETATTR, tree, b"", _AT_EMPTY_PATH | how_deep, ctypes.byref(attributes), size)
        except OSError:
            os.close(tree)
            raise
        return tree


def own_mounts() -> None:
    """Make this process's view of the files its own: what it mounts from now on, nobody else sees.

    Raises:
        OSError: the system does not let us.
    """
    if _libc.unshare(_NEW_MOUNTS) or _libc.mount(b"none", b"/", None, ctypes.c_ulong(_MS_REC | _MS_PRIVATE), None):
        number = ctypes.get_errno()
        raise OSError(number, f"{NO_VIEW}: {os.strerror(number)}")


def main() -> None:
    """Become a program that sees a folder of root's as another user's; or say on stderr what failed."""
    uid, gid, folder, *program = sys.argv[1:]
    try:
        mapping = Mapping(int(uid), int(gid))
        own_mounts()
        mapping.show(os.open(folder, os.O_PATH | os.O_CLOEXEC), folder)
        os.execv(program[0], program)  # noqa: S606 - becoming it is what this is for
    except OSError as error:
        sys.stderr.write(f"{error.strerror}\n")
        sys.exit(1)


def _map(number: int) -> bytes:
    """Return the map as the kernel takes it: what is on disk, what is seen, how many."""
    below = b"1 1 %d\n" % (number - 1) if number > 1 else b""
    return b"0 %d 1\n%s%d %d %d\n" % (number, below, number + 1, number + 1, _HIGHEST - number)


def _call(number: int, *arguments: object) -> int:
    passed = [ctypes.c_long(one) if isinstance(one, int) else one for one in arguments]
    result = int(_libc.syscall(ctypes.c_long(number), *passed))
    if result < 0:
        problem = ctypes.get_errno()
        raise OSError(problem, f"{REFUSED}: {os.strerror(problem)}")
    return result


def _write(path: str, data: bytes) -> None:
    file = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(file, data)
    except OSError as error:
        raise OSError(error.errno, f"{REFUSED}: {error.strerror}") from None
    finally:
        os.close(file)


if __name__ == "__main__":
    main()
