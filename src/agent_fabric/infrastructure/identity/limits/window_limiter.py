"""Fixed-window rate limiter of one process, over the library `limits`. A window begins with its first request."""

from collections import OrderedDict
from collections.abc import Callable
from functools import lru_cache

from limits import RateLimitItem, RateLimitItemPerSecond
from limits.aio.storage import Storage
from limits.aio.strategies import FixedWindowRateLimiter

from agent_fabric.application.ports.clock import Clock
from agent_fabric.application.ports.limits import Count, Counters, QuotaState, Rate

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

    def forget(self, key: str) -> None:
        self._counts.pop(key, None)

    async def aclose(self) -> None:
        self._counts.clear()


class WindowLimiter:
    """Limiter over any storage that the library knows."""

    def __init__(self, storage: Storage, now: Callable[[], float]) -> None:
        self._windows = FixedWindowRateLimiter(storage)
        self._now = now

    async def hit(self, key: str, rate: Rate, *, cost: int = 1) -> QuotaState:
        item = _item(rate)
        allowed = await self._windows.hit(item, key, cost=cost)
        return await self._standing(item, key, allowed=allowed)

    async def look(self, key: str, rate: Rate) -> QuotaState:
        item = _item(rate)
        return await self._standing(item, key, allowed=await self._windows.test(item, key))

    async def _standing(self, item: RateLimitItem, key: str, *, allowed: bool) -> QuotaState:
        reset, remaining = await self._windows.get_window_stats(item, key)
        return QuotaState(allowed, remaining, max(0.0, reset - self._now()))


class CounterStorage(Storage):
    """The library's storage over counters of ours."""

    STORAGE_SCHEME = None

    def __init__(self, counters: Counters) -> None:
        super().__init__()
        self._counters = counters

    @property
    def base_exceptions(self) -> type[Exception]:
        return ValueError

    async def incr(self, key: str, expiry: int, amount: int = 1) -> int:
        return self._counters.add(key, expiry, amount).hits

    async def get(self, key: str) -> int:
        return self._counters.get(key).hits

    async def get_expiry(self, key: str) -> float:
        return self._counters.get(key).expires_at

    async def check(self) -> bool:
        return True

    async def reset(self) -> int | None:
        raise NotImplementedError

    async def clear(self, key: str) -> None:
        self._counters.forget(key)


@lru_cache(maxsize=64)
def _item(rate: Rate) -> RateLimitItem:
    return RateLimitItemPerSecond(rate.amount, rate.per_s, "fabric")
