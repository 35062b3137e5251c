"""Builds the per-caller limits of the server."""

import math
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, assert_never

from agent_fabric.application.ports.clock import Clock
from agent_fabric.application.ports.limits import Counters, Limiter, QuotaState, Rate
from agent_fabric.application.ports.storage import Storage
from agent_fabric.application.runs.run_quota import RunQuota
from agent_fabric.config.constants import DEFAULT_CLUSTER
from agent_fabric.config.schema.limits import LimitsConfig, how_often
from agent_fabric.domain.errors import MissingExtra, TooManyRequests
from agent_fabric.domain.identity.principals import Kind, Principal
from agent_fabric.domain.plural import counted
from agent_fabric.domain.runs.limits import RunCaps
from agent_fabric.infrastructure.identity.limits.window_limiter import CounterStorage, MemoryCounters, WindowLimiter


@dataclass(frozen=True, slots=True)
class Limits:
    """Per-caller limits."""

    settings: LimitsConfig
    known: Limiter
    """Counts authenticated callers."""
    strangers: Limiter
    """Counts addresses of anonymous requests, apart from callers: many addresses must not evict a caller."""
    requests: Rate | None
    starts: Rate | None
    endpoints: Mapping[str, Rate]
    """By endpoint, such as `POST /run`."""
    login: Rate | None
    failures: Rate | None
    runs: RunQuota | None
    caps: RunCaps
    _closers: tuple[Callable[[], Awaitable[None]], ...]

    def hold_for(self, principal: Principal) -> bool:
        """Tell whether a caller is limited."""
        return principal.kind is not Kind.LOCAL or self.settings.local

    async def count_start(self, who: str) -> QuotaState | None:
        """Count one more run that a caller starts or resumes, through whichever door; None: that is not limited.

        Raises:
            TooManyRequests: it may not start now.
        """
        if self.starts is None:
            return None
        state = await self.known.hit(f"{who} runs", self.starts)
        if not state.allowed:
            seconds = max(1, math.ceil(state.reset_s))
            raise TooManyRequests(
                f"You have started too many runs for now: {self.settings.starts} is the limit",
                hint=f"Ask again in {counted(seconds, 'second')}. The limit is `limits.starts`.",
                retry_after_s=state.reset_s,
            )
        return state

    async def aclose(self) -> None:
        """Keep what is to be kept."""
        for close in self._closers:
            await close()


class _Opened(NamedTuple):
    """A limiter, and what closes it."""

    limiter: Limiter
    close: Callable[[], Awaitable[None]]


def build_limits(
    settings: LimitsConfig,
    storage: Storage,
    clock: Clock,
    *,
    redis_url: str | None = None,
    cluster: str = DEFAULT_CLUSTER,
) -> Limits:
    """Return the limits that the configuration describes.

    Raises:
        MissingExtra: the client of Redis is not installed.
    """
    known, strangers = (
        _open_limiter(settings, storage, clock, redis_url, f"{cluster}:{name}") for name in ("caller", "address")
    )
    return Limits(
        settings=settings,
        known=known.limiter,
        strangers=strangers.limiter,
        requests=_rate(settings.requests),
        starts=_rate(settings.starts),
        endpoints={endpoint: Rate(*how_often(rate)) for endpoint, rate in settings.endpoints.items()},
        login=_rate(settings.login),
        failures=_rate(settings.failures),
        runs=_run_quota(settings.concurrent_runs, storage),
        caps=RunCaps(
            max_steps=settings.run.max_steps,
            max_tokens=settings.run.max_tokens,
            max_seconds=settings.run.max_seconds,
        ),
        _closers=(known.close, strangers.close),
    )


def _run_quota(most: int | None, storage: Storage) -> RunQuota | None:
    """Return what counts runs under way: for all servers together, where they share a store."""
    return None if most is None else RunQuota(most, None if storage.cluster is None else storage.agent_locks)


def _open_limiter(settings: LimitsConfig, storage: Storage, clock: Clock, redis_url: str | None, name: str) -> _Opened:
    match settings.storage:
        case "memory":
            counters: Counters = MemoryCounters(clock)
        case "sqlite":
            counters = storage.counters()
        case "redis":
            assert redis_url is not None, "the configuration was checked"
            return _open_redis_limiter(redis_url, clock, name)
        case unknown:
            assert_never(unknown)
    return _Opened(WindowLimiter(CounterStorage(counters), clock.now), counters.aclose)


def _open_redis_limiter(url: str, clock: Clock, name: str) -> _Opened:
    try:
        from agent_fabric.infrastructure.identity.limits.redis_limiter import RedisLimiter  # noqa: PLC0415 - half a second
    except ModuleNotFoundError:
        raise MissingExtra("cluster", needed_for="`limits.storage: redis`") from None
    limiter = RedisLimiter(url, clock, name=name)
    return _Opened(limiter, limiter.aclose)


def _rate(text: str | None) -> Rate | None:
    return None if text is None else Rate(*how_often(text))
