"""Takes up runs that have no driver: left unfinished, created by triggers, answered, or stopped by a full disk."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import field
from functools import partial
from typing import Final

from agent_fabric.application.ports.clock import Clock
from agent_fabric.application.ports.events import LogMirrors
from agent_fabric.application.ports.runs import RunListing, RunQueue
from agent_fabric.application.ports.vitals import StoreGauge
from agent_fabric.application.runs.dispatch_runs import DispatchRuns, Take
from agent_fabric.application.runs.resume_run import ResumeRun
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import FabricError, FolderHeld, RunHeld, ServerStopping, StoreUnavailable
from agent_fabric.domain.ids import RunId

FOLDER_RETRY_S: Final = 1.0
"""How long a run waits before it tries again to work in a folder that another run has."""
STORE_RETRY_S: Final = 2.0
"""How often is looked whether a store that was away can be written again."""
ROOM_BYTES: Final = 1_000_000
"""Free space below which no run is taken up: it would stop again before it has achieved anything."""
LOOK_EVERY_S: Final = 0.5
"""A run continues within a second of its answer."""
TRY_AGAIN_AFTER_S: Final = 30.0
"""A run that cannot be resumed, because its pack or its workspace is gone, is not tried twice a second."""

_log = logging.getLogger(__name__)


async def _take_up(
    dispatch: DispatchRuns, run_id: RunId, take: Take, take_later: Callable[[], None] | None, what: str
) -> bool:
    """Drive a run in its turn; False: it cannot be. `take_later` is called if another run has its folder.

    Raises:
        ServerStopping: neither this run nor another one is taken up any more.
    """
    try:
        await dispatch.when_free(run_id, take)
    except ServerStopping:
        raise
    except RunHeld:
        pass  # someone was faster, or is just letting go of it: the next look finds it again if need be
    except FabricError as problem:
        if isinstance(problem, FolderHeld) and take_later is not None:
            take_later()
            return True
        if isinstance(problem, StoreUnavailable) and dispatch.on_store_lost is not None:
            dispatch.on_store_lost(run_id)
        _log.warning("Run %s was not %s: %s", run_id, what, problem.message)
        return False
    except Exception:  # noqa: BLE001 - one that fails must not keep the others from being taken up
        _log.exception("Run %s was not %s", run_id, what)
        return False
    return True


@dataclass(frozen=True, slots=True)
class ResumeUnfinishedRuns:
    """Use case: drive runs that an earlier server, or a process that died, left unfinished."""

    resume_run: ResumeRun
    dispatch: DispatchRuns
    take_later: Callable[[RunId], None] | None = None
    """Takes up a run whose folder another one has, when that may be free."""

    async def __call__(self, run_ids: Iterable[RunId]) -> Sequence[RunId]:
        """Resume the runs one after another, each in its turn; return those that cannot be resumed."""
        left: list[RunId] = []
        for run_id in run_ids:
            take = partial(self.resume_run.take, run_id, by="server")
            later = None if self.take_later is None else partial(self.take_later, run_id)
            try:
                if not await _take_up(self.dispatch, run_id, take, later, "resumed"):
                    left.append(run_id)
            except ServerStopping:
                break
        return left


@dataclass(frozen=True, slots=True)
class RecoverRuns:
    """Use case: what a server does first. Log files of dead drivers, then unfinished runs, then the search index."""

    mirrors: LogMirrors
    resume_unfinished_runs: ResumeUnfinishedRuns
    catalogue: RunListing

    async def __call__(self, run_ids: Sequence[RunId]) -> None:
        """Recover; what fails is logged, and the next server tries again."""
        try:
            await self.mirrors.catch_up()
        except FabricError as problem:
            _log.warning("The log files of some runs are not up to date: %s", problem.message)
        await self.resume_unfinished_runs(run_ids)
        try:
            await self.catalogue.update_index()
        except FabricError as problem:
            _log.warning("The search index is not up to date: %s", problem.message)


@dataclass(slots=True)
class StartCreatedRuns:
    """Use case: take up runs that triggers have created, one after another, when there is room."""

    dispatch: DispatchRuns
    resume_run: ResumeRun
    retry_s: float = FOLDER_RETRY_S
    """Seconds until a run is tried again whose folder another run works in."""
    _waiting: "asyncio.Queue[tuple[RunId, bool]]" = field(default_factory=asyncio.Queue)
    """Runs to be taken up, each with whether it is new."""

    def __call__(self, run_ids: Sequence[RunId]) -> None:
        """Take runs over that were just created; no caller waits for them."""
        self.dispatch.expect(run_ids)
        for run_id in run_ids:
            self._waiting.put_nowait((run_id, True))

    def take_later(self, run_id: RunId, *, new: bool = False) -> None:
        """Take a run up when its folder may be free: another run works there."""
        self.dispatch.expect([run_id])
        asyncio.get_running_loop().call_later(self.retry_s, self._waiting.put_nowait, (run_id, new))

    async def drive(self) -> None:
        """Drive until cancelled; what is left then is found by the next server."""
        while True:
            run_id, new = await self._waiting.get()
            take = partial(self.resume_run.take, run_id, by="server", new=new)
            try:
                await _take_up(self.dispatch, run_id, take, partial(self.take_later, run_id, new=new), "started")
            except ServerStopping:
                return


@dataclass(frozen=True, slots=True)
class WakeAnsweredRuns:
    """Use case: watch for answers, from any process, and for approvals that expire."""

    queue: RunQueue
    dispatch: DispatchRuns
    resume_unfinished_runs: ResumeUnfinishedRuns
    clock: Clock
    pause: Callable[[float], Awaitable[None]] | None = None
    """Waits until the next look, or until something has happened; None: for the whole time."""

    async def __call__(self) -> None:
        """Watch until cancelled."""
        not_before: dict[RunId, float] = {}
        pause = self.pause or self.clock.sleep
        while True:
            now = self.clock.monotonic()
            not_before = {run_id: at for run_id, at in not_before.items() if at > now}
            answered = [run_id for run_id in await self._due_runs() if run_id not in not_before]
            if answered:
                self.dispatch.expect(answered)
                left = await self.resume_unfinished_runs(answered)
                not_before.update(dict.fromkeys(left, self.clock.monotonic() + TRY_AGAIN_AFTER_S))
            await pause(LOOK_EVERY_S)

    async def _due_runs(self) -> list[RunId]:
        try:
            return [run_id for run_id in await self.queue.due() if run_id not in self.dispatch]
        except StoreUnavailable as problem:
            _log.warning("Answers could not be read: %s", problem.message)
            return []


@dataclass(slots=True)
class RetryStoppedRuns:
    """Use case: after a full disk, or a store that was away for a while, let the runs go on that it has stopped."""

    gauge: StoreGauge
    resume: ResumeUnfinishedRuns
    clock: Clock
    _stopped: dict[RunId, None] = field(default_factory=dict)
    """Runs that have stopped, in this order."""
    _woken: asyncio.Event = field(default_factory=asyncio.Event)

    def note_stopped(self, run_id: RunId) -> None:
        """Remember a run that could not go on because of the store."""
        self._stopped[run_id] = None
        self._woken.set()

    async def __call__(self) -> None:
        """Wait for runs that stop, and take them up once the store can be written; until cancelled."""
        while True:
            await self._woken.wait()
            await self.clock.sleep(STORE_RETRY_S)
            await self.look()

    async def look(self) -> None:
        """Take up what has stopped, if the store can be written again."""
        if not self._stopped or not await self._has_room():
            return
        runs, self._stopped = list(self._stopped), {}
        self._woken.clear()
        _log.warning("The store can be written again: %s run(s) go on", len(runs))
        await self.resume(runs)  # one that stops for the same reason is told to `note_stopped` again

    async def _has_room(self) -> bool:
        try:
            if (await self.gauge.measure()).disk_free_bytes < ROOM_BYTES:
                return False
            await self.gauge.try_to_write()
        except StoreUnavailable:
            return False
        return True
