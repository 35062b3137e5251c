"""Boxes of level A+: containers, by podman or the docker command line."""

import asyncio
import os
import secrets
import signal
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path

from agent_fabric.application.ports.sandbox import CommandOutcome
from agent_fabric.config.schema.sandbox import SandboxLimits
from agent_fabric.domain.policy.protected import HIDDEN, PROTECTED_AT_TOP, is_protected
from agent_fabric.infrastructure.sandbox.beneath import Beneath
from agent_fabric.infrastructure.sandbox.command_line import bash_arguments
from agent_fabric.infrastructure.sandbox.draining import (
    MAX_OUTPUT_BYTES,
    TERM_GRACE_S,
    Output,
    drained_output,
    ended_within,
)
from agent_fabric.infrastructure.sandbox.dropping import DEFAULT_UID, Owner, give, owner_for
from agent_fabric.infrastructure.sandbox.environment import SET
from agent_fabric.infrastructure.sandbox.git_identity import git_identity
from agent_fabric.infrastructure.sandbox.landlock_watch import Watch
from agent_fabric.infrastructure.sandbox.mounts_protected import ProtectedPaths
from agent_fabric.infrastructure.sandbox.podman_engine import LABEL, Engine, remove_containers
from agent_fabric.infrastructure.sandbox.process_environments import SETTLE_S
from agent_fabric.infrastructure.sandbox.workspaces import WorkspaceFiles, require_workspace

WORKSPACE = "/workspace"
"""Where a container sees the workspace."""
START_S = 300.0
"""How long a container may take to start; the image may have to be fetched first."""
_END_S = 10.0
_LOOK_EVERY_S = 0.25
_ENGINE_FAILED = 125

_MAIN = (
    'printf %s "$1" >"$HOME/.gitconfig"; exec 3<&0; echo ready; while :; do cat <&3 >/dev/null & wait $! && exit; done'
)
"""What a container lives for: it ends when the other end of its input, held by the driver alone, is closed.

While it waits it also takes leave of whatever was left to it, which would count as a process for ever otherwise. The
end of a command kills all but this first process, so what it waits for is started again.
"""

_RUN = """
exec 3<&0 </dev/null
if command -v bash >/dev/null; then set -- bash --noprofile --norc -o pipefail -c "$@"; else set -- sh -c "$@"; fi
if command -v setsid >/dev/null; then set -- setsid "$@"; fi
"$@" 3<&- &
command=$!
( read -r _ && { kill -TERM -"$command" || kill -TERM "$command"; read -r _; }; kill -KILL -1 ) <&3 >/dev/null 2>&1 &
exec 3<&-
wait "$command" 2>/dev/null
code=$?
kill -KILL -1 2>/dev/null
exit "$code"
"""
"""Run a command and end all it leaves behind; a line of input asks it to end, the end of the input ends it.

A container runs one command at a time, so everything in it but its main process belongs to that command.
"""


class ContainerSandbox(WorkspaceFiles):
    """Sandbox of level A+: an image and the workspace, without network, capabilities or anything else of the machine.

    The first command starts the container, which then waits for more; a command that comes while another runs gets a
    container of its own. A command ended by a signal has the exit code that its shell gives it, 128 and the signal.
    """

    level = "A+"

    def __init__(
        self,
        workspace: Path,
        run_id: str,
        *,
        image: str,
        engine: Engine,
        limits: SandboxLimits | None = None,
        uid: int = DEFAULT_UID,
        hidden: Path | None = None,
    ) -> None:
        """Make a box; nothing is started before its first command.

        Args:
            workspace: the folder in which commands work.
            run_id: labels its containers.
            image: what the containers are made of; it needs a shell.
            engine: what starts them.
            limits: how much commands may use.
            uid: the user that they run as, if we are root; else it is our own.
            hidden: a folder that commands must not see.
        """
        self._workspace = workspace
        self._run_id = run_id
        self._image = image
        self._engine = engine
        self._limits = limits or SandboxLimits()
        self._uid = uid
        self._hidden = hidden
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        """Where engines run: they leave notes in their current folder."""
        self._idle: list[_Container] = []
        self._all: set[_Container] = set()

    @cached_property
    def _owner(self) -> Owner:
        return owner_for(self._workspace, self._uid)

    @cached_property
    def _files(self) -> Beneath:
        return Beneath(
            self._workspace,
            owner=lambda: self._owner if os.getuid() == 0 else None,
            hidden=HIDDEN,
            protected=is_protected,
        )

    @cached_property
    def _protected(self) -> ProtectedPaths:
        return ProtectedPaths(self._workspace.resolve(), PROTECTED_AT_TOP)

    @cached_property
    def _watch(self) -> Watch:
        return Watch(self._limits.model_dump(), (str(self._workspace),))

    async def run_command(
        self, command: str, *, timeout_s: float, environment: Mapping[str, str] | None = None
    ) -> CommandOutcome:
        """Run one command line with the workspace as its current folder; by bash, or by sh where there is none.

        Raises:
            ValueError: the command is not valid text.
            OSError: the container could not be started.
            ConfigError: the workspace is no place for a box, or a project of root's.
        """
        arguments = bash_arguments(command)
        if len(self._idle) == len(self._all) and self._protected.is_changed():
            await self._remove_all()  # the next container covers what has appeared
        container = self._waiting() or await self._start()
        usable, undone = False, list[str]()
        try:
            with drained_output(MAX_OUTPUT_BYTES) as output:
                process = await container.start(arguments, environment or {}, output)
                try:
                    timed_out, exceeded = await self._wait(process, timeout_s)
                finally:
                    usable = await _end(process)
                    undone += await asyncio.to_thread(self._protected.undo, has_ended=True)
                await ended_within(SETTLE_S, output)
        finally:
            if usable:
                self._idle.append(container)
            else:
                self._all.discard(container)
                await container.remove()
        code = -signal.SIGKILL if process.returncode is None or exceeded else process.returncode
        if code == _ENGINE_FAILED and output.err.kept.startswith(b"Error"):
            raise OSError(f"the command cannot be started: {output.err.kept.decode(errors='replace').strip()}")
        return output.outcome(
            -(code - 128) if timed_out and code > 128 else code,
            timed_out=timed_out,
            undone=undone,
            remarks=[f"ended: it used {exceeded}"] if exceeded else [],
        )

    async def end_leftovers(self) -> int:
        """Remove containers that an earlier driver of this run left behind."""
        return await remove_containers(self._engine, self._run_id, spare={one.name for one in self._all})

    async def aclose(self) -> None:
        """End the containers and all that runs in them."""
        await self._remove_all()
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    async def _remove_all(self) -> None:
        containers, self._all, self._idle = self._all, set(), []
        await asyncio.gather(*(container.remove() for container in containers))

    def _waiting(self) -> "_Container | None":
        while self._idle:
            container = self._idle.pop()
            if container.alive:
                return container
            self._all.discard(container)
        return None

    async def _start(self) -> "_Container":
        require_workspace(self._workspace)  # before anything is changed
        workspace = self._workspace.resolve()
        # Root's files are not shown to the container's user as their own (`idmapped`): an engine's filter would let a
        # command make them setuid.
        await asyncio.to_thread(give, workspace, self._owner, fabric=self._hidden)
        name = f"fabric-{secrets.token_hex(8)}"
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="fabric-engine-", ignore_cleanup_errors=True)
        container = _Container(self._engine, name, self._folder.name)
        self._all.add(container)
        try:
            await container.open((*self._engine.words, "run", *self._options(name)))
        except BaseException:
            self._all.discard(container)
            await container.remove()
            raise
        return container

    async def _wait(self, process: asyncio.subprocess.Process, timeout_s: float) -> tuple[bool, str]:
        """Wait for the command; tell whether it ran out of time, and which limit it exceeded."""
        await asyncio.to_thread(self._watch.begin)
        deadline = asyncio.get_running_loop().time() + timeout_s
        while (left := deadline - asyncio.get_running_loop().time()) > 0:
            await ended_within(min(_LOOK_EVERY_S, left), process)
            if process.returncode is not None:
                return False, ""
            if exceeded := await asyncio.to_thread(self._watch.look_at_disk):
                return False, exceeded
        _say(process, b"\n")
        await ended_within(TERM_GRACE_S, process)
        return True, ""

    def _options(self, name: str) -> list[str]:
        limits = self._limits
        workspace = self._workspace.resolve()
        return [
            *("--interactive", "--rm", "--name", name, "--label", f"{LABEL}={self._run_id}"),
            *("--network", "none", "--read-only", "--cap-drop", "all"),
            *("--security-opt", "no-new-privileges", "--security-opt", "label=disable"),
            *self._engine.limits(processes=limits.processes, memory_mb=limits.total_memory_mb),
            # Named, since what an engine would give by itself may be more than it is allowed to give.
            *("--ulimit", "nofile=1024:1024", "--ulimit", "core=0:0"),
            *("--ulimit", f"nproc={max(4096, limits.processes)}:{max(4096, limits.processes)}"),
            *("--ulimit", f"fsize={limits.file_size_mb << 20}:{limits.file_size_mb << 20}"),
            *("--tmpfs", f"/tmp:rw,nosuid,nodev,size={limits.total_disk_mb}m,mode=1777"),  # noqa: S108 - its own
            *("--user", f"{self._owner.uid}:{self._owner.gid}", *self._engine.user_mapping()),
            *("--volume", f"{workspace}:{WORKSPACE}", *self._covers(workspace), "--workdir", WORKSPACE),
            *("--env", "HOME=/tmp", "--env", "TERM=dumb", "--entrypoint", "/bin/sh"),
            *(word for name, value in SET.items() for word in ("--env", f"{name}={value}")),
            *(self._image, "-c", _MAIN, "fabric", git_identity(os.environ)),
        ]

    def _covers(self, workspace: Path) -> list[str]:
        """Return options that make protected paths read-only and hide what must not be seen."""
        options = list[str]()
        for path, writable in self._protected.cover():
            place = f"{WORKSPACE}/{path.relative_to(workspace)}"
            options += ("--volume", f"{path}:{place}" if writable else f"{path}:{place}:ro")
        hidden = self._hidden.resolve() if self._hidden else None
        if hidden is not None and hidden.is_relative_to(workspace) and hidden.exists():
            options += ("--tmpfs", f"{WORKSPACE}/{hidden.relative_to(workspace)}:ro,size=4k,mode=555")
        return options


class _Container:
    """One container, which runs one command at a time."""

    def __init__(self, engine: Engine, name: str, folder: str) -> None:
        self.name = name
        self._folder = folder
        self._engine = engine
        self._main: asyncio.subprocess.Process | None = None

    @property
    def alive(self) -> bool:
        return self._main is not None and self._main.returncode is None

    async def open(self, command: Sequence[str]) -> None:
        self._main = main = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd=self._folder,
            env=self._engine.environment(self.name),
            start_new_session=True,
        )
        assert main.stdout is not None
        assert main.stderr is not None
        try:
            async with asyncio.timeout(START_S):
                ready = await main.stdout.readline()
        except TimeoutError:
            raise OSError("the command cannot be started: the container does not start in time") from None
        if ready.strip() != b"ready":
            said = (await main.stderr.read(4096)).decode(errors="replace").strip()
            raise OSError(f"the command cannot be started: {said or 'the container ended at once'}")

    async def start(
        self, arguments: list[bytes], environment: Mapping[str, str], output: Output
    ) -> asyncio.subprocess.Process:
        """Start a command in the container."""
        # A name without a value is taken from the engine's own environment, which only its user can read.
        variables = [word for name in environment for word in ("--env", name)]
        try:
            return await asyncio.create_subprocess_exec(
                *(*self._engine.words, "exec", "--interactive", *variables),
                *(self.name, "/bin/sh", "-c", _RUN, "sh"),
                *arguments,
                env={**os.environ, **environment} if environment else None,
                stdin=asyncio.subprocess.PIPE,
                stdout=output.out.writer,
                stderr=output.err.writer,
                cwd=self._folder,
                start_new_session=True,
            )
        except OSError as error:
            number = error.errno or 0
            raise OSError(number, f"the command cannot be started: {os.strerror(number)}") from None
        finally:
            output.close_writers()

    async def remove(self) -> None:
        """End the container by closing its input; by force if that does not help."""
        main, self._main = self._main, None
        if main is None:
            return
        if main.stdin is not None:
            main.stdin.close()
        await ended_within(_END_S, main)
        if main.returncode is None:
            await self._engine.run("rm", "--force", self.name)
            with suppress(ProcessLookupError):
                main.kill()
            await main.wait()


async def _end(process: asyncio.subprocess.Process) -> bool:
    """End what is left of a command; tell whether its container can be used again."""
    if process.returncode is not None:
        return process.returncode != _ENGINE_FAILED
    assert process.stdin is not None
    process.stdin.close()
    try:
        await ended_within(_END_S, process)
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
    return process.returncode is not None


def _say(process: asyncio.subprocess.Process, text: bytes) -> None:
    assert process.stdin is not None
    with suppress(OSError, RuntimeError):
        process.stdin.write(text)
