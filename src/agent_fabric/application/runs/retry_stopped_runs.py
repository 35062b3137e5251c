"""Takes runs up again that stopped because the store could not be written."""

import asyncio
import logging
from dataclasses import dataclass, field

from agent_fabric.application.ports.clock import Clock
from agent_fabric.application.ports.vitals import StoreGauge
from agent_fabric.application.runs.resume_unfinished_runs import ResumeUnfinishedRuns
from agent_fabric.domain.errors import StoreUnavailable
from agent_fabric.domain.ids import RunId

LOOK_EVERY_S = 2.0
ROOM_BYTES = 1_000_000
"""Free space below which no run is taken up: it would stop again before it has achieved anything."""

_log = logging.getLogger(__name__)


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
            await self.clock.sleep(LOOK_EVERY_S)
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
