"""Per-caller limits: how often callers may ask, and how many runs they may start."""

import math
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from agent_fabric.application.ports.limits import Limiter, QuotaState, Rate
from agent_fabric.application.runs.run_quota import RunQuota
from agent_fabric.config.schema.limits import LimitsConfig
from agent_fabric.domain.errors import TooManyRequests
from agent_fabric.domain.identity.principals import Kind, Principal
from agent_fabric.domain.plural import counted
from agent_fabric.domain.runs.limits import RunCaps


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
