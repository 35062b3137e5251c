"""Per-caller limits: how often callers may ask, how many runs they may start, and how many at once."""

import asyncio
import logging
import math
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import field

from agent_fabric.application.ports.leases import NamedLocks
from agent_fabric.application.ports.limits import Limiter, QuotaState, Rate
from agent_fabric.application.runs.dispatch_runs import Drive
from agent_fabric.config.schema.limits import LimitsConfig
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import StoreUnavailable, TooManyRequests
from agent_fabric.domain.identity.principals import Kind, Principal
from agent_fabric.domain.plural import count_of
from agent_fabric.domain.runs.task import RunCaps, RunResult

RETRY_AFTER_S = 10.0
"""No one knows when a run ends; this is when it is worth another try."""


_log = logging.getLogger(__name__)


@dataclass(slots=True)
class RunQuota:
    """Counts runs from being asked for to the end of their drive; one that waits for someone is not under way."""

    most: int
    locks: NamedLocks | None = None
    """Where servers share a store, each run of a caller holds one of as many locks as the caller may have runs: so
    there are never more, however many servers they ask. Those of a server that died are free again."""
    _under_way: Counter[str] = field(default_factory=Counter)
    _releasing: "set[asyncio.Task[None]]" = field(default_factory=set)

    async def __call__(self, who: str, begin: Callable[[], Awaitable[Drive | RunResult]]) -> Drive | RunResult:
        """Let someone begin a run, if they may have one more.

        Raises:
            TooManyRequests: they have too many; nothing was begun.
            Exception: what `begin` raised.
        """
        if self._under_way[who] >= self.most:
            raise self._refusal()
        self._under_way[who] += 1
        lock = ""
        try:
            lock = await self._take_lock(who)
            begun = await begin()
        except BaseException:
            self._leave(who, lock)
            raise
        if isinstance(begun, RunResult) or begun.outcome.done():
            self._leave(who, lock)
        else:
            begun.outcome.add_done_callback(lambda _: self._leave(who, lock))
        return begun

    async def _take_lock(self, who: str) -> str:
        """Return the lock that one more run holds; empty: none is needed."""
        if self.locks is None:
            return ""
        names = [f"run {number} of {who}" for number in range(self.most)]
        taken = await self.locks.find_taken(names)
        for name in names:
            if name not in taken and await self.locks.acquire(name):
                return name
        raise self._refusal()

    def _refusal(self) -> TooManyRequests:
        return TooManyRequests(
            f"You already have {count_of(self.most, 'run')} under way, which is the limit",
            hint="Wait until one has ended, or cancel one. The limit is `limits.concurrent_runs`.",
            retry_after_s=RETRY_AFTER_S,
        )

    def under_way(self, who: str) -> int:
        """Tell how many runs someone has under way."""
        return self._under_way[who]

    def _leave(self, who: str, lock: str) -> None:
        if lock:
            releasing = asyncio.ensure_future(self._release(lock))
            self._releasing.add(releasing)
            releasing.add_done_callback(self._releasing.discard)
        self._under_way[who] -= 1
        if self._under_way[who] <= 0:
            del self._under_way[who]  # or a user who came once would be remembered forever

    async def _release(self, lock: str) -> None:
        assert self.locks is not None
        try:
            await self.locks.release(lock)
        except StoreUnavailable as problem:  # it is free again when this process ends
            _log.warning("The end of a run is not counted yet: %s", problem.message)


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
                hint=f"Ask again in {count_of(seconds, 'second')}. The limit is `limits.starts`.",
                retry_after_s=state.reset_s,
            )
        return state

    async def aclose(self) -> None:
        """Keep what is to be kept."""
        for close in self._closers:
            await close()
