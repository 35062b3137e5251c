"""The kernel's Landlock, by its three system calls: what this process and its children may open, connect and signal.

And giving up root before anything runs at level B: a private view of the files where it can be had, then another user.
Needs nothing but the standard library: it is imported by the helper, which must start fast.
"""

import ctypes
import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from enum import IntFlag
from typing import Any, NamedTuple

from agent_fabric.infrastructure.sandbox.idmapped import NO_VIEW, Mapping, own_mounts

MISSING_BELOW = {
    1: "Landlock itself",
    2: "moving files between folders (programs copy instead)",
    3: "no truncating of files outside",
    4: "a second wall against TCP, behind seccomp's",
    5: "no ioctl on devices",
    6: "no signals to processes outside; a process that keeps forking may outlive its command",
}
"""What a kernel with a lower version of Landlock does not give."""

NEWEST = 6
"""The newest version of Landlock that is made use of."""

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the same on x86_64 and aarch64
_ASK_VERSION = 1
_RULE_PATH_BENEATH = 1
_TCP_BIND_AND_CONNECT = 0b11
_SCOPE_ABSTRACT_SOCKETS_AND_SIGNALS = 0b11
_PR_SET_NO_NEW_PRIVS = 38


Access = IntFlag(
    "Access",
    "EXECUTE WRITE_FILE READ_FILE READ_DIR REMOVE_DIR REMOVE_FILE MAKE_CHAR MAKE_DIR MAKE_REG MAKE_SOCK MAKE_FIFO "
    "MAKE_BLOCK MAKE_SYM REFER TRUNCATE IOCTL_DEV",
)
"""What may be done beneath a path; in the kernel's order, one bit each."""


READ = Access.EXECUTE | Access.READ_FILE | Access.READ_DIR
WRITE = (
    READ
    | Access.WRITE_FILE
    | Access.REMOVE_DIR
    | Access.REMOVE_FILE
    | Access.MAKE_DIR
    | Access.MAKE_REG
    | Access.MAKE_SOCK
    | Access.MAKE_FIFO
    | Access.MAKE_SYM
    | Access.REFER
    | Access.TRUNCATE
)
_OF_FILES = Access.EXECUTE | Access.WRITE_FILE | Access.READ_FILE | Access.TRUNCATE | Access.IOCTL_DEV


class _RulesetAttr(ctypes.Structure):
    _fields_ = (("fs", ctypes.c_uint64), ("net", ctypes.c_uint64), ("scoped", ctypes.c_uint64))


class _PathBeneathAttr(ctypes.Structure):
    _pack_ = 1
    _layout_ = "ms"
    _fields_ = (("access", ctypes.c_uint64), ("parent", ctypes.c_int32))


_libc = ctypes.CDLL(None, use_errno=True)


def landlock_version() -> int:
    """Return the version of Landlock that the kernel speaks; 0: none."""
    return max(int(_libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(_ASK_VERSION))), 0)


class Allowed(NamedTuple):
    """What commands may open. Whatever is not named is closed to them."""

    read: tuple[str, ...] = ()
    """Files and folders to read, and to execute from."""
    write: tuple[str, ...] = ()
    """Folders to read, write and execute in."""
    devices: tuple[str, ...] = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
    """Device files to read and write."""


class Ruleset:
    """Rules in the kernel, made once and then laid on as many processes as needed.

    Raises:
        OSError: the kernel has no Landlock, or refuses.
    """

    def __init__(self, allowed: Allowed, *, at_most: int = NEWEST) -> None:
        """Make the rules; with `at_most`, as a kernel of that version of Landlock would have them."""
        self.version = min(landlock_version(), at_most)
        handled = _handled_access(self.version)
        attr = _RulesetAttr(
            handled,
            _TCP_BIND_AND_CONNECT if self.version >= 4 else 0,
            _SCOPE_ABSTRACT_SOCKETS_AND_SIGNALS if self.version >= 6 else 0,
        )
        size = 24 if self.version >= 6 else 16 if self.version >= 4 else 8
        self._ruleset = _check(_libc.syscall(_CREATE_RULESET, ctypes.byref(attr), ctypes.c_size_t(size), 0))
        self._allow(allowed.read, READ & handled)
        self._allow(allowed.write, WRITE & handled)
        self._allow(allowed.devices, (Access.READ_FILE | Access.WRITE_FILE) & handled)

    @property
    def scopes_signals(self) -> bool:
        """Whether a process under these rules can signal only those under the same."""
        return self.version >= 6

    def lay_on_this_process(self) -> None:
        """Confine the calling thread and all it starts, for good."""
        give_up_new_privileges()
        _check(_libc.syscall(_RESTRICT_SELF, self._ruleset, 0))

    def _allow(self, paths: Iterable[str], access: Access) -> None:
        for path in paths:
            with suppress(FileNotFoundError, NotADirectoryError, PermissionError):  # nothing there to allow
                found = os.open(path, os.O_PATH | os.O_CLOEXEC)
                try:
                    fits = access if stat.S_ISDIR(os.fstat(found).st_mode) else access & _OF_FILES
                    rule = _PathBeneathAttr(fits, found)
                    _check(
                        _libc.syscall(
                            _ADD_RULE, self._ruleset, _RULE_PATH_BENEATH, ctypes.byref(rule), ctypes.c_uint(0)
                        )
                    )
                finally:
                    os.close(found)


def give_up_new_privileges() -> None:
    """Make setuid programs and file capabilities powerless for this process and all it starts."""
    zero = ctypes.c_ulong(0)
    _check(_libc.prctl(_PR_SET_NO_NEW_PRIVS, ctypes.c_ulong(1), zero, zero, zero))


def _handled_access(version: int) -> Access:
    newest = {1: Access.MAKE_SYM, 2: Access.REFER, 3: Access.TRUNCATE, 4: Access.TRUNCATE}.get(
        version, Access.IOCTL_DEV
    )
    return Access((newest << 1) - 1)


def _check(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return int(result)


_MS_NOSUID, _MS_NODEV, _MS_BIND, _MS_REC = 2, 4, 4096, 16384
_PR_SET_DUMPABLE = 4
CLOSED = "lies in a folder that is closed to the user who runs the commands"
"""How a message ends that tells what they cannot get to."""
_STAGES = ("/mnt", "/media", "/srv", "/opt")


class Place(NamedTuple):
    """Where the commands of a run live."""

    workspace: str
    temporary: str
    environment: dict[str, str]
    """Variables that follow from it."""


def become(setup: dict[str, Any]) -> Place:
    """Become the user that commands run as, with a folder for them that this user can reach.

    For a plain user nothing changes. Root gets its own view of the files first, in which the workspace lies where
    another user can reach it, even if the real one is inside a closed folder; /tmp and /dev/shm are private there.
    Where the system gives root no such view, and so with `own_view` unset, both folders must be that user's already.

    Raises:
        OSError: the workspace is gone, or the system refuses.
    """
    workspace, temporary = os.path.realpath(setup["workspace"]), setup["temporary"]
    if not stat.S_ISDIR(os.stat(workspace).st_mode):  # noqa: PTH116 - the helper starts faster without path objects
        raise NotADirectoryError(20, "the workspace is no folder")
    if os.getuid() == 0:
        (uid, gid), size = setup["owner"], f"{setup['limits']['total_disk_mb']}m"
        if setup["own_view"]:
            own_mounts()
            mapping = Mapping(uid, gid) if setup["mapped"] else None
            workspace, temporary = _private_view(workspace, mapping, f"mode=700,uid={uid},gid={gid},size={size}")
        os.setgroups([])
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
        # As for any other process of this user: who watches over a command must see the files of all its processes.
        _libc.prctl(_PR_SET_DUMPABLE, ctypes.c_ulong(1), 0, 0, 0)
        for what, folder in (("the workspace", workspace), ("the folder for temporary files", temporary)):
            if not os.access(folder, os.X_OK):
                raise PermissionError(13, f"{what} {CLOSED}")
    home = f"{temporary}/home"
    with suppress(FileExistsError):
        os.mkdir(home, 0o700)  # noqa: PTH102 - as above
    with open(f"{home}/.gitconfig", "w", encoding="utf-8") as settings:  # noqa: PTH123 - as above
        settings.write(setup["git_settings"])
    return Place(workspace, temporary, {"HOME": home, "TMPDIR": temporary, "PWD": workspace})


def _private_view(workspace: str, mapping: Mapping | None, private: str) -> tuple[str, str]:
    stage = next(path for path in _STAGES if os.path.isdir(path))  # noqa: PTH112 - as above
    opened = os.open(workspace, os.O_PATH | os.O_DIRECTORY)
    try:
        _mount("fabric", stage, "tmpfs", _MS_NOSUID | _MS_NODEV, "size=1m,mode=755")
        place = f"{stage}/workspace"
        os.mkdir(place)  # noqa: PTH102 - as above
        if mapping is not None:
            mapping.show(opened, place)
        else:
            _mount(f"/proc/self/fd/{opened}", place, "", _MS_BIND | _MS_REC)
    finally:
        os.close(opened)
    for path in ("/tmp", "/dev/shm"):  # noqa: S108 - made private here
        _mount("fabric", path, "tmpfs", _MS_NOSUID | _MS_NODEV, private)
    return place, "/tmp"  # noqa: S108 - as above


def _mount(source: str, target: str, kind: str, flags: int, options: str = "") -> None:
    done = _libc.mount(
        os.fsencode(source), os.fsencode(target), kind.encode(), ctypes.c_ulong(flags), options.encode() or None
    )
    if done:
        number = ctypes.get_errno()
        raise OSError(number, f"{NO_VIEW}: mounting {target}: {os.strerror(number)}")
