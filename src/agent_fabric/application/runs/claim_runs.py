"""Takes up runs that have no driver, as long as this process has room for them."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import field
from functools import partial
from typing import Final

from agent_fabric.application.ports.clock import Clock
from agent_fabric.application.ports.runs import RunQueue
from agent_fabric.application.runs.dispatch_runs import DispatchRuns
from agent_fabric.application.runs.resume_run import ResumeRun
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import (
    FabricError,
    RunHeld,
    RunKeyMissing,
    RunUndrivable,
    ServerStopping,
    StoreUnavailable,
)
from agent_fabric.domain.ids import RunId

SPARE: Final = 8
"""Runs that are looked at beyond those there is room for: others claim at the same time."""
TRY_AGAIN_AFTER_S: Final = 30.0
"""A run that cannot be driven here, because its pack or a key is missing, is left to others for so long."""

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class ClaimRuns:
    """Use case: one of several processes that drive the runs of one database.

    The first process has a run; the others find it held, and take the next one. No process hands runs out.
    """

    queue: RunQueue
    dispatch: DispatchRuns
    resume_run: ResumeRun
    clock: Clock
    every_s: float
    """How often is looked for runs, whatever hints come or get lost."""
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep
    """Waits until the next look."""
    refuse: Callable[[RunId, str], Awaitable[None]] | None = None
    """Lets others know what this process lacks to drive a run."""
    drains: Callable[[], bool] = lambda: False
    """Whether this process takes nothing on any more."""
    left_some: bool = False
    """Whether the last look found more than there was room for."""
    _not_before: dict[RunId, float] = field(default_factory=dict)

    async def __call__(self) -> None:
        """Claim until cancelled."""
        while True:
            await self.look()
            await self.pause(self.every_s)

    async def look(self) -> int:
        """Claim what there is room for, and return how many runs that were."""
        room = self.dispatch.room
        if room <= 0 or self.drains():
            self.left_some = room <= 0
            return 0
        now = self.clock.monotonic()
        self._not_before = {run_id: at for run_id, at in self._not_before.items() if at > now}
        claimed = 0
        try:
            found = await self.queue.list_unfinished(limit=room + len(self._not_before) + SPARE)
        except StoreUnavailable as problem:
            _log.warning("Runs could not be looked for: %s", problem.message)
            return 0
        self.left_some = len(found) > room + len(self._not_before)
        for run_id in found:
            if claimed == room or self.dispatch.stopping:
                break
            if run_id not in self._not_before and run_id not in self.dispatch:
                claimed += await self._claim(run_id)
        return claimed

    async def _claim(self, run_id: RunId) -> bool:
        try:
            await self.dispatch.when_free(run_id, partial(self.resume_run.take, run_id, by="server"))
        except (RunHeld, ServerStopping):
            return False  # someone was faster; or it is left to others
        except StoreUnavailable as problem:
            _log.warning("Run %s was not claimed: %s", run_id, problem.message)
            return False
        except FabricError as problem:
            _log.warning("Run %s is left to others: %s", run_id, problem.message)
            await self._refuse(run_id, problem)
        except Exception:  # noqa: BLE001 - one that fails must not keep the others from being driven
            _log.exception("Run %s is left to others", run_id)
        else:
            return True
        self._not_before[run_id] = self.clock.monotonic() + TRY_AGAIN_AFTER_S
        return False

    async def _refuse(self, run_id: RunId, problem: FabricError) -> None:
        if self.refuse is None:
            return
        match problem:
            case RunUndrivable(lacks=lacks) if lacks:
                reason = lacks
            case RunKeyMissing():
                reason = "the key of an encrypted run"
            case _:
                reason = f"what it takes: {problem.message}"
        try:
            await self.refuse(run_id, reason)
        except StoreUnavailable as unsaid:
            _log.info("Others do not know yet why: %s", unsaid.message)
