"""Takes old runs away once a day, if that was asked for."""

from dataclasses import dataclass

from agent_fabric.application.audit.collect_garbage import CollectGarbage
from agent_fabric.application.ports.clock import Clock
from agent_fabric.application.ports.operations import OperationsLog
from agent_fabric.domain.errors import FabricError

DAY_S = 86_400.0
SETTLING_S = 60.0
"""A server that has just started has better things to do."""


@dataclass(frozen=True, slots=True)
class ApplyRetention:
    """Use case: remove what is older than anyone wants to keep, day after day, and say so."""

    collect_garbage: CollectGarbage
    older_than_days: float
    keep: int
    clock: Clock
    log: OperationsLog

    async def __call__(self) -> None:
        """Go on for ever."""
        await self.clock.sleep(SETTLING_S)
        while True:
            await self.once()
            await self.clock.sleep(DAY_S)

    async def once(self) -> None:
        """Remove what is too old now."""
        try:
            done = await self.collect_garbage(older_than_s=self.older_than_days * DAY_S, by="retention", keep=self.keep)
        except FabricError as problem:
            self.log.warning("retention_failed", code=problem.code, message=problem.message)
            return
        for sentence in done.refused:
            self.log.warning("retention_refused", message=sentence)
        self.log.info("retention_applied", removed=len(done.runs), freed_bytes=done.freed_bytes)
