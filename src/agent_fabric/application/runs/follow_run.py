"""Waits for the outcome of a run that another process drives."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Final

from agent_fabric.application.ports.clock import Clock
from agent_fabric.application.ports.runs import RunReader, RunRepository
from agent_fabric.application.runs.fold_log import fold_log
from agent_fabric.domain.errors import StoreUnavailable
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.state import result_of
from agent_fabric.domain.runs.task import RunResult, RunStatus

LOOK_EVERY_S: Final = 0.25


@dataclass(frozen=True, slots=True)
class FollowRun:
    """Use case: be there when a run settles or waits, without driving it."""

    runs: RunRepository
    reader: RunReader
    clock: Clock
    patience_s: float
    """How long a run may be without anybody to drive it: those who do may just be coming back."""
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep

    async def __call__(self, run_id: RunId) -> RunResult:
        """Return how the run stands as soon as it does not move: settled, waiting, or left without anybody to drive it.

        Raises:
            RunNotFound: there is no such run.
        """
        looked_after_at = self.clock.monotonic()
        while (status := await self._status(run_id)) in (RunStatus.RUNNING, RunStatus.INTERRUPTED):
            now = self.clock.monotonic()
            if status is RunStatus.RUNNING:
                looked_after_at = now
            elif now - looked_after_at >= self.patience_s:
                break
            await self.pause(LOOK_EVERY_S)
        result = result_of(await fold_log(run_id, await self.runs.read(run_id)))
        return replace(result, status=status) if status is RunStatus.INTERRUPTED else result

    async def _status(self, run_id: RunId) -> RunStatus:
        try:
            return await self.reader.status(run_id)
        except StoreUnavailable:
            return RunStatus.RUNNING  # the next look may work, and the run goes on all the same
