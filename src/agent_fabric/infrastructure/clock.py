"""The machine's own time and randomness."""

import time
import uuid
from collections.abc import Callable

from agent_fabric.application.ports.clock import Clock
from agent_fabric.domain.ids import RunId


class SystemClock:
    """Clock of this machine."""

    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        import asyncio  # noqa: PLC0415 - every command that opens the store has a clock; few wait

        await asyncio.sleep(seconds)


class AdjustedClock:
    """Clock of machines that share a database: that of this machine, without what it is known to be ahead."""

    def __init__(self, inner: Clock, ahead_s: Callable[[], float]) -> None:
        self._inner = inner
        self._ahead_s = ahead_s

    def now(self) -> float:
        return self._inner.now() - self._ahead_s()

    def monotonic(self) -> float:
        return self._inner.monotonic()

    async def sleep(self, seconds: float) -> None:
        await self._inner.sleep(seconds)


class RandomIds:
    """IdSource of random UUIDs."""

    def new_run_id(self) -> RunId:
        return RunId(str(uuid.uuid4()))
