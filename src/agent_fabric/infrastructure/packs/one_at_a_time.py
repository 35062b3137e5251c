"""Lets only one run of an agent work at a time, in all processes that share a store."""

import asyncio

from agent_fabric.application.ports.leases import NamedLocks
from agent_fabric.application.ports.packs import SpecialistPack
from agent_fabric.infrastructure.packs.wrapped_pack import WrappedPack

_LOOK_AGAIN_S = 0.1


class OneAtATime(WrappedPack):
    """Opens another pack only when no other run has the agent; a run that waits for a person lets go of it."""

    def __init__(self, inner: SpecialistPack, name: str, locks: NamedLocks) -> None:
        super().__init__(inner)
        self._locks = locks
        self._name = name
        self._held = False

    async def aopen(self) -> None:
        """Wait for the turn, then open the pack."""
        while not await self._locks.acquire(self._name):  # noqa: ASYNC110 - the other run may be in another process
            await asyncio.sleep(_LOOK_AGAIN_S)
        self._held = True
        await super().aopen()

    async def aclose(self) -> None:
        """Close the pack, and let the next one begin."""
        try:
            await super().aclose()
        finally:
            if self._held:
                self._held = False
                await self._locks.release(self._name)
