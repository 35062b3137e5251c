"""The program that starts the commands of a run at level B.

It is started once per run, takes orders over the socket that is its standard input, and forks three times for each: a
keeper that stays outside the walls, adopts whatever the command leaves behind and ends it; a guard that goes inside
them; and the command itself. So a command costs forks, not the start of an interpreter.

Needs nothing but the standard library, and only little of that.
"""

import ctypes
import errno
import json
import os
import resource
import select
import signal
import socket
import time
from contextlib import suppress
from typing import Any, NoReturn

from agent_fabric.infrastructure.sandbox import landlock_attributes
from agent_fabric.infrastructure.sandbox.command_line import BASH
from agent_fabric.infrastructure.sandbox.landlock_rules import Allowed, Ruleset, become
from agent_fabric.infrastructure.sandbox.landlock_watch import Watch, children
from agent_fabric.infrastructure.sandbox.resource_use import tasks_of_user
from agent_fabric.infrastructure.tree_walk import remove_tree

END, POLITE_END = b"K", b"T"
"""What a driver tells a keeper: end everything; ask the command to end."""
ENDED, NOT_STARTED, OVER_LIMIT, GONE = b"E", b"F", b"L", b"G"
"""What a keeper tells a driver: the command's exit code; why it did not start; a limit; nothing is left."""
ORDER_FDS = 4
"""What comes with an order: its text, standard output, standard error, the line to the keeper."""

_PR_SET_SECCOMP, _FILTER = 22, 2
_PR_SET_CHILD_SUBREAPER = 36
SWEEP_S = 5.0
"""How long a keeper tries to end what is left of its command."""
_GUARD_S = 0.5
_COUNT_EVERY_S = 2.0
_STARTED = b"P"

_libc = ctypes.CDLL(None, use_errno=True)


class Box:
    """What is the same for all commands of the run."""

    def __init__(self, setup: dict[str, Any]) -> None:
        place = become(setup)
        self.workspace = place.workspace
        self.temporary: str = setup["temporary"]
        """A folder to remove at the end; empty: there is none on disk."""
        self.environment = {**setup["environment"], **place.environment}
        self.variables: dict[bytes, bytes] = {}
        """Those of one command; set in the process that keeps it."""
        self.limits: dict[str, int] = setup["limits"]
        self.filter = bytes.fromhex(setup["seccomp"])
        self.writable: tuple[str, ...] = (place.workspace, place.temporary, *setup["write"])
        self.ruleset = Ruleset(Allowed(read=tuple(setup["read"]), write=self.writable))
        self._others, self._counted = 0, 0.0
        self.watch = Watch(self.limits, (place.workspace, place.temporary))

    def count_others(self) -> None:
        """Count the tasks of this user, which the kernel's limit on processes includes; now and then is enough."""
        if time.monotonic() - self._counted > _COUNT_EVERY_S:
            self._others, self._counted = tasks_of_user(), time.monotonic()

    def close_doors(self) -> int | None:
        """Confine this process and all it starts; return where its changes of attributes arrive, if they do."""
        for kind, value in self._rlimits().items():
            _, hard = resource.getrlimit(kind)
            most = value if hard == resource.RLIM_INFINITY else min(value, hard)
            resource.setrlimit(kind, (most, most))
        self.ruleset.lay_on_this_process()
        program = landlock_attributes.Program(len(self.filter) // 8, self.filter)
        if _libc.prctl(_PR_SET_SECCOMP, ctypes.c_ulong(_FILTER), ctypes.byref(program), 0, 0):
            raise OSError(ctypes.get_errno(), "seccomp was refused")
        return landlock_attributes.hand_over()

    def _rlimits(self) -> dict[int, int]:
        megabyte = 1 << 20
        return {
            resource.RLIMIT_CORE: 0,
            resource.RLIMIT_DATA: self.limits["memory_mb"] * megabyte,
            resource.RLIMIT_FSIZE: self.limits["file_size_mb"] * megabyte,
            resource.RLIMIT_NOFILE: 4096,
            resource.RLIMIT_NPROC: self._others + self.limits["processes"],
        }


def main() -> None:
    """Make the box, then start what is ordered until the driver is gone."""
    channel = socket.socket(fileno=0)
    _, fds, _, _ = socket.recv_fds(channel, 16, 1)
    try:
        box = Box(json.loads(_whole(fds[0])))
    except (OSError, ValueError, KeyError) as error:
        # Not the whole error: it may name places on this machine.
        channel.send(f"error {getattr(error, 'strerror', None) or type(error).__name__}".encode())
        return
    os.close(fds[0])
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, ctypes.c_ulong(1), 0, 0, 0)
    channel.send(b"ready %d" % box.ruleset.version)
    _serve(channel, box)
    if box.temporary:
        remove_tree(box.temporary)


def _serve(channel: socket.socket, box: Box) -> None:
    keepers: dict[int, int] = {}
    waiting = select.poll()
    waiting.register(channel, select.POLLIN)
    while True:
        for ready, _ in waiting.poll():
            if ready in keepers:
                os.waitpid(keepers.pop(ready), 0)
                waiting.unregister(ready)
                os.close(ready)
                _end_orphans(set(keepers.values()))
                continue
            text, fds, _, _ = socket.recv_fds(channel, 16, ORDER_FDS)
            if not text:
                return
            for fd in fds:
                os.set_inheritable(fd, False)  # or the command would have them too
            box.count_others()
            keeper = os.fork()
            if not keeper:
                channel.close()
                for other in keepers:
                    os.close(other)
                _as_program(lambda: _keep(box, *fds))  # noqa: B023 - called at once
            for fd in fds:
                os.close(fd)
            pidfd = os.pidfd_open(keeper)
            keepers[pidfd] = keeper
            waiting.register(pidfd, select.POLLIN)


def _end_orphans(keepers: set[int]) -> None:
    """End what a keeper that was killed has left to us."""
    deadline = time.monotonic() + SWEEP_S
    while (orphans := set(children(os.getpid())) - keepers) and time.monotonic() < deadline:
        for pid in orphans:
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)


def _keep(box: Box, order: int, out: int, err: int, line: int) -> None:
    """Start one command, pass on what happens to it, and end all of it."""
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, ctypes.c_ulong(1), 0, 0, 0)
    words = _whole(order).split(b"\0")
    first = words.index(b"")  # what stands before are variables
    box.variables = dict(each.split(b"=", 1) for each in words[:first])
    mark, *arguments = words[first + 1 :]
    keeper = os.getpid()
    driver = socket.socket(fileno=line)
    try:
        is_full = box.watch.begin()
    except OSError as error:
        _send(driver, b"%b%d" % (NOT_STARTED, error.errno or errno.EIO))
        return
    if is_full:
        box.limits["file_size_mb"] = 1
    news, tell = os.pipe()
    hear, command_guard = os.pipe()
    attributes, send_there = socket.socketpair()
    guard = os.fork()
    if not guard:
        attributes.close()
        for fd in (line, news, command_guard):
            os.close(fd)
        _as_program(lambda: _guard(box, keeper, mark, arguments, (out, err), (tell, hear), send_there))
    send_there.close()
    landlock_attributes.serve(attributes, box.writable)
    for fd in (order, out, err, tell, hear):
        os.close(fd)
    watch_over(box.watch, driver, news)
    os.close(command_guard)  # the guard's sign to end everything in its domain
    ended = _sweep(guard)
    with suppress(OSError):
        for message in _messages(_rest(news)):
            driver.send(message)
        driver.send(b"%b%d" % (GONE, ended))


def watch_over(watch: Watch, driver: socket.socket, news: int) -> None:
    """Watch a command until it is over; one that cannot be watched any more is over, and the driver is told."""
    try:
        _pass_on(watch, driver, news)
    except Exception as error:  # noqa: BLE001 - whatever it is: a command that no one watches must not go on
        _send(driver, b"%bmore than could be checked (%b)" % (OVER_LIMIT, type(error).__name__.encode()))


def _pass_on(watch: Watch, driver: socket.socket, news: int) -> None:
    """Tell the driver what the guard tells, until one of them says it is over."""
    command = 0
    waiting = select.poll()
    waiting.register(driver, select.POLLIN)
    waiting.register(news, select.POLLIN)
    while True:
        ready = {fd for fd, _ in waiting.poll(watch.next_look_ms())}
        if driver.fileno() in ready:
            order = driver.recv(16)
            if order != POLITE_END:
                return
            if command:
                with suppress(OSError):
                    os.killpg(command, signal.SIGTERM)
        if news in ready:
            text = os.read(news, 4096)
            if not text:
                waiting.unregister(news)  # the command has ended its guard; it is swept when the driver says so
                _send(driver, b"%b%d" % (ENDED, -signal.SIGKILL))
            for message in _messages(text):
                if message.startswith(_STARTED):
                    command = int(message[1:])
                else:
                    _send(driver, message)
        if exceeded := watch.look():
            _send(driver, OVER_LIMIT + exceeded.encode())
            return


def _guard(
    box: Box,
    keeper: int,
    mark: bytes,
    arguments: list[bytes],
    outputs: tuple[int, int],
    line: tuple[int, int],
    attributes: socket.socket,
) -> None:
    """Go inside the walls, start the command there, and end everything inside when told to.

    It is the only one that can end a process that forks faster than it can be found: under Landlock's rules a signal
    to everyone reaches just those of the same domain, in one step.
    """
    tell, hear = line
    try:
        os.chdir(box.workspace)
        if (asked_at := box.close_doors()) is not None:
            socket.send_fds(attributes, [b"a"], [asked_at])
            os.close(asked_at)
        attributes.close()
        command = os.fork()
    except OSError as error:
        os.write(tell, b"%b%d\n" % (NOT_STARTED, error.errno or 0))
        return
    if not command:
        os.close(hear)
        _become_command(box, mark, arguments, outputs, tell)
    for fd in outputs:
        os.close(fd)
    os.write(tell, b"%b%d\n" % (_STARTED, command))
    pidfd = os.pidfd_open(command)
    waiting = select.poll()
    waiting.register(pidfd, select.POLLIN)
    waiting.register(hear, select.POLLIN)
    ready = {fd for fd, _ in waiting.poll()}
    if pidfd in ready:
        _tell_end(command, tell)
        waiting.unregister(pidfd)
        waiting.poll()
        _end_domain(box, keeper)
    else:
        _end_domain(box, keeper)
        with suppress(OSError):
            os.kill(command, signal.SIGKILL)
        _tell_end(command, tell)


def _tell_end(command: int, tell: int) -> None:
    _, status = os.waitpid(command, 0)
    os.write(tell, b"%b%d\n" % (ENDED, os.waitstatus_to_exitcode(status)))


def _end_domain(box: Box, keeper: int) -> None:
    if not box.ruleset.scopes_signals:
        return
    try:
        os.kill(keeper, 0)
    except PermissionError:  # the proof that a signal to everyone stays inside
        with suppress(OSError):
            os.kill(-1, signal.SIGKILL)
    except OSError:
        return


def _become_command(box: Box, mark: bytes, arguments: list[bytes], outputs: tuple[int, int], tell: int) -> NoReturn:
    try:
        os.setsid()
        null = os.open("/dev/null", os.O_RDONLY)
        for source, target in zip((null, *outputs), (0, 1, 2), strict=True):
            os.dup2(source, target)
        for number in (signal.SIGPIPE, signal.SIGXFSZ):  # which Python ignores
            signal.signal(number, signal.SIG_DFL)
        environment = {os.fsencode(name): os.fsencode(value) for name, value in box.environment.items()}
        environment |= {**box.variables, b"FABRIC_COMMAND_ID": mark}
        os.execve(b"/bin/bash", [*BASH, *arguments], environment)  # noqa: S606 - it is the shell
    except OSError as error:
        os.write(tell, b"%b%d\n" % (NOT_STARTED, error.errno or 0))
    os._exit(127)


def _sweep(guard: int) -> int:
    """End every process that is ours, directly or by adoption; return how many the guard had left."""
    deadline, guard_deadline = time.monotonic() + SWEEP_S, time.monotonic() + _GUARD_S
    while time.monotonic() < guard_deadline:
        if _reaped(guard):
            break
        time.sleep(0.0002)
    ended = 0
    while time.monotonic() < deadline:
        for pid in children(os.getpid()):
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                ended += 1
        except ChildProcessError:
            break
        time.sleep(0.0002)
    return ended


def _reaped(pid: int) -> bool:
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return True


def _as_program(work: Any) -> NoReturn:
    """Do the work of a fork, and never return to the code of its parent."""
    code = 1
    try:
        work()
        code = 0
    except BaseException as error:  # noqa: BLE001 - whatever it is: no one above may go on
        with suppress(OSError):
            os.write(2, f"{type(error).__name__}: {error}\n".encode())
    finally:
        os._exit(code)


def _send(driver: socket.socket, message: bytes) -> None:
    with suppress(OSError):
        driver.send(message)


def _messages(text: bytes) -> list[bytes]:
    return [message for message in text.split(b"\n") if message]


def _rest(pipe: int) -> bytes:
    os.set_blocking(pipe, False)
    with suppress(BlockingIOError):
        return os.read(pipe, 4096)
    return b""


def _whole(fd: int) -> bytes:
    os.lseek(fd, 0, os.SEEK_SET)
    with os.fdopen(os.dup(fd), "rb") as file:
        return file.read()
