"""Waits for the outcomes of runs that other processes drive."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import field, replace
from typing import Final

from agent_fabric.application.ports.clock import Clock
from agent_fabric.application.ports.runs import Progress, RunReader, RunRepository
from agent_fabric.application.ports.wake_ups import WakeUps, log_topic
from agent_fabric.application.runs.fold_log import fold_log
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import RunNotFound, StoreUnavailable
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.state import result_of
from agent_fabric.domain.runs.task import RunResult, RunStatus

LOOK_EVERY_S: Final = 1.0
"""How often is looked without a hint, once for all who wait."""
HINT_GAP_S: Final = 0.05
"""However many hints come, there are no more looks than twenty a second."""


@dataclass(slots=True)
class FollowRun:
    """Use case: be there when a run settles or waits, without driving it."""

    runs: RunRepository
    reader: RunReader
    clock: Clock
    patience_s: float
    """How long a run may be without anyone to drive it: those who do may just be coming back."""
    wake_ups: WakeUps
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep
    _waiting: "dict[RunId, asyncio.Future[Progress | None]]" = field(default_factory=dict)
    """Done at the next look; None: there is no such run."""
    _hinted: asyncio.Event = field(default_factory=asyncio.Event)
    _looking: "asyncio.Task[None] | None" = None

    async def __call__(self, run_id: RunId) -> RunResult:
        """Return how the run stands as soon as it does not move: settled, waiting, or left without anyone to drive it.

        Raises:
            RunNotFound: there is no such run.
        """
        unlisten = self.wake_ups.listen(log_topic(run_id), lambda _: self._hinted.set())
        try:
            status = await self._until_it_stands(run_id)
        finally:
            unlisten()
        result = result_of(await fold_log(run_id, await self.runs.read(run_id)))
        return replace(result, status=status) if status is RunStatus.INTERRUPTED else result

    async def _until_it_stands(self, run_id: RunId) -> RunStatus:
        looked_after_at = self.clock.monotonic()
        while True:
            progress = await asyncio.shield(self._next_look(run_id))
            if progress is None:
                raise RunNotFound(f"There is no run {run_id!r}")
            now = self.clock.monotonic()
            if progress.status is RunStatus.RUNNING:
                looked_after_at = now
            elif progress.status is not RunStatus.INTERRUPTED or now - looked_after_at >= self.patience_s:
                return progress.status

    def _next_look(self, run_id: RunId) -> "asyncio.Future[Progress | None]":
        found = self._waiting.get(run_id)
        if found is None:
            found = self._waiting[run_id] = asyncio.get_running_loop().create_future()
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look())
        return found

    async def _look(self) -> None:
        """Look for all who wait, with one query, until no one does."""
        while self._waiting:
            await self._pause()
            waiting, self._waiting = self._waiting, {}
            try:
                progress = await self._progress(waiting)
            except Exception as problem:  # noqa: BLE001 - told to those who wait
                for found in waiting.values():
                    found.set_exception(problem)
                continue
            for run_id, found in waiting.items():
                found.set_result(progress.get(run_id))
            await asyncio.sleep(0)  # those who go on waiting line up again

    async def _progress(self, run_ids: Collection[RunId]) -> Mapping[RunId, Progress]:
        try:
            return await self.reader.progress(run_ids)
        except StoreUnavailable:  # the next look may work, and the runs go on all the same
            return dict.fromkeys(run_ids, Progress(RunStatus.RUNNING, -1))

    async def _pause(self) -> None:
        hinted, timer = asyncio.ensure_future(self._hinted.wait()), asyncio.ensure_future(self.pause(LOOK_EVERY_S))
        try:
            await asyncio.wait((hinted, timer), return_when=asyncio.FIRST_COMPLETED)
            if hinted.done():
                await asyncio.sleep(HINT_GAP_S)  # hints that come together are one
        finally:
            hinted.cancel()
            timer.cancel()
        self._hinted.clear()
