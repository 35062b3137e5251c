"""System calls that a box does not need and an attacker would like: a seccomp filter, as the kernel takes it.

The filter refuses by name and allows the rest, because commands are any program a person may use. What it refuses makes
namespaces, mounts, loads code into the kernel, looks into other processes, or talks to parts of the kernel that have
been broken into before. Needs nothing but the standard library: helpers that must start fast import it.
"""

import errno
import platform
import struct
import sys
from typing import Literal, NamedTuple

Sockets = Literal["any", "inet", "none"]
"""`any`: unix and internet, for a box with its own network. `inet`: no unix sockets, whose paths no other rule guards.
`none`: no sockets at all. Pairs of connected unix sockets are always there, raw and netlink sockets never."""


class _Machine(NamedTuple):
    audit_arch: int
    column: int
    """Where its number stands in the tables below."""


_MACHINES = {"x86_64": _Machine(0xC000003E, 0), "aarch64": _Machine(0xC00000B7, 1)}


def _numbers(text: str) -> dict[str, tuple[int | None, ...]]:
    """Return system calls by name, each with its numbers by column; `-`: that kind of machine has none."""
    calls = (call.partition("=") for call in text.split())
    return {name: tuple(None if n == "-" else int(n) for n in numbers.split("/")) for name, _, numbers in calls}


_REFUSED = _numbers(
    # namespaces and mounts
    "unshare=272/97 setns=308/268 mount=165/40 umount2=166/39 pivot_root=155/41 chroot=161/51 fsopen=430/430 "
    "fsconfig=431/431 fsmount=432/432 fspick=433/433 open_tree=428/428 move_mount=429/429 mount_setattr=442/442 "
    "open_tree_attr=467/467 open_by_handle_at=304/265 "
    # keys, and parts of the kernel with a history
    "keyctl=250/219 add_key=248/217 request_key=249/218 bpf=321/280 perf_event_open=298/241 userfaultfd=323/282 "
    "io_uring_setup=425/425 io_uring_enter=426/426 io_uring_register=427/427 fanotify_init=300/262 "
    "lookup_dcookie=212/18 modify_ldt=154/- uselib=134/- ustat=136/- sysfs=139/- _sysctl=156/- nfsservctl=180/42 "
    # other processes
    "ptrace=101/117 process_vm_readv=310/270 process_vm_writev=311/271 process_madvise=440/440 pidfd_getfd=438/438 "
    "kcmp=312/272 move_pages=279/239 migrate_pages=256/238 "
    # the machine
    "kexec_load=246/104 kexec_file_load=320/294 init_module=175/105 finit_module=313/273 delete_module=176/106 "
    "create_module=174/- get_kernel_syms=177/- query_module=178/- reboot=169/142 swapon=167/224 swapoff=168/225 "
    "quotactl=179/60 quotactl_fd=443/443 acct=163/89 syslog=103/116 settimeofday=164/170 clock_settime=227/112 "
    "adjtimex=159/171 clock_adjtime=305/266 sethostname=170/161 setdomainname=171/162 iopl=172/- ioperm=173/- "
    "vhangup=153/58"
)
_ABSENT_AMONG_OTHERS = _numbers(
    # System V objects and message queues: they have no path, belong to every program of the user, and outlive commands.
    "shmget=29/194 shmat=30/196 shmctl=31/195 semget=64/190 semop=65/193 semctl=66/191 semtimedop=220/192 "
    "msgget=68/186 msgsnd=69/189 msgrcv=70/188 msgctl=71/187 mq_open=240/180 mq_unlink=241/181 "
    # what is told of files that cannot be opened: the names of what others make, and handles
    "inotify_init=253/- inotify_init1=294/26 name_to_handle_at=303/264 "
    # newer ways to what is in the next table; programs fall back to the older ones
    "setxattrat=463/463 getxattrat=464/464 listxattrat=465/465 removexattrat=466/466 file_getattr=468/468 "
    "file_setattr=469/469"
)
"""Where a box is among the user's other programs and files, as if the kernel did not have them."""
_UNSUPPORTED_AMONG_OTHERS = _numbers(
    "setxattr=188/5 lsetxattr=189/6 fsetxattr=190/7 getxattr=191/8 lgetxattr=192/9 fgetxattr=193/10 listxattr=194/11 "
    "llistxattr=195/12 flistxattr=196/13 removexattr=197/14 lremovexattr=198/15 fremovexattr=199/16"
)
"""Likewise, as on a file system without extended attributes: those of files that cannot be opened could be used."""
_ITSELF_AMONG_OTHERS: tuple[tuple[int, int], ...] = (
    (302, 261),  # prlimit64
    (203, 122),  # sched_setaffinity
    (144, 119),  # sched_setscheduler
    (142, 118),  # sched_setparam
    (314, 274),  # sched_setattr
)
"""Likewise, only with 0, the caller itself, as their first argument: a process. A limit can end another one."""
_GROUP_AMONG_OTHERS: tuple[tuple[int, int, int], ...] = ((141, 140, 2), (251, 30, 3))
"""`setpriority` and `ioprio_set`, only for the caller or its group; the last number stands for all of the user's."""
REFUSED = frozenset(_REFUSED)
"""Refused whatever their arguments are; so are `clone3`, `openat2` and `memfd_*`, and others in part."""

_CLONE, _CLONE3 = (56, 220), (435, 435)
_MEMFD_CREATE, _MEMFD_SECRET = (319, 279), (447, 447)
_SOCKET, _SOCKETPAIR, _IOCTL = (41, 198), (53, 199), (16, 29)
_OPENAT2 = (437, 437)
_FALLOCATE = (285, 47)
_BEYOND_THE_END = (0x01, 0x11)
"""Modes of `fallocate` that take room on the disk and leave a file's size, which the limit on one file looks at."""
_MODE_AT: tuple[tuple[int | None, int | None, int], ...] = (
    (90, None, 1),  # chmod
    (91, 52, 1),  # fchmod
    (268, 53, 2),  # fchmodat
    (452, 452, 2),  # fchmodat2
    (85, None, 1),  # creat
    (133, None, 1),  # mknod
    (259, 33, 2),  # mknodat
)
"""Calls that set a file's mode, and which of their arguments it is."""
_OPEN_FLAGS_AT: tuple[tuple[int | None, int | None, int], ...] = ((2, None, 1), (257, 56, 2))
"""`open` and `openat`: which argument the flags are; the mode follows, if a file is to be made."""
_MAKES_FILE = 0o100 | 0o20000000
_AS_OWNER = 0o6000
"""The bits of a mode that give the process that runs the file another identity."""

_NEW_NAMESPACES = 0x00000080 | 0x00020000 | 0x02000000 | 0x04000000 | 0x08000000 | 0x10000000 | 0x20000000 | 0x40000000
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
_AF_UNIX, _AF_INET, _AF_INET6 = 1, 2, 10
_SOCK_TYPE_MASK = 0xF
_SOCK_STREAM, _SOCK_DGRAM, _SOCK_SEQPACKET = 1, 2, 5
_X32 = 0x40000000

_LOAD, _AND, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x54, 0x15, 0x35, 0x06
_ALLOW, _KILL_PROCESS, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_NUMBER_AT, _ARCH_AT, _ARGUMENTS_AT = 0, 4, 16
_WORDS = struct.Struct("=HBBI")


def supported(machine: str | None = None) -> bool:
    """Whether there is a filter for this kind of machine."""
    return sys.platform == "linux" and (machine or platform.machine()) in _MACHINES


def filter_bytes(*, sockets: Sockets = "any", among_others: bool = False, machine: str | None = None) -> bytes:
    """Return the filter as an array of `struct sock_filter`, for `bwrap --seccomp` or prctl.

    Args:
        sockets: which can be made.
        among_others: whether the box shares process numbers, System V objects and paths with the user's other programs.
        machine: another kind than this one.

    Raises:
        KeyError: there is no filter for this kind of machine; see `supported`.
    """
    audit_arch, column = _MACHINES[machine or platform.machine()]
    # A program for another kind of machine (32 bit) would have other numbers: it ends at once.
    lines = [_load(_ARCH_AT), _if_equal(audit_arch, 1), _give(_KILL_PROCESS), _load(_NUMBER_AT)]
    if column == 0:
        lines += [_line(_AT_LEAST, _X32, 0, 1), _give(_ERRNO | errno.ENOSYS)]
    # glibc and others fall back to clone, whose flags can be seen, when there is no clone3.
    # Memory that is a file without a name counts for no one; programs fall back to a file in /tmp or /dev/shm.
    # And to openat, whose mode can be seen, when there is no openat2.
    for both in (_CLONE3, _MEMFD_CREATE, _MEMFD_SECRET, _OPENAT2):
        lines += _when(both[column], [_give(_ERRNO | errno.ENOSYS)])
    lines += _when(
        _CLONE[column], [_load_argument(0), _and(_NEW_NAMESPACES), _if_equal(0, 1), _refuse(), _give(_ALLOW)]
    )
    lines += _when(
        _IOCTL[column], [_load_argument(1), *_answer_any((_TIOCSTI, _TIOCLINUX), errno.EPERM), _give(_ALLOW)]
    )
    # What a box makes lies on the real disk, where others may run it: never as the box's user.
    for *numbers, nth in _MODE_AT:
        if (number := numbers[column]) is not None:
            lines += _when(number, _without_bits(nth))
    for *numbers, nth in _OPEN_FLAGS_AT:
        if (number := numbers[column]) is not None:
            asked = [_load_argument(nth), _and(_MAKES_FILE), _line(_EQUAL, 0, 0, 1), _give(_ALLOW)]
            lines += _when(number, [*asked, *_without_bits(nth + 1)])
    room = [_load_argument(1), *_answer_any(_BEYOND_THE_END, errno.EOPNOTSUPP), _give(_ALLOW)]
    lines += _when(_FALLOCATE[column], room)
    if among_others:
        lines += _apart(column)
    lines += _when(_SOCKET[column], _only_sockets(sockets))
    lines += _when(_SOCKETPAIR[column], [_load_argument(0), _if_equal(_AF_UNIX, 1), _refuse(), _give(_ALLOW)])
    refused = sorted(number for both in _REFUSED.values() if (number := both[column]) is not None)
    for place, number in enumerate(refused):
        lines.append(_line(_EQUAL, number, len(refused) - place, 0))
    return b"".join((*lines, _give(_ALLOW), _refuse()))


def _apart(column: int) -> list[bytes]:
    """Keep a box that is among other programs of the same user away from them."""
    lines: list[bytes] = []
    for calls, answer in ((_ABSENT_AMONG_OTHERS, errno.ENOSYS), (_UNSUPPORTED_AMONG_OTHERS, errno.EOPNOTSUPP)):
        for number in filter(None, (both[column] for both in calls.values())):
            lines += _when(number, [_give(_ERRNO | answer)])
    for itself in _ITSELF_AMONG_OTHERS:
        lines += _when(itself[column], [_load_argument(0), _if_equal(0, 1), _refuse(), _give(_ALLOW)])
    for *numbers, of_the_user in _GROUP_AMONG_OTHERS:
        whom = [_load_argument(0), *_answer_any((of_the_user,), errno.EPERM), _load_argument(1)]
        lines += _when(numbers[column], [*whom, _if_equal(0, 1), _refuse(), _give(_ALLOW)])
    return lines


def _only_sockets(sockets: Sockets) -> list[bytes]:
    families = {"any": (_AF_UNIX, _AF_INET, _AF_INET6), "inet": (_AF_INET, _AF_INET6), "none": ()}[sockets]
    types = (_SOCK_STREAM, _SOCK_DGRAM, _SOCK_SEQPACKET)
    return [
        *(_load_argument(0), *_pass_one_of(families)),
        *(_load_argument(1), _and(_SOCK_TYPE_MASK), *_pass_one_of(types)),
        _give(_ALLOW),
    ]


def _without_bits(nth: int) -> list[bytes]:
    """Refuse a mode that would make a file run as its owner or group."""
    return [_load_argument(nth), _and(_AS_OWNER), _if_equal(0, 1), _refuse(), _give(_ALLOW)]


def _pass_one_of(values: tuple[int, ...]) -> list[bytes]:
    """Go on after these lines if the loaded value is one of them; refuse otherwise."""
    return [*(_line(_EQUAL, value, len(values) - place, 0) for place, value in enumerate(values)), _refuse()]


def _answer_any(values: tuple[int, ...], error: int) -> list[bytes]:
    """Fail with an error if the loaded value is one of these; go on otherwise."""
    return [line for value in values for line in (_line(_EQUAL, value, 0, 1), _give(_ERRNO | error))]


def _when(number: int, then: list[bytes]) -> list[bytes]:
    """Do this for one system call. It must end by giving an answer, since it may load something else."""
    return [_line(_EQUAL, number, 0, len(then)), *then]


def _load(offset: int) -> bytes:
    return _line(_LOAD, offset)


def _load_argument(nth: int) -> bytes:
    """Load the low half of an argument: all that the kernel looks at in those that are checked here."""
    return _load(_ARGUMENTS_AT + 8 * nth + (4 if sys.byteorder == "big" else 0))


def _and(mask: int) -> bytes:
    return _line(_AND, mask)


def _if_equal(value: int, skip: int) -> bytes:
    """Skip so many lines if the loaded value is this one."""
    return _line(_EQUAL, value, skip, 0)


def _give(answer: int) -> bytes:
    return _line(_RETURN, answer)


def _refuse() -> bytes:
    return _give(_ERRNO | errno.EPERM)


def _line(code: int, value: int, when_true: int = 0, when_false: int = 0) -> bytes:
    return _WORDS.pack(code, when_true, when_false, value)
