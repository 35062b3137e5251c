"""Drives many runs in the background: a bounded number at a time, first come, first served."""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from dataclasses import field
from typing import Any

from agent_fabric.application.ports.runs import CANCEL, HeldRun, InboxRow, NewRun
from agent_fabric.application.runs.cancel_run import CancelRun
from agent_fabric.application.runs.claimed_run import ClaimedRun
from agent_fabric.application.runs.drive_run import DriveRun
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import FabricError, ServerBusy, ServerStopping, StoreUnavailable
from agent_fabric.domain.events import Event
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.state import result_of
from agent_fabric.domain.runs.task import RunResult, RunStatus

STOPPING_PAUSE_S = 0.01

_log = logging.getLogger(__name__)

Take = Callable[[], Awaitable[ClaimedRun | RunResult]]
"""Creates or takes a run; one that has settled gives only its result."""
_Place = asyncio.Future[None]
"""A place in the line, done when it is one's turn."""


@dataclass(slots=True)
class Drive:
    """A run that is being driven or waits for its turn."""

    run_id: RunId
    outcome: "asyncio.Future[RunResult]"
    """Belongs to the dispatcher: its waiters must not cancel it. It is cancelled when the server stops."""
    queued: bool
    """Whether it still waits."""
    since: float = 0.0
    """When it lined up, by the event loop's clock."""


@dataclass(slots=True)
class DispatchRuns:
    """Use case: see runs through in the background. Its user may leave; the run goes on."""

    drive: DriveRun
    cancel_run: CancelRun
    max_running: int
    max_queued: int
    elsewhere: Callable[[RunId], Awaitable[RunResult]] | None = None
    """Waits for a run that other processes drive; then this one only creates runs and leaves them to those."""
    mine: Callable[[ClaimedRun], bool] | None = None
    """Which new runs this process drives although others could; None: where others do, none of them."""
    on_room: Callable[[], None] | None = None
    """Called when one more could be driven than before."""
    on_store_lost: Callable[[RunId], None] | None = None
    """Called with a run that has stopped because the store could not be written."""
    running: int = 0
    """How many are being driven."""
    _line: "deque[_Place]" = field(default_factory=deque)
    _arriving: int = 0
    """Let in, but not created yet."""
    _drives: dict[RunId, Drive] = field(default_factory=dict)
    _followed: dict[RunId, Drive] = field(default_factory=dict)
    """Runs that other processes drive, and whose outcome someone here waits for."""
    _expected: set[RunId] = field(default_factory=set)
    _taking: "dict[RunId, asyncio.Task[Drive | RunResult]]" = field(default_factory=dict)
    """Existing runs that are being taken at this moment."""
    _stopping: bool = False

    async def __call__(self, take: Take) -> Drive | RunResult:
        """Create or take a run, and drive it when it is its turn.

        Raises:
            ServerBusy, ServerStopping: nothing was created or taken.
            Exception: what `take` raised.
        """
        self._require_room()
        self._arriving += 1
        try:
            taken = await take()
        finally:
            self._arriving -= 1
        if isinstance(taken, RunResult):
            return taken
        stays = self.elsewhere is None or (self.mine is not None and self.mine(taken))
        return self._start(taken, self._line_up()) if stays else await self._hand_over(taken)

    async def resume(self, run_id: RunId, take: Take) -> Drive | RunResult:
        """Take and drive a run that exists; all who ask for it share one drive.

        Raises:
            ServerBusy, ServerStopping: it has not been taken.
            Exception: what `take` raised.
        """
        return self._drives.get(run_id) or await self._once(run_id, lambda: self(take))

    async def when_free(self, run_id: RunId, take: Take) -> None:
        """Take and drive a run that no one asks for: only when it is its turn, so that waiting costs nothing.

        Raises:
            ServerStopping: it has not been taken.
            Exception: what `take` raised.
        """
        place = self._line_up()
        try:
            if place is not None:
                await self._turn(place)
            if self._stopping or run_id in self._drives or run_id in self._taking:
                self._leave()
                self._require_going_on()
            else:
                await self._once(run_id, lambda: self._take_turn(take))
        finally:
            self._expected.discard(run_id)

    def expect(self, run_ids: Iterable[RunId]) -> None:
        """Count runs as ours that `when_free` will take."""
        self._expected.update(run_ids)

    def find(self, run_id: RunId) -> Drive | None:
        """Return a run's drive, if it is one of ours or someone here waits for it."""
        return self._drives.get(run_id) or self._followed.get(run_id)

    def __contains__(self, run_id: object) -> bool:
        """Tell whether a run is being driven here, or will be."""
        return run_id in self._drives or run_id in self._expected or run_id in self._taking

    def is_queued(self, run_id: RunId) -> bool:
        """Tell whether a run waits here for its turn."""
        drive = self._drives.get(run_id)
        return run_id in self._expected and run_id not in self._taking if drive is None else drive.queued

    @property
    def queued(self) -> int:
        """How many wait for their turn."""
        waiting = sum(drive.queued for drive in self._drives.values())
        return waiting + len(self._expected - self._drives.keys() - self._taking.keys())

    @property
    def oldest_queued_s(self) -> float:
        """How long the first in line has waited; 0 without a line."""
        since = min((drive.since for drive in self._drives.values() if drive.queued), default=None)
        return 0.0 if since is None else asyncio.get_running_loop().time() - since

    @property
    def room(self) -> int:
        """How many more could be driven at once."""
        return 0 if self._stopping or self._line or not self.drives else self.max_running - self.running

    @property
    def drives(self) -> bool:
        """Whether runs are driven here, and not only created for others."""
        return self.elsewhere is None or self.mine is not None

    @property
    def stopping(self) -> bool:
        """Whether nothing is taken on any more."""
        return self._stopping

    async def stop(self, *, timeout_s: float) -> None:
        """Stop every drive and let none begin. The runs stay as they stand, for the next server."""
        if self._stopping:
            return
        self._stopping = True
        under_way = [drive.outcome for drive in (*self._drives.values(), *self._followed.values())]
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await asyncio.sleep(0)  # a task that is cancelled before its first step could not clean up
                for outcome in under_way:
                    outcome.cancel()
                # Those that come only now see that we stop, and give their run back: to be cancelled would keep them.
                while self._drives or self._taking or self._arriving:  # noqa: ASYNC110 - it is over in a moment
                    await asyncio.sleep(STOPPING_PAUSE_S)

    def _require_going_on(self) -> None:
        if self._stopping:
            raise ServerStopping("The server is stopping", hint="Ask again when it is back.")

    def _require_room(self) -> None:
        self._require_going_on()
        if self.running + len(self._line) + self._arriving >= self.max_running + self.max_queued:
            raise ServerBusy(
                f"The server is busy: {self.running} under way, {len(self._line)} waiting for their turn",
                hint="Ask again later, or raise `server.max_queued`.",
            )

    async def _once(
        self, run_id: RunId, take: Callable[[], Coroutine[Any, Any, Drive | RunResult]]
    ) -> Drive | RunResult:
        """Take a run, or wait with those who already do. A caller that stops waiting does not stop the others."""
        taking = self._taking.get(run_id)
        if taking is None:
            taking = self._taking[run_id] = asyncio.create_task(take())
            taking.add_done_callback(lambda done: self._after_taking(run_id, done))
        return await asyncio.shield(taking)

    def _after_taking(self, run_id: RunId, taking: "asyncio.Task[Drive | RunResult]") -> None:
        del self._taking[run_id]
        if not taking.cancelled():
            taking.exception()  # those who wait are told; there may be none any more

    async def _take_turn(self, take: Take) -> Drive | RunResult:
        """Take a run whose turn it is."""
        try:
            taken = await take()
        except BaseException:
            self._leave()
            raise
        if isinstance(taken, RunResult):
            self._leave()
            return taken
        return self._start(taken, None)

    def _line_up(self) -> _Place | None:
        """Return a place in the line; None when it is our turn at once."""
        if self.running < self.max_running:
            self.running += 1
            return None
        place = asyncio.get_running_loop().create_future()
        self._line.append(place)
        return place

    async def _turn(self, place: _Place) -> None:
        try:
            await asyncio.shield(place)
        except asyncio.CancelledError:
            self._step_out(place)
            raise

    def _step_out(self, place: _Place) -> None:
        """Give up a place, which may have become a turn in this very moment."""
        if place.done():
            self._leave()
        else:
            self._line.remove(place)

    def _leave(self) -> None:
        """End a turn; the next in line has theirs."""
        if self._line:
            self._line.popleft().set_result(None)
        else:
            self.running -= 1
            if self.on_room is not None:
                self.on_room()

    def _start(self, taken: ClaimedRun, place: _Place | None) -> Drive:
        run_id = taken.held.run_id
        outcome = asyncio.create_task(self._see_through(taken, place), name=f"run {run_id}")
        outcome.add_done_callback(lambda _: self._note_end(drive))
        since = asyncio.get_running_loop().time()
        drive = self._drives[run_id] = Drive(run_id, outcome, queued=place is not None, since=since)
        return drive

    async def _hand_over(self, taken: ClaimedRun) -> Drive:
        """Leave a run that was created or taken here to the processes that drive."""
        assert self.elsewhere is not None
        run_id = taken.held.run_id
        if taken.state.status is not RunStatus.RUNNING:  # or no one would take it up
            first, at = taken.state.next_seq, self.drive.clock.now()
            await taken.held.append([Event(seq, at, None, "", body) for seq, body in enumerate(taken.opening, first)])
        await taken.held.release()
        outcome = asyncio.ensure_future(self.elsewhere(run_id))
        outcome.add_done_callback(lambda _: self._followed.pop(run_id, None))
        drive = self._followed[run_id] = Drive(run_id, outcome, queued=False)
        return drive

    async def _see_through(self, taken: ClaimedRun, place: _Place | None) -> RunResult:
        if self._stopping:
            await taken.held.release()
            raise asyncio.CancelledError
        if place is not None:
            waited = await self._wait(taken, place)
            if isinstance(waited, RunResult):
                return waited
            taken = waited
        try:
            await self.drive(*taken)
        finally:
            self._leave()
        return result_of(taken.state)

    async def _wait(self, taken: ClaimedRun, place: _Place) -> ClaimedRun | RunResult:
        """Wait for the turn. An inbox row that comes meanwhile is kept for the drive; a cancel ends the run here."""
        held, rows = taken.held, list[InboxRow]()
        cancel: InboxRow | None = None
        try:
            while cancel is None and not place.done():
                mail = held.receive()
                try:
                    await asyncio.wait((place, mail), return_when=asyncio.FIRST_COMPLETED)
                    rows += mail.result() if mail.done() else ()
                finally:
                    mail.cancel()
                cancel = next((row for row in rows if row.kind == CANCEL), None)
        except BaseException:
            self._step_out(place)
            await held.release()
            raise
        self._drives[held.run_id].queued = False
        if cancel is not None:
            self._step_out(place)
            await held.release()
            return await self.cancel_run(
                held.run_id, by=str(cancel.payload["by"]), reason=str(cancel.payload["reason"])
            )
        return taken._replace(held=_OpenedMail(held, rows)) if rows else taken

    def _note_end(self, drive: Drive) -> None:
        if self._drives.get(drive.run_id) is drive:
            del self._drives[drive.run_id]
        if drive.outcome.cancelled():
            return
        problem = drive.outcome.exception()
        if isinstance(problem, StoreUnavailable) and self.on_store_lost is not None:
            self.on_store_lost(drive.run_id)
        if isinstance(problem, FabricError):
            _log.warning("Run %s stopped: %s", drive.run_id, problem.message)
        elif problem is not None:
            _log.error("Run %s stopped", drive.run_id, exc_info=problem)


@dataclass(slots=True)
class _OpenedMail:
    """HeldRun whose first mail has been taken out already."""

    inner: HeldRun
    rows: Sequence[InboxRow]

    @property
    def run_id(self) -> RunId:
        return self.inner.run_id

    async def append(
        self, events: Sequence[Event], *, consumed: Sequence[InboxRow] = (), children: Sequence[NewRun] = ()
    ) -> None:
        await self.inner.append(events, consumed=consumed, children=children)

    def receive(self) -> "asyncio.Future[Sequence[InboxRow]]":
        if not self.rows:
            return self.inner.receive()
        opened: asyncio.Future[Sequence[InboxRow]] = asyncio.get_running_loop().create_future()
        opened.set_result(self.rows)
        self.rows = ()
        return opened

    async def unread(self) -> Sequence[InboxRow]:
        opened, self.rows = self.rows, ()
        return [*opened, *await self.inner.unread()]

    async def release(self) -> None:
        await self.inner.release()
