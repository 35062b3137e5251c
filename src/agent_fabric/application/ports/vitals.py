"""Measures and status of the store and its disk."""

from typing import Protocol

from agent_fabric.domain.dataclass import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreMeasures:
    """Measures of the store."""

    approvals_waiting: int
    oldest_approval_at: float | None
    """When the approval was asked for that waits longest; seconds since 1970."""
    store_bytes: int
    """With what SQLite keeps beside the file."""
    disk_free_bytes: int
    disk_total_bytes: int
    nodes_online: int = 0
    nodes_offline: int = 0
    """Machines of the fleet that are not connected; those that were revoked or have never come do not count."""
    cluster_runs_queued: int = 0
    """Runs in a database of several processes that none of them drives; 0 where a server has the store to itself."""
    clock_skew_s: float = 0.0
    """How far this machine's clock is ahead of the database's; 0 if they are one machine's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreStatus:
    """How the store stands."""

    path: str
    format: int
    size_bytes: int
    wal_bytes: int
    """Committed, but not yet moved into the file."""
    unused_bytes: int
    """Of the file: what was removed from it and will be used again."""
    free_bytes: int
    """Room on the disk."""
    runs: dict[str, int]
    """How many runs there are, by their status."""
    events: int
    blobs: int
    oldest_run_at: float | None
    """When the oldest run began; seconds since 1970."""
    served: bool
    """Whether a server holds it."""
    damage: tuple[str, ...] | None
    """What is wrong with the file; None: it was not checked."""


class StoreGauge(Protocol):
    """Measures the store."""

    def require_in_place(self) -> None:
        """Check that the opened store still exists, opening it if needed: what is written into a deleted one is lost.

        Raises:
            StoreUnavailable: it cannot be opened, or was deleted or replaced.
        """
        ...

    async def status(self, *, check: bool) -> StoreStatus:
        """Return the status of the store; `check` reads all of it, which takes a while.

        Raises:
            StoreUnavailable: it cannot be read.
        """
        ...

    async def measure(self) -> StoreMeasures:
        """Look, without writing.

        Raises:
            StoreUnavailable: it cannot be read.
        """
        ...

    async def try_to_write(self) -> None:
        """Write next to nothing, durably.

        Raises:
            StoreFull, StoreUnavailable: that is not possible, or another program has lifted the file to its format.
        """
        ...
