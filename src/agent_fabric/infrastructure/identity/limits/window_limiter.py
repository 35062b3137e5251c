"""Fixed-window rate limiter over counters. A window begins with its first request."""

from collections import OrderedDict

from agent_fabric.application.ports.clock import Clock
from agent_fabric.application.ports.limits import Count, Counters, QuotaState, Rate
from agent_fabric.domain.dataclass import dataclass

MAX_KEYS = 20_000
"""Keys that are kept; about 5 MB. When there are more, the oldest is forgotten: it has had most of its time."""


class MemoryCounters:
    """Counters that end with the process."""

    def __init__(self, clock: Clock, *, most: int = MAX_KEYS) -> None:
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

    async def aclose(self) -> None:
        self._counts.clear()


@dataclass(frozen=True, slots=True)
class WindowLimiter:
    """Limiter over counters of one process, or of all that share a store."""

    counters: Counters
    clock: Clock

    async def hit(self, key: str, rate: Rate, *, cost: int = 1) -> QuotaState:
        count = self.counters.add(key, rate.per_s, cost)
        return self._state(count, rate, allowed=count.hits <= rate.amount)

    async def look(self, key: str, rate: Rate) -> QuotaState:
        count = self.counters.get(key)
        return self._state(count, rate, allowed=count.hits < rate.amount)

    def _state(self, count: Count, rate: Rate, *, allowed: bool) -> QuotaState:
        left_s = max(0.0, count.expires_at - self.clock.now())
        return QuotaState(allowed, max(0, rate.amount - count.hits), left_s)
