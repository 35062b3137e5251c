"""Lets only one run of an agent work at a time, in all processes that share a store."""

import asyncio
import zlib

from agent_fabric.application.ports.packs import SpecialistPack
from agent_fabric.infrastructure.packs.wrapped import WrappedPack
from agent_fabric.infrastructure.persistence.run_locks import RunLocks

_LOOK_AGAIN_S = 0.1


class OneAtATime(WrappedPack):
    """Opens another pack only when no other run has the agent; a run that waits for a person lets go of it."""

    def __init__(self, inner: SpecialistPack, name: str, locks: RunLocks) -> None:
        super().__init__(inner)
        self._locks = locks
        self._number = 1 + zlib.crc32(name.encode())  # two names with the same number would only wait for each other
        self._held = False

    async def aopen(self) -> None:
        """Wait for the turn, then open the pack."""
        while not self._locks.acquire(self._number):  # noqa: ASYNC110 - the other run may be in another process
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
                self._locks.release(self._number)
