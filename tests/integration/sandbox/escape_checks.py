"""Tries to get out of the box it runs in, in every way we know, and says how each try ended.

A program of its own, for any Python from 3.9 on and without other packages: it is copied into a workspace and run there
as a command. What it looks for was laid out before by somebody outside, who names it in a JSON file (`FACTS`):

    python3 escape_checks.py FACTS              all checks but those that use up limits
    python3 escape_checks.py FACTS NAME...      these checks, one after another

It prints {"name": {"outcome": "held" | "escaped" | "error", "detail": "..."}}. For the checks in WANTED, which are
about what must work inside, `held` means that it works. A check in HEAVY may be ended together with its command by a
limit of the box; whoever runs it takes a command that was ended as `held`.
"""
# Every check takes the facts, and tries the system's calls as they are.
# ruff: noqa: PTH101, PTH102, PTH104, PTH108, PTH110, PTH116, PTH123, PTH208, PTH211

import ctypes
import errno
import json
import multiprocessing
import os
import platform
import signal
import socket
import sqlite3
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing, suppress
from typing import Any

Facts = dict[str, Any]
Answer = tuple[str, str]
Check = Callable[[Facts], Answer]
HELD, ESCAPED, ERROR = "held", "escaped", "error"
_MEGABYTE = 1 << 20
_REFUSALS = {errno.EPERM, errno.EACCES, errno.ENOSYS}
_ARM = platform.machine() == "aarch64"
_libc = ctypes.CDLL(None, use_errno=True)


class _Capabilities(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint32) for name in ("e0", "p0", "i0", "e1", "p1", "i1")]


# Files


def _reads(path: str, expected: str = "") -> Answer:
    try:
        with open(path, errors="replace") as file:
            text = file.read(4096)
    except OSError as error:
        return HELD, str(error)
    return (ESCAPED, f"read {path}") if expected in text else (HELD, "another file of that name")


def _writes(path: str) -> Answer:
    try:
        with open(path, "a") as file:
            file.write("escaped\n")
    except OSError as error:
        return HELD, str(error)
    return ESCAPED, f"wrote {path}"


def _opens_for_writing(path: str) -> Answer:
    try:
        os.close(os.open(path, os.O_WRONLY))
    except OSError as error:
        return HELD, str(error)
    return ESCAPED, f"opened {path} for writing"


def _read_through_symlink(facts: Facts) -> Answer:
    link = f"link-{facts['name']}"
    os.symlink(facts["outside_file"], link)
    return _reads(link, facts["canary"])


def _write_through_symlink(facts: Facts) -> Answer:
    link = f"way-{facts['name']}"
    os.symlink(facts["outside_folder"], link)
    return _writes(f"{link}/through-symlink-{facts['name']}")


def _hard_link(facts: Facts) -> Answer:
    name = f"hard-{facts['name']}"
    try:
        os.link(facts["outside_file"], name)
    except OSError as error:
        return HELD, str(error)
    return _reads(name, facts["canary"])


def _setuid_file(facts: Facts) -> Answer:
    """Make a file that runs with the rights of whoever it belongs to outside."""
    old, new = f"setid-{facts['name']}", f"setid-new-{facts['name']}"
    os.close(os.open(old, os.O_CREAT | os.O_WRONLY, 0o755))
    with suppress(OSError):
        os.chmod(old, 0o4755)
    with suppress(OSError):
        os.close(os.open(new, os.O_CREAT | os.O_WRONLY, 0o6755))
    modes = [os.stat(name).st_mode & 0o6000 for name in (old, new) if os.path.exists(name)]
    return (ESCAPED if any(modes) else HELD), f"bits {modes}"


# Processes


def _visible_processes(facts: Facts) -> Answer:
    try:
        pids = [name for name in os.listdir("/proc") if name.isdigit()]
    except OSError as error:
        return HELD, str(error)
    return (HELD if len(pids) < 10 else ESCAPED), f"{len(pids)} processes"


def _outside_process_seen(facts: Facts) -> Answer:
    try:
        os.kill(facts["pid"], 0)
    except ProcessLookupError:
        return HELD, "no such process in here"
    except PermissionError:
        return ESCAPED, "its existence shows"
    return ESCAPED, "it is there and could be signalled"


def _kill_outside(facts: Facts) -> Answer:
    try:
        os.kill(facts["pid"], signal.SIGUSR1)
    except OSError as error:
        return HELD, str(error)
    return ESCAPED, f"signalled {facts['pid']}"


def _ptrace_outside(facts: Facts) -> Answer:
    attach, detach, no = 16, 17, ctypes.c_void_p(0)
    if _libc.ptrace(attach, facts["pid"], no, no) < 0:
        return HELD, os.strerror(ctypes.get_errno())
    os.waitpid(facts["pid"], 0x40000000)
    _libc.ptrace(detach, facts["pid"], no, no)
    return ESCAPED, f"attached to {facts['pid']}"


# Network


def _connects(family: int, address: Any) -> Answer:
    try:
        with closing(socket.socket(family, socket.SOCK_STREAM)) as one:
            one.settimeout(2)
            one.connect(address)
    except OSError as error:
        return HELD, str(error)
    return ESCAPED, f"connected to {address}"


def _udp(facts: Facts) -> Answer:
    try:
        with closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as one:
            one.settimeout(0.3)
            one.sendto(b"anybody there?", ("127.0.0.1", facts["udp_port"]))
            one.recv(16)
    except OSError as error:
        return HELD, str(error)
    return ESCAPED, "somebody answered"


def _makes_socket(family: int, kind: int, protocol: int) -> Answer:
    try:
        socket.socket(family, kind, protocol).close()
    except OSError as error:
        return HELD, str(error)
    return ESCAPED, "the socket was made"


# Privileges and the kernel


def _setuid_program(facts: Facts) -> Answer:
    program = facts.get("setuid_id")
    if not program:  # only root can lay one out
        return _no_new_privs(facts)
    try:
        uid = subprocess.run([program, "-u"], capture_output=True, check=True, timeout=10).stdout.strip()
    except (OSError, subprocess.SubprocessError) as error:
        return HELD, str(error)
    return (ESCAPED if uid == b"0" else HELD), f"it ran as {uid.decode()}"


def _capabilities(facts: Facts) -> Answer:
    header, data = struct.pack("=Ii", 0x20080522, 0), _Capabilities()
    if _libc.capget(ctypes.c_char_p(header), ctypes.byref(data)):
        return ERROR, os.strerror(ctypes.get_errno())
    held = data.e0 | data.p0 | data.e1 | data.p1
    return (HELD if not held else ESCAPED), f"effective {data.e1:08x}{data.e0:08x}"


def _no_new_privs(facts: Facts) -> Answer:
    value = _libc.prctl(39, 0, 0, 0, 0)
    return (HELD if value == 1 else ESCAPED), f"no_new_privs {value}"


def _seccomp_mode(facts: Facts) -> Answer:
    value = _libc.prctl(21, 0, 0, 0, 0)
    return (HELD if value == 2 else ESCAPED), f"mode {value}"


def _in_child(call: Callable[[], int]) -> Answer:
    """Try something that would change this process in a child."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        result = call()
        os.write(write, struct.pack("=i", 0 if result >= 0 else ctypes.get_errno()))
        os._exit(0)
    os.close(write)
    text = os.read(read, 4)
    os.close(read)
    os.waitpid(child, 0)
    number = struct.unpack("=i", text)[0] if len(text) == 4 else errno.EPERM
    return (ESCAPED, "it was allowed") if number == 0 else (HELD, os.strerror(number))


def _reaches_kernel(x86: int, arm: int, *arguments: Any) -> Answer:
    """Call the kernel; any answer but a refusal means that this part of it can be talked to."""
    result = _libc.syscall(ctypes.c_long(arm if _ARM else x86), *arguments)
    number = ctypes.get_errno()
    if result >= 0:
        return ESCAPED, "it was allowed"
    return (HELD if number in _REFUSALS else ESCAPED), os.strerror(number)


def _zeros(size: int) -> Any:
    return ctypes.byref(ctypes.create_string_buffer(size))


def _mknod(facts: Facts) -> Answer:
    for folder in (".", os.environ.get("TMPDIR", "/tmp")):
        with suppress(OSError):
            os.mknod(f"{folder}/device-{facts['name']}", 0o20666, os.makedev(1, 3))
            return ESCAPED, f"made a device in {folder}"
    return HELD, "refused"


def _raw_disk(facts: Facts) -> Answer:
    for device in ("/dev/vda", "/dev/sda", "/dev/nvme0n1", "/dev/mem", "/dev/kmsg"):
        with suppress(OSError):
            os.close(os.open(device, os.O_RDONLY))
            return ESCAPED, f"opened {device}"
    return HELD, "none opens"


def _environment(facts: Facts) -> Answer:
    names = [name for name, value in os.environ.items() if facts["secret"] in value]
    return (ESCAPED, ", ".join(names)) if names else (HELD, f"{len(os.environ)} variables, no secret")


# What uses up limits


def _forks(facts: Facts) -> Answer:
    started: list[int] = []
    try:
        for _ in range(1500):
            child = os.fork()
            if not child:
                signal.pause()
            started.append(child)
    except OSError as error:
        return HELD, f"{len(started)} forks, then: {error}"
    finally:
        for pid in started:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
    return ESCAPED, f"{len(started)} forks"


def _fill(megabytes: int, ready: int, hold: int) -> None:
    block = bytearray(megabytes * _MEGABYTE)
    for at in range(0, len(block), 4096):
        block[at] = 1
    os.write(ready, b"x")
    os.read(hold, 1)


def _memory(children: int, megabytes: int) -> Answer:
    ready, tell = os.pipe()
    hold, release = os.pipe()
    pids = []
    for _ in range(children):
        child = os.fork()
        if not child:
            os.close(ready)
            os.close(release)
            with suppress(BaseException):
                _fill(megabytes, tell, hold)
            os._exit(0)
        pids.append(child)
    os.close(tell)
    os.close(hold)
    filled, deadline = 0, time.monotonic() + 30
    os.set_blocking(ready, False)
    while filled < children and time.monotonic() < deadline:
        with suppress(BlockingIOError):
            filled += len(os.read(ready, children))
        if os.waitpid(-1, os.WNOHANG)[0]:  # one was ended, and the others wait for it in vain
            break
        time.sleep(0.01)
    if filled == children:
        time.sleep(1)  # as long as somebody needs to notice
    os.close(release)
    for pid in pids:
        with suppress(OSError):
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
    return (ESCAPED if filled == children else HELD), f"{filled} of {children} had {megabytes} MB each"


def _disk(folder: str, files: int, megabytes: int) -> Answer:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    block, written, names = b"\1" * _MEGABYTE, 0, []
    try:
        for nth in range(files):
            names.append(f"{folder}/big-{nth}")
            with open(names[-1], "wb", buffering=0) as file:
                for _ in range(megabytes):
                    if file.write(block) != len(block):
                        return HELD, f"{written} MB, then cut short"
                    written += 1
        time.sleep(1)  # as long as somebody needs to notice
    except OSError as error:
        return HELD, f"{written} MB, then: {error}"
    finally:
        for name in names:
            with suppress(OSError):
                os.unlink(name)
    return ESCAPED, f"wrote {written} MB"


def _temporary() -> str:
    return os.environ.get("TMPDIR", "/tmp")


def _leave(forever: Callable[[], None]) -> Answer:
    """Leave a daemon behind that holds a lock; the one outside sees whether it is free after the command."""
    import fcntl  # noqa: PLC0415 - there is none on some systems where the rest runs

    lock = os.open("daemon.lock", os.O_RDWR | os.O_CREAT, 0o666)
    fcntl.flock(lock, fcntl.LOCK_EX)
    if not os.fork():
        os.setsid()
        if not os.fork():
            for standard in (0, 1, 2):
                os.close(standard)
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            os.environ.clear()
            forever()
        os._exit(0)
    return HELD, "left; look whether daemon.lock is free"


def _hop() -> None:
    """Live on as a new process all the time, so that whoever looks finds only the dead."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if os.fork():
            os._exit(0)


# What must work


def _workspace_write(facts: Facts) -> Answer:
    os.mkdir("folder-here")
    os.close(os.open("made-here", os.O_CREAT | os.O_WRONLY, 0o644))
    os.rename("made-here", "folder-here/moved")
    os.unlink("folder-here/moved")
    return HELD, ""


def _runs(script: str) -> Answer:
    done = subprocess.run(["/bin/sh", "-ec", script], capture_output=True, timeout=60, check=False)
    return (HELD, "") if done.returncode == 0 else (ERROR, (done.stdout + done.stderr).decode(errors="replace")[-500:])


_GIT = """
git init -q repo-here; cd repo-here; echo x > a; git add a
git -c user.name=a -c user.email=a@example.org commit -qm one; git log --oneline | grep -q one; cd ..; rm -rf repo-here
"""
_COMPILER = """
printf '#include <stdio.h>\nint main(void){puts("compiled");return 0;}' > c-here.c
cc -o c-here c-here.c; ./c-here | grep -q compiled; rm c-here c-here.c
"""


def _double(number: int) -> int:
    return number * 2


def _multiprocessing(facts: Facts) -> Answer:
    with multiprocessing.get_context("fork").Pool(2) as pool:
        return (HELD, "") if pool.map(_double, range(4)) == [0, 2, 4, 6] else (ERROR, "wrong results")


def _sqlite(facts: Facts) -> Answer:
    with closing(sqlite3.connect("base-here.db")) as base:
        base.execute("pragma journal_mode=wal")
        base.execute("create table t (x)")
        base.execute("insert into t values (1)")
        base.commit()
        count = base.execute("select count(*) from t").fetchone()[0]
    return (HELD, "") if count == 1 else (ERROR, "wrong count")


CHECKS: dict[str, Check] = {
    "read_home": lambda facts: _reads(facts["home_file"], facts["canary"]),
    "read_ssh_key": lambda facts: _reads(facts["ssh_file"], facts["canary"]),
    "read_etc_shadow": lambda facts: _reads("/etc/shadow", ":"),
    "read_fabric_folder": lambda facts: _reads(facts["fabric_file"], facts["canary"]),
    "write_home": lambda facts: _writes(f"{facts['home']}/{facts['name']}"),
    "write_parent": lambda facts: _writes(f"{facts['parent']}/{facts['name']}"),
    "write_parent_by_dots": lambda facts: _writes(f"../{facts['name']}"),
    "write_tmp_outside": lambda facts: _writes(f"{facts['tmp_folder']}/{facts['name']}"),
    "write_etc": lambda facts: _writes(f"/etc/{facts['name']}"),
    "write_usr": lambda facts: _writes(f"/usr/{facts['name']}"),
    "read_through_symlink": _read_through_symlink,
    "write_through_symlink": _write_through_symlink,
    "hard_link": _hard_link,
    "setuid_file": _setuid_file,
    "proc_1_root": lambda facts: _reads(f"/proc/1/root{facts['outside_file']}", facts["canary"]),
    "other_environ": lambda facts: _reads(f"/proc/{facts['pid']}/environ", facts["secret"]),
    "other_root": lambda facts: _reads(f"/proc/{facts['pid']}/root{facts['outside_file']}", facts["canary"]),
    "other_cwd": lambda facts: _reads(f"/proc/{facts['pid']}/cwd/{facts['name_in_cwd']}", facts["canary"]),
    "sysrq_trigger": lambda facts: _opens_for_writing("/proc/sysrq-trigger"),
    "core_pattern": lambda facts: _opens_for_writing("/proc/sys/kernel/core_pattern"),
    "visible_processes": _visible_processes,
    "outside_process_seen": _outside_process_seen,
    "kill_outside": _kill_outside,
    "ptrace_outside": _ptrace_outside,
    "tcp_loopback": lambda facts: _connects(socket.AF_INET, ("127.0.0.1", facts["tcp_port"])),
    "udp_loopback": _udp,
    "unix_path_socket": lambda facts: _connects(socket.AF_UNIX, facts["unix_path"]),
    "unix_abstract_socket": lambda facts: _connects(socket.AF_UNIX, "\0" + facts["unix_abstract"]),
    "raw_socket": lambda facts: _makes_socket(socket.AF_INET, socket.SOCK_RAW, 1),
    "netlink_socket": lambda facts: _makes_socket(getattr(socket, "AF_NETLINK", 16), socket.SOCK_RAW, 0),
    "setuid_program": _setuid_program,
    "capabilities": _capabilities,
    "no_new_privs": _no_new_privs,
    "seccomp_mode": _seccomp_mode,
    "user_namespace": lambda facts: _in_child(lambda: int(_libc.unshare(0x10000000))),
    "mount_tmpfs": lambda facts: _in_child(lambda: int(_libc.mount(b"none", b".", b"tmpfs", ctypes.c_ulong(0), None))),
    "io_uring": lambda facts: _reaches_kernel(425, 425, 4, _zeros(120)),
    "bpf": lambda facts: _reaches_kernel(321, 280, 0, _zeros(120), 120),
    "keyctl": lambda facts: _reaches_kernel(250, 219, 0, -3, 1),
    "perf_event_open": lambda facts: _reaches_kernel(298, 241, _zeros(120), 0, -1, -1, 0),
    "userfaultfd": lambda facts: _reaches_kernel(323, 282, 0),
    "mknod": _mknod,
    "raw_disk": _raw_disk,
    "environment": _environment,
}
HEAVY: dict[str, Check] = {
    "forks": _forks,
    "memory_of_one": lambda facts: _memory(1, 3072),
    "memory_of_four": lambda facts: _memory(4, 700),
    "disk_in_one_file": lambda facts: _disk(".", 1, 800),
    "disk_in_many_files": lambda facts: _disk(".", 8, 200),
    "disk_in_tmp": lambda facts: _disk(_temporary(), 1, 800),
    "disk_in_tmp_many_files": lambda facts: _disk(_temporary(), 8, 200),
    "daemon": lambda facts: _leave(lambda: time.sleep(60)),
    "daemon_that_hops": lambda facts: _leave(_hop),
}
WANTED: dict[str, Check] = {
    "workspace_write": _workspace_write,
    "git": lambda facts: _runs(_GIT),
    "c_compiler": lambda facts: _runs(_COMPILER),
    "multiprocessing": _multiprocessing,
    "sqlite": _sqlite,
}


def main(arguments: list[str]) -> None:
    """Run the checks that are named, or all that are light."""
    with open(arguments[0]) as file:
        facts = json.load(file)
    known = {**CHECKS, **HEAVY, **WANTED}
    results = {}
    for name in arguments[1:] or [*CHECKS, *WANTED]:
        try:
            outcome, detail = known[name](facts)
        except Exception as error:  # noqa: BLE001 - the next check must run
            outcome, detail = ERROR, f"{type(error).__name__}: {error}"
        results[name] = {"outcome": outcome, "detail": detail}
    print(json.dumps(results), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
