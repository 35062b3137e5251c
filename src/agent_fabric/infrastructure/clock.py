"""The machine's own time and randomness."""

import asyncio
import time
import uuid

from agent_fabric.domain.ids import RunId


class SystemClock:
    """Clock of this machine."""

    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class RandomIds:
    """IdSource of random UUIDs."""

    def new_run_id(self) -> RunId:
        return RunId(str(uuid.uuid4()))
