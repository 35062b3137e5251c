"""Resumes runs as soon as their approval is answered or expires."""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from agent_fabric.application.ports.clock import Clock
from agent_fabric.application.ports.runs import RunQueue
from agent_fabric.application.runs.dispatch_runs import DispatchRuns
from agent_fabric.application.runs.resume_unfinished_runs import ResumeUnfinishedRuns
from agent_fabric.domain.errors import StoreUnavailable
from agent_fabric.domain.ids import RunId

LOOK_EVERY_S = 0.5
"""A run continues within a second of its answer."""
TRY_AGAIN_AFTER_S = 30.0
"""A run that cannot be resumed, because its pack or its workspace is gone, is not tried twice a second."""

_log = logging.getLogger(__name__)


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
