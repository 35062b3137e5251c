"""Fixed-window rate limiter whose counts are in Redis: all servers that use the same one count together.

A hit waits for one round trip, which many hits share. That is what makes a rate exact over several servers: counts that
are brought into line now and then let each server allow the whole rate before it hears of the others.
"""

import asyncio
import hashlib
import logging
import math
import random
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final, NamedTuple

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as ConnectionFailed
from redis.exceptions import RedisError

from agent_fabric.application.ports.clock import Clock
from agent_fabric.application.ports.limits import QuotaState, Rate
from agent_fabric.config.secret_references import hide_passwords
from agent_fabric.domain.dataclass import dataclass

CHECK_TIMEOUT_S = 2.0


async def find_redis_problem(url: str) -> str:
    """Return why Redis cannot be used; empty: it can."""
    redis: Redis = Redis.from_url(
        url, socket_timeout=CHECK_TIMEOUT_S, socket_connect_timeout=CHECK_TIMEOUT_S, retry=Retry(NoBackoff(), 0)
    )
    try:
        await redis.eval("return redis.call('PTTL', KEYS[1])", 1, "rate_limit:doctor")
    except (RedisError, OSError) as problem:
        return hide_passwords(str(problem)) or type(problem).__name__
    finally:
        await redis.aclose()
    return ""


MAX_KEYS: Final = 20_000
"""Keys whose counts are remembered here, for when Redis is gone. When there are more, the oldest is forgotten."""
WAIT_TIMEOUT_S: Final = 0.25
"""The longest that a request waits for Redis. Once one has waited in vain, none waits until Redis answers again."""
_LOOKS: Final = 5
"""How often a waiting request looks: where this process is starved, the answer may have come and not been read yet."""
EXCHANGE_TIMEOUT_S: Final = 1.0
RETRY_S: Final = 1.0
"""How often Redis is tried while it is gone; each time between a half and one and a half of it."""
_MAX_HITS: Final = 1_000
"""In one exchange."""
_MAX_KEY_BYTES: Final = 200

# A period begins with its first hit, in Redis's own time: the clocks of servers may differ. A hit of 0 only looks.
_COUNT: Final = """
local answer = {}
for i, key in ipairs(KEYS) do
  local per, amount = tonumber(ARGV[2 * i - 1]), tonumber(ARGV[2 * i])
  local hits, left = 0, redis.call('PTTL', key)
  if left <= 0 then
    if amount ~= 0 then
      hits, left = math.max(0, amount), per
      redis.call('SET', key, hits, 'PX', per)
    else
      left = 0
    end
  else
    hits = redis.call('INCRBY', key, amount)
    if hits < 0 then
      redis.call('INCRBY', key, -hits)
      hits = 0
    end
  end
  answer[2 * i - 1], answer[2 * i] = hits, left
end
return answer
"""

_log = logging.getLogger(__name__)


class _Total(NamedTuple):
    hits: int
    left_s: float


@dataclass(slots=True)
class _Known:
    """One key, as this process knows it."""

    shared: int
    """What Redis had at the last exchange."""
    own: int
    """What was counted here while Redis was gone; Redis does not have it."""
    expires_at: float


@dataclass(slots=True, eq=False)
class _Hit:
    """What is to be counted under a key, and who waits for the sum."""

    key: str
    per_s: int
    amount: int
    total: "asyncio.Future[_Total]"
    counted_here: bool = False
    """Whether no one waits any more, because it was counted without Redis."""


class RedisLimiter:
    """Limiter over Redis. While Redis is gone, this process counts on from what it knew; no request fails.

    What was counted meanwhile goes to Redis when it is back. One exchange may then be counted twice: the one of which
    no one knows whether it had arrived.

    Redis keeps a key for its period only. With `maxmemory-policy volatile-ttl` it drops those first that end first.
    """

    def __init__(self, url: str, clock: Clock, *, name: str, max_keys: int = MAX_KEYS) -> None:
        # One repetition, on a new connection: the old one may have been closed while no one used it.
        retry = Retry(NoBackoff(), 1, supported_errors=(ConnectionFailed,))
        self._redis: Redis = Redis.from_url(
            url, socket_timeout=EXCHANGE_TIMEOUT_S, socket_connect_timeout=EXCHANGE_TIMEOUT_S, retry=retry
        )
        self._count_in_redis = self._redis.register_script(_COUNT)
        self._url = hide_passwords(url)
        self._clock = clock
        self._prefix = f"rate_limit:{name}:".encode()
        self._max_keys = max_keys
        self._known: OrderedDict[str, _Known] = OrderedDict()
        self._waiting: list[_Hit] = []
        self._in_flight: list[_Hit] = []
        self._exchanging: asyncio.Task[None] | None = None
        self._away = False
        self._closed = False

    def __len__(self) -> int:
        """Tell how many keys are kept in memory."""
        return len(self._known)

    async def hit(self, key: str, rate: Rate, *, cost: int = 1) -> QuotaState:
        total = await self._count(key, rate.per_s, cost)
        return QuotaState(total.hits <= rate.amount, max(0, rate.amount - total.hits), total.left_s)

    async def look(self, key: str, rate: Rate) -> QuotaState:
        total = await self._count(key, rate.per_s, 0)
        return QuotaState(total.hits < rate.amount, max(0, rate.amount - total.hits), total.left_s)

    async def aclose(self) -> None:
        """Finish the exchange under way and close the connection."""
        self._closed = True
        if self._exchanging is not None:
            if self._away:
                self._exchanging.cancel()
            await asyncio.wait([self._exchanging])
        await self._redis.aclose()

    async def _count(self, key: str, per_s: int, amount: int) -> _Total:
        hit = _Hit(key, per_s, amount, asyncio.get_running_loop().create_future())
        if not self._away:
            self._waiting.append(hit)
        if self._exchanging is None:
            self._exchanging = asyncio.create_task(self._exchange_all())
        for _ in range(_LOOKS):
            if self._away or hit.total.done():
                break
            await asyncio.wait([hit.total], timeout=WAIT_TIMEOUT_S / _LOOKS)
        if not hit.total.done():
            if not self._away:
                self._leave(f"no answer within {WAIT_TIMEOUT_S:g} s")
            self._count_here(hit)
        return hit.total.result()

    async def _exchange_all(self) -> None:
        """Count what waits, in one round trip after another. While Redis is gone, try again and again."""
        try:
            while self._waiting or (self._away and not self._closed):
                if self._away:
                    await asyncio.sleep(RETRY_S * random.uniform(0.5, 1.5))  # noqa: S311 - jitter
                    self._waiting = self._local_hit()
                self._in_flight = self._waiting[:_MAX_HITS]
                del self._waiting[:_MAX_HITS]
                await self._exchange(self._in_flight)
                self._in_flight = []
        finally:
            self._exchanging = None

    async def _exchange(self, hits: Sequence[_Hit]) -> None:
        keys = [self._prefix + _encode(hit.key) for hit in hits]
        args = [number for hit in hits for number in (hit.per_s * 1_000, hit.amount)]
        try:
            answer = await self._count_in_redis(keys=keys, args=args)
        except (RedisError, OSError) as problem:
            self._leave(str(problem))
            return
        for hit, total, left_ms in zip(hits, answer[::2], answer[1::2], strict=True):
            self._count_hit(hit, _Total(int(total), math.ceil(int(left_ms) / 1_000)))
        if self._away:
            self._away = False
            self._waiting = self._local_hit()
            _log.info("Redis at %s is back: rates are counted for all servers together again", self._url)

    def _count_hit(self, hit: _Hit, total: _Total) -> None:
        known = self._remember(hit.key, hit.per_s)
        known.shared, known.expires_at = total.hits, self._clock.now() + total.left_s
        if hit.counted_here:
            known.own = max(-known.shared, known.own - hit.amount)
        elif not hit.total.done():
            hit.total.set_result(total)

    def _leave(self, problem: str) -> None:
        """Count without Redis from now on: what waits for it, too."""
        if not self._away:
            self._away = True
            _log.warning(
                "Redis at %s cannot be reached (%s): this server counts rates by itself until it is back",
                self._url,
                hide_passwords(problem),
            )
        for hit in (*self._in_flight, *self._waiting):
            self._count_here(hit)
        self._waiting.clear()

    def _count_here(self, hit: _Hit) -> None:
        if hit.counted_here or hit.total.done():
            return
        hit.counted_here = True
        known = self._remember(hit.key, hit.per_s)
        known.own = max(-known.shared, known.own + hit.amount)
        left_s = max(0.0, known.expires_at - self._clock.now())
        hit.total.set_result(_Total(known.shared + known.own, left_s))

    def _local_hit(self) -> list[_Hit]:
        """Return what was counted while Redis was gone."""
        now, loop = self._clock.now(), asyncio.get_running_loop()
        return [
            _Hit(key, math.ceil(known.expires_at - now), known.own, loop.create_future(), counted_here=True)
            for key, known in self._known.items()
            if known.own and known.expires_at > now
        ]

    def _remember(self, key: str, per_s: int) -> _Known:
        now = self._clock.now()
        known = self._known.get(key)
        if known is None or known.expires_at <= now:
            self._known.pop(key, None)  # so that a new period stands at the end
            while len(self._known) >= self._max_keys:
                self._known.popitem(last=False)
            known = self._known[key] = _Known(0, 0, now + per_s)
        return known


def _encode(key: str) -> bytes:
    data = key.encode("utf-8", "surrogatepass")
    return data if len(data) <= _MAX_KEY_BYTES else hashlib.sha256(data).hexdigest().encode()
