"""Tries to reach a user's other files and programs without opening anything, and prints which tries worked.

A program of its own, for any Python from 3.9 on: it is copied into a workspace and run there as a command. The facts,
in a JSON file that is its argument, name a file, a folder, a process and objects of the kernel, all of the same user.
"""
# Every try is a call of the system as it is.
# ruff: noqa: PTH101

import ctypes
import json
import os
import platform
import resource
import sys
from collections.abc import Callable
from typing import Any

_ARM = platform.machine() == "aarch64"
_libc = ctypes.CDLL(None, use_errno=True)


def _call(x86: int, arm: int, *arguments: Any) -> None:
    if _libc.syscall(ctypes.c_long(arm if _ARM else x86), *arguments) < 0:
        raise OSError(ctypes.get_errno(), "refused")


def _checked(result: int) -> None:
    if result < 0:
        raise OSError(ctypes.get_errno(), "refused")


def _watch(folder: str) -> None:
    watch = _libc.inotify_init1(0)
    _checked(watch)
    _checked(_libc.inotify_add_watch(watch, folder.encode(), 0x100))


def _beyond_the_end() -> None:
    file = os.open("room", os.O_CREAT | os.O_WRONLY)
    _call(285, 47, file, 1, ctypes.c_long(0), ctypes.c_long(1 << 20))


def tries(facts: dict[str, Any]) -> dict[str, Callable[[], object]]:
    """Return what is tried, by name."""
    file, folder, pid = facts["file"], facts["folder"], facts["pid"]
    handle, mount = ctypes.create_string_buffer(b"\x80\0\0\0", 136), ctypes.c_int()
    itself = os.open(file, os.O_PATH) if hasattr(os, "O_PATH") else -1
    return {
        "chmod": lambda: os.chmod(file, 0o640),
        "chmod by an open path": lambda: os.chmod(f"/proc/self/fd/{itself}", 0o600),
        "chmod from a folder": lambda: os.chmod(facts["name"], 0o604, dir_fd=os.open(folder, os.O_PATH)),
        "close a folder": lambda: os.chmod(folder, 0o711),
        "chown": lambda: os.chown(file, -1, os.getgid()),
        "lchown": lambda: os.lchown(file, os.getuid(), -1),
        "times": lambda: os.utime(file, (1, 1)),
        "set an attribute": lambda: os.setxattr(file, "user.try", b"x"),
        "read an attribute": lambda: os.getxattr(file, "user.mark"),
        "list attributes": lambda: os.listxattr(file)[0],
        "watch a folder": lambda: _watch(folder),
        "handle of a file": lambda: _call(303, 264, -100, file.encode(), handle, ctypes.byref(mount), 0),
        "limits of a process": lambda: resource.prlimit(pid, resource.RLIMIT_NOFILE),
        "limit a process": lambda: resource.prlimit(pid, resource.RLIMIT_CORE, (0, 0)),
        "priority of a process": lambda: os.setpriority(os.PRIO_PROCESS, pid, 5),
        "processors of a process": lambda: os.sched_setaffinity(pid, os.sched_getaffinity(pid)),
        "scheduling of a process": lambda: os.sched_setscheduler(pid, os.SCHED_BATCH, os.sched_param(0)),
        "disk priority of a process": lambda: _call(251, 30, 1, pid, 3 << 13),
        "shared memory": lambda: _checked(_libc.shmget(facts["shared_memory"], 0, 0)),
        "a message queue": lambda: _checked(_libc.msgget(facts["queue"], 0)),
        "room beyond the end of a file": _beyond_the_end,
    }


def main() -> None:
    """Try everything."""
    with open(sys.argv[1], encoding="utf-8") as text:  # noqa: PTH123 - as above
        facts = json.load(text)
    worked = []
    for name, one in tries(facts).items():
        try:
            one()
        except OSError:
            continue
        worked.append(name)
    print(json.dumps(worked))


if __name__ == "__main__":
    main()
