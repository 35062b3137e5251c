"""Looks once for all who would otherwise each look by themselves."""

from collections.abc import Callable
from dataclasses import field

from agent_fabric.application.attempts import attempt
from agent_fabric.application.ports.clock import Clock
from agent_fabric.application.ports.pending_work import PendingWork
from agent_fabric.domain.dataclass import dataclass


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
            await attempt(self.look(), "It could not be looked up what there is to do")

    async def look(self) -> None:
        """Wake those who have something to do.

        Raises:
            StoreUnavailable: it cannot be looked up.
        """
        for kind in await self.pending(self._wakes.keys()):
            self._wakes[kind]()
