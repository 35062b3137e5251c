"""Boxes of level A: bubblewrap, hardened, with one warm worker per run."""

import asyncio
import errno
import logging
import os
import secrets
import stat
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import ExitStack, asynccontextmanager, suppress
from functools import cached_property, partial
from pathlib import Path, PurePath
from typing import Any

from agent_fabric.application.ports.sandbox import CommandOutcome
from agent_fabric.config.schema.sandbox import SandboxLimits
from agent_fabric.domain.errors import ConfigError
from agent_fabric.domain.policy.protected import HIDDEN, PROTECTED_AT_TOP, is_protected
from agent_fabric.infrastructure.sandbox import idmapped
from agent_fabric.infrastructure.sandbox.beneath import Beneath
from agent_fabric.infrastructure.sandbox.bubblewrap_build import BOX, BOX_OF, BoxPlan, Built, build
from agent_fabric.infrastructure.sandbox.command_line import BASH, bash_arguments
from agent_fabric.infrastructure.sandbox.draining import MAX_OUTPUT_BYTES, drained_output, finish
from agent_fabric.infrastructure.sandbox.dropping import (
    DEFAULT_UID,
    give,
    maker_for,
    may_give,
    needs_mapping,
    owner_for,
)
from agent_fabric.infrastructure.sandbox.limits import (
    LOOK_EVERY_S,
    ControlGroup,
    Watch,
    make_control_group,
    remove_left_groups,
)
from agent_fabric.infrastructure.sandbox.mounts_protected import ProtectedPaths
from agent_fabric.infrastructure.sandbox.process_environments import entry, kill_marked
from agent_fabric.infrastructure.sandbox.worker_link import Ending, WorkerLink
from agent_fabric.infrastructure.sandbox.workspaces import WorkspaceFiles, covers_of, own_program, require_workspace

_LISTED = Path("/proc/net/unix")
_PATH_AT = 7
_NEVER = ("@", "/run/", "/var/run/")
"""How sockets begin that have no path, or lie where no project is."""

Known = frozenset[tuple[Path, int]]
"""Sockets by their path and the number of their file: one that was made anew is another one."""


def sockets_in(workspace: Path, listed: Path = _LISTED) -> Known:
    """Return the sockets of programs outside that lie in this folder, a real path.

    The kernel knows a socket by the path that its program gave: a relative one is taken as from the workspace, where
    the programs of a project are started.
    """
    found = set[tuple[Path, int]]()
    around = str(workspace)
    with suppress(OSError):
        for line in listed.read_text(encoding="utf-8", errors="surrogateescape").splitlines()[1:]:
            words = line.split(None, _PATH_AT)
            if len(words) > _PATH_AT and not words[_PATH_AT].startswith(_NEVER):
                found |= _if_within(around, os.path.join(around, words[_PATH_AT]))  # noqa: PTH118 - as below
    return frozenset(found)


def _if_within(workspace: str, path: str) -> Known:
    with suppress(OSError, ValueError):
        status = os.lstat(path)  # for each command, so without path objects
        folder, _, name = path.rpartition("/")
        place = f"{os.path.realpath(folder)}/{name}"
        if stat.S_ISSOCK(status.st_mode) and place.startswith(f"{workspace}/"):
            return frozenset({(Path(place), status.st_ino)})
    return frozenset()


_log = logging.getLogger(__name__)


class BubblewrapSandbox(WorkspaceFiles):
    """Sandbox of level A.

    Commands see the system read-only, their workspace at its own place, private folders in memory and nothing else: no
    home folder, no network, no other processes. They never run as root. All commands of a run share one box, which is
    made by the first one and made anew if it ends. `aclose` ends it.
    """

    level = "A"

    def __init__(
        self,
        workspace: Path,
        run_id: str,
        *,
        limits: SandboxLimits | None = None,
        uid: int = DEFAULT_UID,
        hidden: Path | None = None,
        egress_socket: Path | None = None,
        max_output_bytes: int = MAX_OUTPUT_BYTES,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Make a box for a run's workspace; nothing is started yet.

        Args:
            workspace: The folder that commands may change.
            run_id: Whose box it is.
            limits: How much the commands may use.
            uid: Who runs the commands of a workspace of root's when we are root.
            hidden: A folder that commands must not see: fabric's own.
            egress_socket: The unix socket of a proxy; then programs that ask for a proxy reach the network through it.
            max_output_bytes: What is kept of each of stdout and stderr.
            environment: What commands may see a part of; not given: our own.

        Raises:
            ConfigError: the workspace is the system's, or what must be hidden lies deep in it.
        """
        self._given_workspace = workspace
        self._workspace = require_workspace(workspace)
        self._run_id = run_id
        self._limits = limits or SandboxLimits()
        self._uid = uid
        self._hidden = hidden
        self._hidden_names = _hidden_names(self._workspace, hidden)
        self._egress_socket = egress_socket
        self._max_output_bytes = max_output_bytes
        self._given_environment = environment
        self._mark = secrets.token_hex(8)
        self._starting = asyncio.Lock()
        self._box: WorkerLink | None = None
        self._watch: Watch | None = None
        self._group: ControlGroup | None = None
        self._under_way: set[asyncio.Task[Any]] = set()
        self._running = 0
        self._was_remade = False
        self._is_mapped = False
        self._sockets: Known = frozenset()
        self._undone_meanwhile: list[str] = []

    # A box is made for every run, and many runs use only a part of it: so each part when it is first needed.

    @cached_property
    def _protected(self) -> ProtectedPaths:
        return ProtectedPaths(self._workspace, (*PROTECTED_AT_TOP, *self._hidden_names))

    @cached_property
    def _own_program(self) -> tuple[PurePath, ...]:
        return own_program(self._given_workspace)

    def _is_protected(self, path: str) -> bool:
        return is_protected(path) or any(PurePath(path).is_relative_to(own) for own in self._own_program)

    @cached_property
    def _files(self) -> Beneath:
        return Beneath(
            self._workspace,
            is_resolved=True,
            # Looked up each time: a container of the same run may have been given the workspace.
            owner=partial(maker_for, self._workspace, self._uid),
            hidden=frozenset(map(os.fsencode, self._hidden_names)),
            protected=self._is_protected,
        )

    async def run_command(
        self, command: str, *, timeout_s: float, environment: Mapping[str, str] | None = None
    ) -> CommandOutcome:
        """Run one bash command line with the workspace as its current folder.

        Raises:
            ValueError: the command is not valid text.
            OSError: the command could not be started.
            ConfigError: there is no bubblewrap, or the workspace is no place for a box, or it is root's and so are we,
                and it cannot be shown to another user.
        """
        arguments = [b"/bin/bash", *BASH, *bash_arguments(command)]
        with drained_output(self._max_output_bytes) as output:
            box = self._usable
            if box is None:
                box = await finish(self._start_box(), self._under_way)
            remade, self._was_remade = self._was_remade, False
            killed_before, undone = self._killed_for_memory(), list[str]()
            try:
                self._running += 1
                async with self._watching(box, undone):
                    ending = await box.run(arguments, output, timeout_s, environment or {})
            finally:
                self._running -= 1
                undone += self._undone_meanwhile + self._protected.undo(has_ended=True)
                self._undone_meanwhile.clear()
        remarks = self._remarks(box, ending, killed_before, remade=remade)
        return output.outcome(ending.exit_code, timed_out=ending.timed_out, undone=undone, remarks=remarks)

    async def end_leftovers(self) -> int:
        """End boxes that an earlier driver of this run left behind."""
        return await asyncio.to_thread(self._end_leftovers)

    async def aclose(self) -> None:
        """End the box and everything in it. A command that comes later makes a new one."""
        await finish(self._close(), self._under_way)

    @property
    def _usable(self) -> WorkerLink | None:
        box = self._box
        if box is None or not box.is_alive:
            return None
        with suppress(OSError):  # gone; making a new box will tell
            if self._is_mapped != needs_mapping(self._workspace):
                return None
        if self._running:
            return box
        return None if self._protected.is_changed() or sockets_in(self._workspace) - self._sockets else box

    async def _close(self) -> None:
        async with self._starting:
            await self._end_box()

    async def _start_box(self) -> WorkerLink:
        async with self._starting:
            if (box := self._usable) is not None:
                return box
            self._was_remade = self._box is not None and self._box.is_alive
            await self._end_box()
            try:
                self._box = await self._start_shown_or_given()
            except BaseException:
                await asyncio.to_thread(self._release)
                raise
            watch = Watch(self._limits, self._box.top, self._workspace)
            if self._watch is not None:
                await asyncio.to_thread(watch.carry_on, self._watch)
            self._watch = watch
            return self._box

    async def _start_shown_or_given(self) -> WorkerLink:
        """Start a box; where root's files cannot be shown to another user, a run's own workspace is given to them."""
        try:
            return await self._start()
        except ConfigError as error:
            if idmapped.REFUSED not in error.message or not may_give(self._workspace, self._hidden):
                raise
        await asyncio.to_thread(self._release)
        owner = owner_for(self._workspace, self._uid)
        await asyncio.to_thread(give, self._workspace, owner, fabric=self._hidden)
        return await self._start()

    async def _start(self) -> WorkerLink:
        with ExitStack() as open_files:
            try:
                built = await asyncio.to_thread(self._build, open_files)
                return await WorkerLink.start(built, self._group.add if self._group is not None else None)
            except OSError as error:
                # The system's own message would name the workspace's place on this machine.
                words = error.strerror or str(error)
                if idmapped.REFUSED in words:
                    raise ConfigError(words, hint=idmapped.HINT) from None
                if error.filename is not None or error.errno is not None:
                    words = f"the command cannot be started: {os.strerror(error.errno or 0)}"
                raise OSError(error.errno or 0, words.replace(str(self._workspace), "the workspace")) from None

    def _build(self, open_files: ExitStack) -> Built:
        if not self._workspace.is_dir():
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        require_workspace(self._workspace)  # again: links may have changed
        if self._running:
            # The end of the last box may have made something first; now it would count as having been there.
            self._undone_meanwhile += self._protected.undo(has_ended=True)
        self._is_mapped = needs_mapping(self._workspace)
        hidden = [self._workspace / name for name in self._hidden_names]
        self._sockets = sockets_in(self._workspace)
        self._group = make_control_group(self._run_id, self._mark, self._limits)
        return build(
            BoxPlan(
                workspace=self._workspace,
                run_id=self._run_id,
                mark=self._mark,
                owner=owner_for(self._workspace, self._uid),
                mapped=self._is_mapped,
                limits=self._limits,
                covers=[
                    *covers_of(self._workspace, self._own_program),
                    *(cover for cover in self._protected.cover() if cover[0] not in hidden),
                ],
                masked=sorted(path for path, _ in self._sockets),
                hidden=[path for path in hidden if path.is_dir() and not path.is_symlink()],
                fabric=None if self._hidden is None or not self._hidden.is_dir() else self._hidden.resolve(),
                egress_socket=self._egress_socket,
                waits=self._group is not None,
                environment=os.environ if self._given_environment is None else self._given_environment,
            ),
            open_files,
        )

    async def _end_box(self) -> None:
        box, self._box = self._box, None
        if box is not None:
            box.end("the box of this run was closed")
            await box.wait()
            await asyncio.to_thread(self._release)

    def _release(self) -> None:
        if self._group is not None:
            self._group.remove()
            self._group = None

    @asynccontextmanager
    async def _watching(self, box: WorkerLink, undone: list[str]) -> AsyncIterator[None]:
        looks = asyncio.create_task(self._look_now_and_then(box, undone))
        try:
            yield
        finally:
            looks.cancel()
            await asyncio.wait([looks])
            if not looks.cancelled() and (problem := looks.exception()) is not None:
                _log.error("The limits of a box could not be checked; it was ended", exc_info=problem)

    async def _look_now_and_then(self, box: WorkerLink, undone: list[str]) -> None:
        watch = self._watch
        while watch is not None and box.is_alive:
            await asyncio.sleep(LOOK_EVERY_S)
            undone += self._protected.undo(has_ended=False)
            try:
                too_much = await asyncio.to_thread(watch.look)
            except Exception as problem:  # a box that no one watches must not go on
                box.end(f"its limits could not be checked ({problem})")
                raise
            if too_much:
                box.end(f"the commands of this run used {too_much}")

    def _killed_for_memory(self) -> int:
        return self._group.killed_for_memory() if self._group is not None else 0

    def _remarks(self, box: WorkerLink, ending: Ending, killed_before: int, *, remade: bool) -> Iterator[str]:
        """Yield what was done to a command."""
        if remade:
            yield ("the box was replaced, to protect files that have appeared: /tmp and home are empty again")
        if self._killed_for_memory() > killed_before:
            limit = f"{self._limits.total_memory_mb} MB of memory in all (sandbox.limits.total_memory_mb)"
            yield f"ended: the commands of this run used more than {limit}"
        elif not ending.is_known:
            yield f"ended: {box.why_ended or 'the box ended'}; the next command gets a new box"

    def _end_leftovers(self) -> int:
        ended = kill_marked(entry(BOX_OF, self._run_id), spare={entry(BOX, self._mark)})
        remove_left_groups(self._run_id)
        return ended


def _hidden_names(workspace: Path, hidden: Path | None) -> tuple[str, ...]:
    """Return the names directly in the resolved workspace that commands must not see.

    Raises:
        ConfigError: what must be hidden lies deeper, or is the workspace.
    """
    names = set(map(os.fsdecode, HIDDEN))
    if hidden is not None and not str(workspace).startswith(f"{hidden}/"):  # a run's own workspace lies in it
        inner, outer = hidden.resolve(), workspace
        if inner.is_relative_to(outer):
            if inner.parent != outer:
                raise ConfigError(
                    f"fabric's own folder {inner.name!r} cannot be hidden from commands where it is",
                    hint="Keep it outside the project, or directly in the project's folder.",
                )
            names.add(inner.name)
    return tuple(sorted(names))
