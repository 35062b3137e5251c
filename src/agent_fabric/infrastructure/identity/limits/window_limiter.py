"""Fixed-window rate limiter over the library `limits`. A window begins with its first request."""

from collections.abc import Callable
from functools import lru_cache

from limits import RateLimitItem, RateLimitItemPerSecond
from limits.aio.storage import Storage
from limits.aio.strategies import FixedWindowRateLimiter

from agent_fabric.application.ports.limits import Counters, QuotaState, Rate


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
