"""A RunRepository that records changes to project folders.

The recorder is imported when a run works in a project folder: other runs do not pay for it.
"""

import asyncio
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent_fabric.application.ports.runs import HeldLog, HeldRun, InboxRow, NewRun, RunRepository
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import FabricError, FolderHeld, RunNotFound
from agent_fabric.domain.events import Event, RunCreated
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.task import RunStatus
from agent_fabric.infrastructure.runs.log.layout import Layout, is_own, require_workspace_unlinked
from agent_fabric.infrastructure.threads import on_own_thread

if TYPE_CHECKING:
    from agent_fabric.infrastructure.runs.changes.recorder import ChangeRecorder, OpenDrive

LETS_GO_S = 10.0
"""How long a run that has ended may take to let go of its folder."""

Notice = Callable[[RunId, str], None]
"""Tells the person behind a run what is going on."""


def say_nothing(run_id: RunId, text: str) -> None:
    """Tell no one."""


@dataclass(frozen=True, slots=True)
class WatchedRuns:
    """RunRepository that keeps what a project folder holds while a run is held that works in it.

    Runs with a workspace of their own, which nearly always starts empty, are passed through at no cost.
    """

    inner: RunRepository
    layout: Layout
    notice: Notice = say_nothing

    async def create(self, run_id: RunId, events: Sequence[Event]) -> HeldRun:
        """Create a run as `inner` does, its project folder locked and recorded first.

        Raises:
            FolderHeld: another run works there; none is created.
        """
        drive = await self._begin(run_id, events)
        if drive is None:
            await self._keep_start(run_id)
            return await self.inner.create(run_id, events)
        try:
            held = await self.inner.create(run_id, events)
        except BaseException:
            self._recorder.abandon(drive)
            raise
        return WatchedRun(held, self._recorder, drive, self.notice)

    async def take(self, run_id: RunId) -> HeldLog:
        """Hold a run as `inner` does, and lock and record its project folder.

        Raises:
            FolderHeld: another run works there.
        """
        taken = await self.inner.take(run_id)
        try:
            drive = await self._begin(run_id, taken.events)
        except BaseException:
            await taken.held.release()
            raise
        if drive is None:
            return taken
        return taken._replace(held=WatchedRun(taken.held, self._recorder, drive, self.notice))

    async def read(self, run_id: RunId, *, after: int = -1) -> Sequence[Event]:
        return await self.inner.read(run_id, after=after)

    async def status(self, run_id: RunId) -> RunStatus:
        return await self.inner.status(run_id)

    async def post(self, run_id: RunId, kind: str, payload: Mapping[str, Any]) -> None:
        await self.inner.post(run_id, kind, payload)

    @property
    def _recorder(self) -> "ChangeRecorder":
        from agent_fabric.infrastructure.runs.changes.recorder import ChangeRecorder  # noqa: PLC0415 - see above

        return ChangeRecorder(self.layout)

    async def _begin(self, run_id: RunId, events: Sequence[Event]) -> "OpenDrive | None":
        body = events[0].body
        if not isinstance(body, RunCreated) or (is_own(body.workspace, run_id) and not body.session):
            return None  # of a session, later turns work in the same folder, and each is undone by itself
        if body.parent is not None and body.workspace.startswith(f"{self.layout.root}/"):
            return None  # the workspace of the workflow that it works for
        folder = Path(body.workspace)
        require_workspace_unlinked(body.workspace)
        if not folder.is_dir():  # noqa: ASYNC240 - one look
            return None  # the driver of the run says so, in better words
        drive = await self._lock(run_id, folder, waits=body.parent is None)
        if drive is None:
            return None  # its workflow has the folder, and records what its steps change
        from agent_fabric.infrastructure.runs.changes.recorder import said_of  # noqa: PLC0415 - see above

        if text := said_of(drive.before):
            self.notice(run_id, text)
        return drive

    async def _lock(self, run_id: RunId, folder: Path, *, waits: bool) -> "OpenDrive | None":
        """Lock and record a folder; None if it is held and no one `waits`.

        A run's result is told a moment before it lets go of its folder: the next driver waits for that.

        Raises:
            FolderHeld: a run works there that has not ended.
        """
        deadline = time.monotonic() + LETS_GO_S
        while True:
            beginning = asyncio.ensure_future(on_own_thread(lambda: self._recorder.begin(run_id, folder)))
            try:
                return await asyncio.shield(beginning)
            except asyncio.CancelledError:
                beginning.add_done_callback(self._give_up)
                raise
            except FolderHeld as problem:
                if not waits:
                    return None
                if time.monotonic() > deadline or not await self._has_ended(problem.holder):
                    raise
                await asyncio.sleep(0.02)

    async def _has_ended(self, holder: str) -> bool:
        try:
            return (await self.inner.status(RunId(holder))).settled
        except RunNotFound:
            return False

    async def _keep_start(self, run_id: RunId) -> None:
        """Remember what was put into the run's own workspace before it begins."""
        folder = self.layout.workspace(run_id)
        try:
            with os.scandir(folder) as entries:
                empty = next(entries, None) is None
        except OSError:
            return  # there is none, or the driver of the run says so, in better words
        if not empty:
            await on_own_thread(lambda: self._recorder.keep_start(run_id, Path(folder)))

    def _give_up(self, beginning: "asyncio.Future[OpenDrive]") -> None:
        if not beginning.cancelled() and beginning.exception() is None:
            self._recorder.abandon(beginning.result())


@dataclass(slots=True)
class WatchedRun:
    """HeldRun that records how it leaves its project folder."""

    inner: HeldRun
    recorder: "ChangeRecorder"
    drive: "OpenDrive | None"
    notice: Notice

    @property
    def run_id(self) -> RunId:
        return self.inner.run_id

    async def append(
        self, events: Sequence[Event], *, consumed: Sequence[InboxRow] = (), children: Sequence[NewRun] = ()
    ) -> None:
        await self.inner.append(events, consumed=consumed, children=children)

    def receive(self) -> "asyncio.Future[Sequence[InboxRow]]":
        return self.inner.receive()

    async def unread(self) -> Sequence[InboxRow]:
        return await self.inner.unread()

    async def release(self) -> None:
        from agent_fabric.infrastructure.runs.changes.recorder import some  # noqa: PLC0415 - see above

        drive, self.drive = self.drive, None
        try:
            if drive is not None:
                refused = await asyncio.shield(on_own_thread(lambda: self.recorder.end(drive)))
                if refused:
                    self.notice(self.run_id, f"put aside or back, since git would obey it: {some(refused)}")
        except FabricError as problem:
            self.notice(self.run_id, f"what the run changed is not recorded: {problem.message}")
        finally:
            await self.inner.release()
