"""Boxes of level B: the kernel's own rules, Landlock and seccomp, where namespaces cannot be had."""

import asyncio
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, suppress
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Self

from agent_fabric.application.ports.sandbox import CommandOutcome
from agent_fabric.config.schema.sandbox import SandboxLimits
from agent_fabric.domain.errors import ConfigError
from agent_fabric.domain.policy.protected import HIDDEN, PROTECTED_AT_TOP, is_protected
from agent_fabric.infrastructure.sandbox import idmapped, landlock_helper, seccomp
from agent_fabric.infrastructure.sandbox.beneath import Beneath
from agent_fabric.infrastructure.sandbox.command_line import assignments, bash_arguments, memory_file
from agent_fabric.infrastructure.sandbox.draining import (
    MAX_OUTPUT_BYTES,
    Output,
    drained_output,
    ended_within,
    finish,
    wait_for_end,
)
from agent_fabric.infrastructure.sandbox.dropping import (
    DEFAULT_UID,
    Owner,
    give,
    maker_for,
    may_give,
    needs_mapping,
    owner_for,
)
from agent_fabric.infrastructure.sandbox.environment import allowed_variables
from agent_fabric.infrastructure.sandbox.git_identity import git_identity
from agent_fabric.infrastructure.sandbox.landlock_helper import ENDED, GONE, NOT_STARTED, OVER_LIMIT
from agent_fabric.infrastructure.sandbox.landlock_rules import CLOSED, MISSING_BELOW, landlock_version
from agent_fabric.infrastructure.sandbox.mounts_protected import ProtectedPaths
from agent_fabric.infrastructure.sandbox.mounts_toolchains import toolchains
from agent_fabric.infrastructure.sandbox.process_environments import RUN, SETTLE_S, entry, kill_marked
from agent_fabric.infrastructure.sandbox.workspaces import WorkspaceFiles, require_workspace
from agent_fabric.infrastructure.tree_walk import remove_tree

READABLE = (
    *("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt", "/nix/store", "/gnu/store"),
    *("/proc/cpuinfo", "/proc/filesystems", "/proc/loadavg", "/proc/meminfo", "/proc/stat", "/proc/uptime"),
    *("/proc/version", "/proc/sys/kernel/osrelease", "/proc/sys/kernel/ostype", "/proc/sys/vm/overcommit_memory"),
    *("/proc/sys/kernel/ngroups_max", "/proc/sys/kernel/cap_last_cap", "/sys/devices/system/cpu", "/dev/fd"),
)
"""What commands may read, besides their workspace: the system's programs and facts, nothing of its people."""
SHARED_MEMORY = "/dev/shm"  # noqa: S108 - where the C library keeps semaphores and shared memory

_BOOT = """
import sys
sys.path.insert(0, sys.argv[1])
from agent_fabric.infrastructure.sandbox.landlock_helper import main
main()
"""
_PACKAGES = str(Path(landlock_helper.__file__).parents[3])
_START_S = 10.0
_OPEN_HINT = "Keep the fabric folder (--workspace) and TMPDIR where every user may pass, or run fabric as a plain user."


def landlock_gaps(version: int | None = None) -> tuple[str, ...]:
    """Return what this kernel's Landlock cannot give, in plain words; empty: all that is asked of it."""
    here = landlock_version() if version is None else version
    return tuple(missing for below, missing in MISSING_BELOW.items() if here < below)


class LandlockSandbox(WorkspaceFiles):
    """Sandbox of level B: commands may open their workspace, a private temporary folder and the system's programs.

    They have no network at all, no keys in their environment, limits, and nothing they start outlives them. They see
    that other processes exist, share /dev/shm with them unless we are root, and may write all of their workspace.

    Root gives its boxes a view of the files of their own. In a container without the right to mount, or on a file
    system that cannot show root's files as another user's, a run's own workspace is given to the user who runs its
    commands instead (`give`); a project of root's is refused.
    """

    level = "B"

    def __init__(
        self,
        workspace: Path,
        run_id: str,
        *,
        limits: SandboxLimits | None = None,
        uid: int = DEFAULT_UID,
        readable: tuple[str, ...] = (),
        hidden: Path | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Make a box; nothing is started before its first command.

        Args:
            workspace: the folder in which commands work.
            run_id: marks its processes.
            limits: how much commands may use.
            uid: the user that they run as, if we are root.
            readable: folders to read in addition, such as toolchains in the home folder.
            hidden: a folder that commands must not see.
            environment: variables to choose from; not given: our own.

        Raises:
            ConfigError: what must be hidden lies in the workspace: this level cannot take away a part of a folder.
        """
        if hidden is not None and hidden.resolve().is_relative_to(workspace.resolve()):
            raise ConfigError(
                f"A sandbox of level B cannot hide {hidden.name} from commands that work in the folder around it",
                hint="Keep fabric's own folder elsewhere, or install bubblewrap for level A.",
            )
        self._workspace = workspace
        self._run_id = run_id
        self._limits = limits or SandboxLimits()
        self._uid = uid
        self._readable = readable
        self._hidden = hidden
        self._given_environment = environment
        self._helper: _Helper | None = None
        self._starting = asyncio.Lock()
        self._under_way: set[asyncio.Task[Any]] = set()
        self._running: set[str] = set()

    @cached_property
    def _files(self) -> Beneath:
        return Beneath(  # whose the workspace is, is looked up each time: it may have been given away meanwhile
            self._workspace, owner=partial(maker_for, self._workspace, self._uid), hidden=HIDDEN, protected=is_protected
        )

    @cached_property
    def _protected(self) -> ProtectedPaths:
        return ProtectedPaths(self._workspace.resolve(), (*PROTECTED_AT_TOP, *map(os.fsdecode, HIDDEN)))

    async def run_command(
        self, command: str, *, timeout_s: float, environment: Mapping[str, str] | None = None
    ) -> CommandOutcome:
        """Run one bash command line with the workspace as its current folder.

        Raises:
            ValueError: the command is not valid text.
            OSError: the command could not be started.
            ConfigError: the workspace is no place for a box.
        """
        arguments = bash_arguments(command)
        mark = secrets.token_hex(8)
        helper = await finish(self._ready_helper(), self._under_way)
        undone: list[str] = []
        if not self._running:
            list(self._protected.cover())  # what is there now may stay
        with ExitStack() as pipes:
            output = pipes.enter_context(drained_output(MAX_OUTPUT_BYTES))
            line = pipes.enter_context(_Line())
            self._running.add(mark)
            try:
                helper.order([*assignments(environment or {}), b"", mark.encode(), *arguments], output, line)
                output.close_writers()
                timed_out = await wait_for_end(line.over, output, timeout_s, line.ask_to_end)
            finally:
                await line.end()
                self._running.discard(mark)
                undone += self._protected.undo(has_ended=True)
            await ended_within(SETTLE_S, output)
        if line.not_started is not None:
            raise OSError(line.not_started, f"the command cannot be started: {os.strerror(line.not_started)}")
        return output.outcome(
            -signal.SIGKILL if line.exit_code is None or line.over_limit else line.exit_code,
            timed_out=timed_out,
            undone=undone,
            remarks=[f"ended: it used {line.over_limit}"] if line.over_limit else [],
        )

    async def end_leftovers(self) -> int:
        """End processes that an earlier driver of this run left behind, and clear its temporary folders."""
        ours = {entry("FABRIC_COMMAND_ID", mark) for mark in self._running}
        ended = await asyncio.to_thread(kill_marked, entry(RUN, self._run_id), spare=ours)
        if self._helper is None:
            await asyncio.to_thread(_clear, self._temporary_prefix)
        return ended

    async def aclose(self) -> None:
        """End the box and all that runs in it, also one that is being started."""
        await finish(self._close(), self._under_way)

    async def _close(self) -> None:
        async with self._starting:
            await self._end_helper()

    async def _end_helper(self) -> None:
        helper, self._helper = self._helper, None
        if helper is not None:
            await asyncio.to_thread(helper.close)

    @property
    def _temporary_prefix(self) -> str:
        return f"fabric-box-{self._run_id}-"

    async def _ready_helper(self) -> "_Helper":
        async with self._starting:
            if self._helper is not None and not self._helper.alive:
                await self._end_helper()
            if self._helper is None:
                self._helper = await asyncio.to_thread(self._start)
            return self._helper

    def _start(self) -> "_Helper":
        require_workspace(self._workspace)  # before anything is started
        own_view = os.getuid() == 0
        while True:
            try:
                owner, mapped = owner_for(self._workspace, self._uid), needs_mapping(self._workspace)
                return self._start_as(owner, mapped=mapped, own_view=own_view)
            except _ViewRefused as refused:  # at most twice: each time less is asked for
                if mapped:
                    self._give(owner, refused)
                own_view = own_view and not refused.at_all
            except OSError as error:
                if error.filename is None:
                    raise
                # The system's own message would name the workspace's place on this machine.
                raise OSError(error.errno, f"the command cannot be started: {error.strerror}") from None

    def _give(self, owner: Owner, refused: "_ViewRefused") -> None:
        if not may_give(self._workspace, self._hidden):
            why = str(refused)
            raise ConfigError(
                why if idmapped.REFUSED in why else f"{idmapped.REFUSED}: {why}", hint=idmapped.HINT
            ) from None
        give(self._workspace, owner, fabric=self._hidden)

    def _start_as(self, owner: Owner, *, mapped: bool, own_view: bool) -> "_Helper":
        given = os.environ if self._given_environment is None else self._given_environment
        # A view of their own has one in memory.
        temporary = "" if own_view else tempfile.mkdtemp(prefix=self._temporary_prefix)
        if temporary and os.getuid() == 0:
            os.chown(temporary, *owner, follow_symlinks=False)
        setup: dict[str, object] = {
            "workspace": str(self._workspace),
            "temporary": temporary,
            "owner": owner,
            "mapped": mapped,
            "own_view": own_view,
            "limits": self._limits.model_dump(),
            "environment": {**allowed_variables(given), RUN: self._run_id},
            "git_settings": git_identity(given),
            "seccomp": seccomp.filter_bytes(sockets="none", among_others=True).hex(),
            "read": list(self._render([*READABLE, *self._readable, *map(str, toolchains(given, self._workspace))])),
            "write": [SHARED_MEMORY],
        }
        return _Helper(setup, temporary)

    def _render(self, folders: Iterable[str]) -> Iterator[str]:
        """Give these folders; of one that is around fabric's own, all that is in it but that one."""
        own = None if self._hidden is None else self._hidden.resolve()
        for folder in folders:
            real = Path(folder).resolve()
            if own is None or not own.is_relative_to(real):
                yield folder
            elif own != real:
                with suppress(OSError):
                    yield from self._render([str(one) for one in real.iterdir()])


class _ViewRefused(Exception):
    """The system does not give a box the view of the files that was asked for."""

    @property
    def at_all(self) -> bool:
        """Whether there can be no view of its own; else it is only that root's files cannot be shown as another's."""
        return idmapped.NO_VIEW in str(self)


class _Helper:
    """The process that starts the commands of one box."""

    def __init__(self, setup: Mapping[str, object], temporary: str) -> None:
        self._temporary = temporary
        self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _BOOT, _PACKAGES],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={},
                cwd="/",
                start_new_session=True,
            )
        except OSError:
            self._channel.close()
            if temporary:
                remove_tree(temporary)
            raise
        finally:
            theirs.close()
        answer = self._set_up(setup)
        if not answer.startswith("ready "):
            self.close()
            why = answer.removeprefix("error ")
            if idmapped.REFUSED in why or idmapped.NO_VIEW in why:
                raise _ViewRefused(why)
            if CLOSED in why:
                raise ConfigError(why, hint=_OPEN_HINT)
            raise OSError(f"the command cannot be started: {why or 'the box did not answer'}")

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def order(self, words: list[bytes], output: Output, line: "_Line") -> None:
        """Have a command started; what becomes of it is told over the line."""
        text = memory_file(b"\0".join(words))
        try:
            socket.send_fds(self._channel, [b"run"], [text, output.out.writer, output.err.writer, line.theirs.fileno()])
        finally:
            os.close(text)
            line.theirs.close()

    def close(self) -> None:
        self._channel.close()
        try:
            self._process.wait(SETTLE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._temporary:
            remove_tree(self._temporary)

    def _set_up(self, setup: Mapping[str, object]) -> str:
        text = memory_file(json.dumps(setup).encode())
        try:
            socket.send_fds(self._channel, [b"box"], [text])
            self._channel.settimeout(_START_S)
            return self._channel.recv(4096).decode(errors="replace")
        except OSError:
            return ""
        finally:
            os.close(text)
            self._channel.settimeout(None)


class _Line:
    """The line to the keeper of one command. When its end here is closed, by whatever cause, the command ends."""

    def __init__(self) -> None:
        self.exit_code: int | None = None
        self.not_started: int | None = None
        self.over_limit = ""
        self.over = asyncio.Event()
        """The command has ended or was not started; what it left behind may still be there."""
        self.gone = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._ours, self.theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._ours.setblocking(False)

    def __enter__(self) -> Self:
        self._loop.add_reader(self._ours, self._take)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.remove_reader(self._ours)
        self._ours.close()
        self.theirs.close()

    def ask_to_end(self) -> None:
        self._say(landlock_helper.POLITE_END)

    async def end(self) -> None:
        """End all processes of the command; the sign is given even if the wait for its effect is cancelled."""
        self._say(landlock_helper.END)
        with suppress(TimeoutError):
            async with asyncio.timeout(landlock_helper.SWEEP_S + SETTLE_S):
                await self.gone.wait()

    def _say(self, order: bytes) -> None:
        with suppress(OSError):
            self._ours.send(order)

    def _take(self) -> None:
        try:
            message = self._ours.recv(4096)
        except BlockingIOError:
            return
        except OSError:
            message = b""
        kind, value = message[:1], message[1:]
        if kind == ENDED:
            self.exit_code = int(value)
        elif kind == NOT_STARTED:
            self.not_started = int(value)
        elif kind == OVER_LIMIT:
            self.over_limit = value.decode()
        if kind in {b"", GONE}:
            self._loop.remove_reader(self._ours)
            self.gone.set()
        self.over.set()


def _clear(prefix: str) -> None:
    for left in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
        if not left.is_symlink() and os.getuid() in {0, left.stat().st_uid}:
            remove_tree(left)
