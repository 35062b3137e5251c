"""Looks once for all who would otherwise each look by themselves."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field

from agent_fabric.application.ports.clock import Clock
from agent_fabric.application.ports.pending_work import PendingWork
from agent_fabric.domain.errors import StoreUnavailable

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class WatchPendingWork:
    """Use case: ask the store once in a while what there is to do, and wake those who do it."""

    pending: PendingWork
    clock: Clock
    every_s: float
    _wakes: dict[str, Callable[[], None]] = field(default_factory=dict)

    def listen(self, kind: str, wake: Callable[[], None]) -> None:
        """Call `wake` at every look that finds work of a kind."""
        self._wakes[kind] = wake

    async def __call__(self) -> None:
        while True:
            await self.clock.sleep(self.every_s)
            await self.look()

    async def look(self) -> None:
        try:
            found = await self.pending(self._wakes.keys())
        except StoreUnavailable as problem:
            _log.warning("It could not be looked up what there is to do: %s", problem.message)
            return
        except asyncio.CancelledError:
            raise
        except Exception:  # noqa: BLE001 - without us, no one would do anything any more
            _log.exception("It could not be looked up what there is to do")
            return
        for kind in found:
            self._wakes[kind]()
