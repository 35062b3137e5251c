"""Concurrent runs per caller."""

from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from agent_fabric.application.runs.dispatch_runs import Drive
from agent_fabric.domain.errors import TooManyRequests
from agent_fabric.domain.plural import counted
from agent_fabric.domain.runs.task import RunResult

RETRY_AFTER_S = 10.0
"""Nobody knows when a run ends; this is when it is worth another try."""


@dataclass(slots=True)
class RunQuota:
    """Counts runs from being asked for to the end of their drive; one that waits for somebody is not under way."""

    most: int
    _under_way: Counter[str] = field(default_factory=Counter)

    async def __call__(self, who: str, begin: Callable[[], Awaitable[Drive | RunResult]]) -> Drive | RunResult:
        """Let somebody begin a run, if they may have one more.

        Raises:
            TooManyRequests: they have too many; nothing was begun.
            Exception: what `begin` raised.
        """
        if self._under_way[who] >= self.most:
            raise TooManyRequests(
                f"You already have {counted(self._under_way[who], 'run')} under way, which is the limit",
                hint="Wait until one has ended, or cancel one. The limit is `limits.concurrent_runs`.",
                retry_after_s=RETRY_AFTER_S,
            )
        self._under_way[who] += 1
        try:
            begun = await begin()
        except BaseException:
            self._leave(who)
            raise
        if isinstance(begun, RunResult) or begun.outcome.done():
            self._leave(who)
        else:
            begun.outcome.add_done_callback(lambda _: self._leave(who))
        return begun

    def under_way(self, who: str) -> int:
        """Tell how many runs somebody has under way."""
        return self._under_way[who]

    def _leave(self, who: str) -> None:
        self._under_way[who] -= 1
        if self._under_way[who] <= 0:
            del self._under_way[who]  # or whoever came once would be remembered for ever
