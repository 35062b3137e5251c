"""Rate limits."""

from typing import NamedTuple, Protocol


class Rate(NamedTuple):
    """So many in such a time."""

    amount: int
    per_s: int


class QuotaState(NamedTuple):
    """How much is left of a rate."""

    allowed: bool
    remaining: int
    """How many more may follow before the time is over."""
    reset_s: float
    """Seconds until everything is allowed again."""


class Limiter(Protocol):
    """Counts what happens under a key. However many keys there are, it takes only so much memory."""

    async def hit(self, key: str, rate: Rate, *, cost: int = 1) -> QuotaState:
        """Count one more, and tell whether it is still within the rate; a `cost` of -1 gives one back."""
        ...

    async def look(self, key: str, rate: Rate) -> QuotaState:
        """Tell whether one more would be within the rate; nothing is counted."""
        ...


class Count(NamedTuple):
    """The hits under a key within its period."""

    hits: int
    expires_at: float
    """When the period ends, in seconds since 1970."""


class Counters(Protocol):
    """Counts hits under keys, each for a period that begins with its first hit. Nothing here waits for a disk."""

    def add(self, key: str, per_s: int, amount: int) -> Count:
        """Add `amount` hits under a key whose period is `per_s`, and return the sum; never below zero."""
        ...

    def get(self, key: str) -> Count:
        """Return the hits under a key."""
        ...

    async def aclose(self) -> None:
        """Write what is not durable yet."""
        ...
