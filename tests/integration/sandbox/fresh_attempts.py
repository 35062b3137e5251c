"""Fifty ways out of a box by somebody who has read only docs/operate/security.md; see `escape_checks` for the others.

A program of its own, for any Python from 3.9 on: it is copied into a workspace and run there as a command.

    python3 fresh_attempts.py FACTS

It prints {"name": {"outcome": "held" | "escaped" | "error", "detail": "..."}}.
"""
# Every attempt takes the facts, and tries the system's calls as they are.
# ruff: noqa: PTH101, PTH102, PTH104, PTH115, PTH116, PTH120, PTH123, PTH208

import ctypes
import errno
import fcntl
import json
import os
import platform
import resource
import signal
import socket
import struct
import subprocess
import sys
import termios
from collections.abc import Callable
from typing import Any

Facts = dict[str, Any]
Answer = tuple[str, str]
Attempt = Callable[[Facts], Answer]
HELD, ESCAPED, ERROR = "held", "escaped", "error"
_ARM = platform.machine() == "aarch64"
_REFUSALS = {
    errno.EPERM,
    errno.EACCES,
    errno.ENOSYS,
    errno.ENOENT,
    errno.ESRCH,
    errno.EROFS,
    errno.EXDEV,
    errno.ENOTDIR,
}
_libc = ctypes.CDLL(None, use_errno=True)


def _done(call: Callable[[], Any]) -> Answer:
    """A call that must not succeed."""
    try:
        return ESCAPED, f"it gave {call()!r}"
    except (OSError, PermissionError) as refused:
        return HELD, str(refused)


def _system_call(x86: int, arm: int, *arguments: Any) -> Answer:
    """A call of the system in a child, which a filter may kill; only a refusal counts."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        ctypes.set_errno(0)
        answer = _libc.syscall(ctypes.c_long(arm if _ARM else x86), *arguments)
        os.write(writer, f"{answer} {ctypes.get_errno()}".encode())
        os._exit(0)
    os.close(writer)
    said = os.read(reader, 64).decode()
    os.close(reader)
    os.waitpid(child, 0)
    if not said:
        return HELD, "the child was ended"
    answer, number = map(int, said.split())
    if answer >= 0:
        return ESCAPED, f"it gave {answer}"
    return (HELD if number in _REFUSALS else ESCAPED), os.strerror(number)


def _reads(path: str, canary: str) -> Answer:
    def read() -> str:
        with open(path, errors="replace") as file:
            text = file.read(4096)
        if canary not in text:
            raise FileNotFoundError("the canary is not in it")
        return text

    return _done(read)


def _sees(path: str) -> Answer:
    return _done(lambda: os.stat(path).st_size)


def _through_descriptors(facts: Facts) -> Answer:
    """A folder that was left open leads out by `..`."""
    for number in range(3, 256):
        for way in ("..", "../..", "../../..", "../../../.."):
            try:
                with open(f"/proc/self/fd/{number}/{way}/outside/file") as file:
                    if facts["canary"] in file.read():
                        return ESCAPED, f"descriptor {number}"
            except OSError:
                continue
    return HELD, "none leads anywhere"


def _by_path_only(facts: Facts) -> Answer:
    def reopened() -> str:
        handle = os.open(facts["outside_file"], getattr(os, "O_PATH", 0o10000000))
        with open(f"/proc/self/fd/{handle}") as file:
            return file.read()

    return _done(reopened)


def _chroot(facts: Facts) -> Answer:
    def out() -> str:
        os.mkdir("jail")
        os.chroot("jail")
        os.chdir("../../../../../..")
        with open("." + facts["outside_file"]) as file:
            return file.read()

    return _done(out)


def _handle(facts: Facts) -> Answer:
    """`open_by_handle_at` with the number of a file that lies next to the workspace."""
    handle = struct.pack("Ii", 8, 1) + struct.pack("Ii", 2, 0)
    here = os.open(".", os.O_RDONLY)
    return _system_call(304, 265, here, ctypes.create_string_buffer(handle, 136), 0)


def _namespace(facts: Facts, name: str) -> Answer:
    def enter() -> int:
        handle = os.open(f"/proc/{facts['pid']}/ns/{name}", os.O_RDONLY)
        if _libc.setns(handle, 0):
            raise OSError(ctypes.get_errno(), "setns")
        return 0

    return _done(enter)


def _memory(facts: Facts) -> Answer:
    vector = ctypes.create_string_buffer(struct.pack("PN", ctypes.addressof(ctypes.create_string_buffer(8)), 8))
    return _system_call(310, 270, facts["pid"], vector, 1, vector, 1, 0)


def _queued_signal(facts: Facts) -> Answer:
    return _system_call(129, 138, facts["pid"], 0, ctypes.create_string_buffer(128))


def _priority(facts: Facts) -> Answer:
    return _done(lambda: os.setpriority(os.PRIO_PROCESS, facts["pid"], 19))


def _affinity(facts: Facts) -> Answer:
    return _done(lambda: os.sched_setaffinity(facts["pid"], {0}))


def _scheduler(facts: Facts) -> Answer:
    return _done(lambda: os.sched_setscheduler(facts["pid"], os.SCHED_BATCH, os.sched_param(0)))


def _limits(facts: Facts) -> Answer:
    return _done(lambda: resource.prlimit(facts["pid"], resource.RLIMIT_CORE, (0, 0)))


def _looks_at_limits(facts: Facts) -> Answer:
    return _done(lambda: resource.prlimit(facts["pid"], resource.RLIMIT_NOFILE))


def _io_priority(facts: Facts) -> Answer:
    return _system_call(251, 30, 1, facts["pid"], 3 << 13)


def _group(facts: Facts) -> Answer:
    return _done(lambda: os.setpgid(facts["pid"], 0))


def _terminal(facts: Facts) -> Answer:
    """Type into the terminal of whoever started fabric."""

    def typed() -> str:
        handle = os.open("/dev/tty", os.O_RDWR)
        fcntl.ioctl(handle, termios.TIOCSTI, b"\n")
        return "typed"

    return _done(typed)


def _socket(family: int, kind: int = socket.SOCK_STREAM, protocol: int = 0) -> Attempt:
    def attempt(facts: Facts) -> Answer:
        try:
            socket.socket(family, kind, protocol).close()
        except OSError as refused:
            return HELD, str(refused)
        return ESCAPED, "a socket was made"

    return attempt


def _connects(family: int, address: Any) -> Answer:
    def connect() -> str:
        with socket.socket(family, socket.SOCK_STREAM) as client:
            client.settimeout(3)
            client.connect(address)
        return "connected"

    return _done(connect)


def _fast_open(facts: Facts) -> Answer:
    def send() -> int:
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as client:
            client.settimeout(3)
            return client.sendto(b"x", getattr(socket, "MSG_FASTOPEN", 0x20000000), ("127.0.0.1", facts["tcp_port"]))

    return _done(send)


def _shared_memory(facts: Facts) -> Answer:
    """Memory of System V that somebody outside has made."""
    try:
        with open("/proc/sysvipc/shm") as file:
            keys = [line.split()[0] for line in file.readlines()[1:]]
    except OSError as refused:
        return HELD, str(refused)
    return (ESCAPED, f"{len(keys)} keys are seen") if keys else (HELD, "none is seen")


def _group_of_control(facts: Facts) -> Answer:
    def write() -> str:
        with open("/sys/fs/cgroup/cgroup.procs", "w") as file:
            file.write(str(os.getpid()))
        return "moved"

    return _done(write)


def _kernel_setting(facts: Facts) -> Answer:
    def write() -> str:
        with open("/proc/sys/kernel/domainname", "w") as file:
            file.write("(none)")
        return "written"

    return _done(write)


def _becomes_root(facts: Facts) -> Answer:
    for command in (["su", "-c", "id -u"], ["sudo", "-n", "id", "-u"], ["pkexec", "id", "-u"], ["newgrp", "root"]):
        try:
            done = subprocess.run(command, capture_output=True, timeout=10, check=False, stdin=subprocess.DEVNULL)
        except (OSError, subprocess.TimeoutExpired):
            continue
        if done.stdout.strip() == b"0":
            return ESCAPED, " ".join(command)
    return HELD, "nobody became root"


def _capability_of_file(facts: Facts) -> Answer:
    with open("capable", "w") as file:
        file.write("x")
    capability = struct.pack("<IIIII", 0x02000001, 1 << 21, 0, 0, 0)
    return _done(lambda: os.setxattr("capable", "security.capability", capability))


def _link_from_descriptor(facts: Facts) -> Answer:
    def link() -> str:
        handle = os.open(facts["outside_file"], getattr(os, "O_PATH", 0o10000000))
        os.link(f"/proc/self/fd/{handle}", "linked", follow_symlinks=True)
        with open("linked") as file:
            return file.read()

    return _done(link)


def _moves_itself(facts: Facts) -> Answer:
    return _done(lambda: os.rename(".", f"../{facts['name']}"))


def _moves_file_out(facts: Facts) -> Answer:
    with open("moved", "w") as file:
        file.write("x")
    return _done(lambda: os.rename("moved", f"{facts['outside_folder']}/{facts['name']}"))


def _watches(facts: Facts) -> Answer:
    """Be told when somebody opens your files."""

    def watch() -> int:
        handle = _libc.inotify_init()
        if handle < 0:
            raise OSError(ctypes.get_errno(), "inotify_init")
        found = _libc.inotify_add_watch(handle, facts["outside_folder"].encode(), 0xFFF)
        if found < 0:
            raise OSError(ctypes.get_errno(), "inotify_add_watch")
        return int(found)

    return _done(watch)


def _folder(path: str) -> Answer:
    return _done(lambda: os.listdir(path))


def _enters(facts: Facts) -> Answer:
    def enter() -> str:
        before = os.open(".", os.O_RDONLY)
        os.chdir(facts["outside_folder"])
        os.fchdir(before)
        return "entered"

    return _done(enter)


def _rights(facts: Facts) -> Answer:
    return _done(lambda: os.chmod(facts["home_file"], 0o666))


def _rights_of_folder(facts: Facts) -> Answer:
    return _done(lambda: os.chmod(os.path.dirname(facts["ssh_file"]), 0o777))


def _owner(facts: Facts) -> Answer:
    return _done(lambda: os.chown(facts["home_file"], os.getuid(), os.getgid()))


def _times(facts: Facts) -> Answer:
    return _done(lambda: os.utime(facts["home_file"], (1, 1)))


def _attribute(facts: Facts) -> Answer:
    return _done(lambda: os.setxattr(facts["home_file"], "user.x", b"1"))


def _reads_attribute(facts: Facts) -> Answer:
    return _done(lambda: os.listxattr(facts["home_file"]))


def _processes_by_proc(facts: Facts) -> Answer:
    return _reads(f"/proc/{facts['pid']}/cmdline", "sleep")


def _command_of_process(facts: Facts) -> Answer:
    return _done(lambda: os.readlink(f"/proc/{facts['pid']}/exe"))


def _hangs_up(facts: Facts) -> Answer:
    """Signal every process that this user has; nothing happens to them by signal 0."""
    try:
        os.killpg(os.getpgid(facts["pid"]), 0)
    except OSError as refused:
        return HELD, str(refused)
    return ESCAPED, "a group of others can be signalled"


ATTEMPTS: dict[str, Attempt] = {
    "read_by_own_root": lambda facts: _reads(f"/proc/self/root{facts['outside_file']}", facts["canary"]),
    "read_by_thread_root": lambda facts: _reads(f"/proc/thread-self/root{facts['home_file']}", facts["canary"]),
    "read_by_working_folder": lambda facts: _reads("/proc/self/cwd/../../../outside/file", facts["canary"]),
    "open_folder_left": _through_descriptors,
    "open_by_path_only": _by_path_only,
    "open_by_handle": _handle,
    "chroot": _chroot,
    "pivot_root": lambda facts: _system_call(155, 41, b".", b"."),
    "fsopen": lambda facts: _system_call(430, 430, b"tmpfs", 0),
    "open_tree": lambda facts: _system_call(428, 428, -100, b"/", 1),
    "move_mount": lambda facts: _system_call(429, 429, -100, b"/tmp", -100, b".", 0),
    "mount_setattr": lambda facts: _system_call(442, 442, -100, b".", 0, ctypes.create_string_buffer(32), 32),
    "umount": lambda facts: _system_call(166, 39, b"/tmp", 2),
    "clone_namespace": lambda facts: _system_call(272, 97, 0x10000000 | 0x00020000),
    "enter_mount_namespace": lambda facts: _namespace(facts, "mnt"),
    "enter_user_namespace": lambda facts: _namespace(facts, "user"),
    "enter_network_namespace": lambda facts: _namespace(facts, "net"),
    "pidfd_open": lambda facts: _system_call(434, 434, facts["pid"], 0),
    "process_memory": _memory,
    "kcmp": lambda facts: _system_call(312, 272, facts["pid"], os.getpid(), 0, 0, 0),
    "queued_signal": _queued_signal,
    "signal_group": _hangs_up,
    "set_priority": _priority,
    "set_affinity": _affinity,
    "set_scheduler": _scheduler,
    "set_limits": _limits,
    "see_limits": _looks_at_limits,
    "set_io_priority": _io_priority,
    "set_group": _group,
    "command_line_of_process": _processes_by_proc,
    "program_of_process": _command_of_process,
    "type_into_terminal": _terminal,
    "kernel_log": lambda facts: _system_call(103, 116, 3, ctypes.create_string_buffer(64), 64),
    "kernel_log_device": lambda facts: _done(lambda: os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)),
    "memory_device": lambda facts: _done(lambda: os.open("/dev/mem", os.O_RDONLY)),
    "virtual_machines": lambda facts: _done(lambda: os.open("/dev/kvm", os.O_RDWR)),
    "fuse_device": lambda facts: _done(lambda: os.open("/dev/fuse", os.O_RDWR)),
    "tunnel_device": lambda facts: _done(lambda: os.open("/dev/net/tun", os.O_RDWR)),
    "virtual_socket": _socket(40),
    "crypto_socket": _socket(38, socket.SOCK_SEQPACKET),
    "packet_socket": _socket(17, socket.SOCK_RAW),
    "loopback_v6": lambda facts: _connects(socket.AF_INET6, ("::ffff:127.0.0.1", facts["tcp_port"])),
    "any_address": lambda facts: _connects(socket.AF_INET, ("0.0.0.0", facts["tcp_port"])),
    "fast_open": _fast_open,
    "shared_memory": _shared_memory,
    "control_group": _group_of_control,
    "kernel_setting": _kernel_setting,
    "become_root": _becomes_root,
    "capability_of_file": _capability_of_file,
    "link_from_descriptor": _link_from_descriptor,
    "move_workspace": _moves_itself,
    "move_file_out": _moves_file_out,
    "list_home": lambda facts: _folder(facts["home"]),
    "list_outside": lambda facts: _folder(facts["outside_folder"]),
    "watch_folder": _watches,
    "enter_folder": _enters,
    "see_file": lambda facts: _sees(facts["home_file"]),
    "change_rights": _rights,
    "change_rights_of_folder": _rights_of_folder,
    "change_owner": _owner,
    "change_times": _times,
    "change_attributes": _attribute,
    "see_attributes": _reads_attribute,
    "kernel_module": lambda facts: _system_call(175, 105, None, 0, b""),
    "fanotify": lambda facts: _system_call(300, 262, 0, 0),
    "accounting": lambda facts: _system_call(163, 89, b"/no-such-file"),
    "swap": lambda facts: _system_call(167, 224, b"/no-such-file", 0),
    "host_name": lambda facts: _system_call(170, 161, b"box", 3),
    "request_key": lambda facts: _system_call(249, 218, b"user", b"x", None, 0),
}


def main(arguments: list[str]) -> None:
    """Make every attempt."""
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    with open(arguments[0]) as file:
        facts = json.load(file)
    results = {}
    for name, attempt in ATTEMPTS.items():
        try:
            outcome, detail = attempt(facts)
        except Exception as error:  # noqa: BLE001 - the next attempt must be made
            outcome, detail = ERROR, f"{type(error).__name__}: {error}"
        results[name] = {"outcome": outcome, "detail": detail[:200]}
    print(json.dumps(results), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
