"""What counts, whatever it is kept in."""

from typing import NamedTuple, Protocol


class Count(NamedTuple):
    """How often something has happened in its time."""

    hits: int
    expires_at: float
    """When the time is over, in seconds since 1970."""


class Counters(Protocol):
    """Counts under keys, each for a time that begins with its first hit. Nothing here waits for a disk."""

    def add(self, key: str, per_s: int, amount: int) -> Count:
        """Count `amount` more under a key whose time is `per_s`, and return what that makes; never below zero."""
        ...

    def get(self, key: str) -> Count:
        """Return what has been counted under a key."""
        ...

    def forget(self, key: str) -> None:
        """Begin anew."""
        ...

    async def aclose(self) -> None:
        """Keep what is to be kept."""
        ...
