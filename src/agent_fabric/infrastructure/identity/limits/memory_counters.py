"""Counters in memory, for one process."""

from collections import OrderedDict

from agent_fabric.application.ports.clock import Clock
from agent_fabric.application.ports.limits import Count

MOST = 20_000
"""Keys that are kept; about 5 MB. When there are more, the oldest is forgotten: it has had most of its time."""


class MemoryCounters:
    """Counters that end with the process."""

    def __init__(self, clock: Clock, *, most: int = MOST) -> None:
        self._clock = clock
        self._most = most
        self._counts: OrderedDict[str, Count] = OrderedDict()

    def __len__(self) -> int:
        """Tell how many keys are kept."""
        return len(self._counts)

    def add(self, key: str, per_s: int, amount: int) -> Count:
        now = self._clock.now()
        count = self._counts.get(key)
        if count is None or count.expires_at <= now:
            self._counts.pop(key, None)  # so that a new time stands at the end
            while len(self._counts) >= self._most:
                self._counts.popitem(last=False)
            count = Count(0, now + per_s)
        count = self._counts[key] = Count(max(0, count.hits + amount), count.expires_at)
        return count

    def get(self, key: str) -> Count:
        count = self._counts.get(key)
        now = self._clock.now()
        return Count(0, now) if count is None or count.expires_at <= now else count

    def forget(self, key: str) -> None:
        self._counts.pop(key, None)

    async def aclose(self) -> None:
        self._counts.clear()
