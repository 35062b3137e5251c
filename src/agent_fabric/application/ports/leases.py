"""Leases and locks that all processes of one store respect."""

from collections.abc import Collection, Sequence
from enum import StrEnum
from typing import Protocol


class Before(StrEnum):
    """What became of the previous driver of a run."""

    NOBODY = "nobody"
    """It has never been driven: it was only created."""
    RELEASED = "released"
    """They released it in order, with nothing under way."""
    UNKNOWN = "unknown"
    """They died, or no one can tell."""


class RunLeases(Protocol):
    """Which processes drive runs. A lease ends with the process that holds it, however that ends."""

    @property
    def driver(self) -> str:
        """The name of this process, as other processes show it for the runs that it drives."""
        ...

    def claim_server(self) -> bool:
        """Claim the role of the server, which takes up runs by itself; False if another process has it."""
        ...

    def release_server(self) -> None:
        """Give the role of the server back."""
        ...

    def is_served(self) -> bool:
        """Tell whether a server takes up runs, so that an answer is enough for a run to continue."""
        ...


class NamedLocks(Protocol):
    """Mutual exclusion by name, between tasks and processes. A lock ends with the process that holds it."""

    async def acquire(self, name: str) -> bool:
        """Acquire a lock without waiting for it; False if it is held, also by this process."""
        ...

    async def release(self, name: str) -> None:
        """Release a lock that this process holds."""
        ...

    async def is_held(self, name: str) -> bool:
        """Tell whether a process holds a lock, this one included."""
        ...

    async def find_taken(self, names: Sequence[str]) -> Collection[str]:
        """Return those locks that cannot be acquired now, with one look for all of them."""
        ...
