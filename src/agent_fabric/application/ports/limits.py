"""How often somebody may ask, seen from the doors of the server."""

from typing import NamedTuple, Protocol


class Rate(NamedTuple):
    """So many in such a time."""

    amount: int
    per_s: int


class Standing(NamedTuple):
    """How much is left of a rate."""

    allowed: bool
    remaining: int
    """How many more may follow before the time is over."""
    reset_s: float
    """Seconds until everything is allowed again."""


class Limiter(Protocol):
    """Counts what happens under a key. However many keys there are, it takes only so much memory."""

    async def hit(self, key: str, rate: Rate, *, cost: int = 1) -> Standing:
        """Count one more, and tell whether it is still within the rate; a `cost` of -1 gives one back."""
        ...

    async def look(self, key: str, rate: Rate) -> Standing:
        """Tell whether one more would be within the rate; nothing is counted."""
        ...
