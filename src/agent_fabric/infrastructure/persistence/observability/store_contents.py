"""What is in a store, and how much: the part of its status that all databases tell in the same way."""

import shutil
from pathlib import Path
from typing import Final, NamedTuple

from agent_fabric.domain.errors import StoreUnavailable
from agent_fabric.domain.runs.task import RunStatus
from agent_fabric.infrastructure.persistence.schema import FORMAT
from agent_fabric.infrastructure.persistence.sql import SqlConnection


class Waiting(NamedTuple):
    """The approvals that wait for an answer."""

    number: int
    oldest_at: float | None


class Contents(NamedTuple):
    """The rows of a store, counted."""

    runs: dict[str, int]
    """By status."""
    events: int
    blobs: int
    oldest_run_at: float | None


def require_format(version: object) -> None:
    """Check that the store still has the format that this program knows.

    Raises:
        StoreUnavailable: another program has lifted it.
    """
    if version != FORMAT:
        raise StoreUnavailable(
            f"The store has format {version} by now; this program knows {FORMAT}",
            hint="Restart the server with the version that lifted it.",
        )


def disk_of(folder: Path) -> "shutil._ntuple_diskusage":
    """Return how full the disk is that holds a folder.

    Raises:
        StoreUnavailable: it cannot be looked at.
    """
    try:
        return shutil.disk_usage(folder)
    except OSError as problem:
        raise StoreUnavailable(f"{folder} cannot be looked at: {problem.strerror}") from None


NODES_ONLINE: Final = "SELECT count(*) FROM agents WHERE status = 'online'"
NODES_OFFLINE: Final = "SELECT count(*) FROM agents WHERE status = 'offline' AND last_seen IS NOT NULL"


def waiting_approvals(connection: SqlConnection) -> Waiting:
    """Count the approvals that wait for an answer."""
    query = "SELECT count(*), min(created_at) FROM pending_approvals WHERE status = 'pending'"
    count, oldest = connection.execute(query).fetchone()
    return Waiting(int(count), None if oldest is None else float(oldest))


def contents_of(connection: SqlConnection) -> Contents:
    """Count what is in the tables."""
    counted = {
        str(status): int(count)
        for status, count in connection.execute("SELECT status, count(*) FROM runs GROUP BY status")
    }
    (events,) = connection.execute("SELECT count(*) FROM events").fetchone()
    (blobs,) = connection.execute("SELECT count(*) FROM blobs").fetchone()
    oldest = connection.execute("SELECT created_at FROM runs ORDER BY number LIMIT 1").fetchone()
    return Contents(
        runs={status.value: counted.get(status.value, 0) for status in RunStatus},
        events=int(events),
        blobs=int(blobs),
        oldest_run_at=None if oldest is None else float(oldest[0]),
    )
