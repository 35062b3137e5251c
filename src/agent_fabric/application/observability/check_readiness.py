"""Whether work can be taken on."""

import asyncio
from collections.abc import Callable
from dataclasses import field

from agent_fabric.application.ports.clock import Clock
from agent_fabric.application.ports.vitals import StoreGauge
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import FabricError

FRESH_S = 1.0
"""For so long, a look is as good as a new one: frequent requests must not cost more."""
PATIENCE_S = 3.0
"""A store that takes longer to write next to nothing is not one to rely on."""
LEAST_FREE_BYTES = 64 * 1024 * 1024
"""With less room on the disk, no new work should come."""


@dataclass(slots=True)
class CheckReadiness:
    """Use case: try what a run needs, and tell what does not work."""

    store: StoreGauge
    is_stopping: Callable[[], bool]
    clock: Clock
    _looked_at: float = -FRESH_S
    _problems: tuple[tuple[str, str], ...] = ()
    _looking: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def __call__(self) -> dict[str, str]:
        """Return what is wrong, by the name of the check: nothing means that work is welcome."""
        if self.is_stopping():
            return {"stopping": "The server is stopping"}
        try:
            self.store.require_in_place()  # costs nothing, so that is known at once
        except FabricError as problem:
            return {"store": problem.message}
        async with self._looking:
            if self.clock.monotonic() - self._looked_at >= FRESH_S:
                self._problems = tuple((await self._look()).items())
                self._looked_at = self.clock.monotonic()
        return dict(self._problems)

    async def _look(self) -> dict[str, str]:
        problems: dict[str, str] = {}
        try:
            async with asyncio.timeout(PATIENCE_S):
                await self.store.try_to_write()
                measured = await self.store.measure()
        except TimeoutError:
            problems["store"] = f"The store has not written anything for {PATIENCE_S:g} seconds"
        except FabricError as problem:
            problems["store"] = problem.message
        else:
            if measured.disk_free_bytes < LEAST_FREE_BYTES:
                problems["disk"] = f"Only {measured.disk_free_bytes // 1_000_000} MB are free on the disk of the store"
        return problems
