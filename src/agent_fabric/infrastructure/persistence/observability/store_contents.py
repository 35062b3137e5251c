"""What is in a store, and how much: the part of its measures that all databases tell in the same way."""

import shutil
from pathlib import Path
from typing import Any

from agent_fabric.application.ports.vitals import StoreMeasures
from agent_fabric.domain.errors import StoreUnavailable
from agent_fabric.domain.runs.task import RunStatus
from agent_fabric.infrastructure.persistence.schema import FORMAT
from agent_fabric.infrastructure.persistence.sql import SqlConnection


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


def measure(connection: SqlConnection, folder: Path, *, size: int | str, clock_skew_s: float = 0.0) -> StoreMeasures:
    """Measure a store, whose size is given or asked for in SQL; `folder` is on the disk that may become full.

    Raises:
        StoreUnavailable: the disk cannot be looked at.
    """
    waiting, oldest_at, store_bytes, online, offline = connection.execute(
        f"SELECT count(*), min(created_at), ({size}),"  # noqa: S608 - ours
        " (SELECT count(*) FROM agents WHERE status = 'online'),"
        " (SELECT count(*) FROM agents WHERE status = 'offline' AND last_seen IS NOT NULL)"
        " FROM pending_approvals WHERE status = 'pending'"
    ).fetchone()
    disk = disk_of(folder)
    return StoreMeasures(
        approvals_waiting=int(waiting),
        oldest_approval_at=None if oldest_at is None else float(oldest_at),
        store_bytes=int(store_bytes),
        disk_free_bytes=disk.free,
        disk_total_bytes=disk.total,
        nodes_online=int(online),
        nodes_offline=int(offline),
        clock_skew_s=clock_skew_s,
    )


def contents_of(connection: SqlConnection) -> dict[str, Any]:
    """Count what is in the tables; return fields of `StoreStatus`."""
    rows = connection.execute("SELECT status, count(*) FROM runs GROUP BY status")
    counted = {str(status): int(count) for status, count in rows}
    (events,) = connection.execute("SELECT count(*) FROM events").fetchone()
    (blobs,) = connection.execute("SELECT count(*) FROM blobs").fetchone()
    oldest = connection.execute("SELECT created_at FROM runs ORDER BY number LIMIT 1").fetchone()
    return {
        "format": FORMAT,
        "runs": {status.value: counted.get(status.value, 0) for status in RunStatus},
        "events": int(events),
        "blobs": int(blobs),
        "oldest_run_at": None if oldest is None else float(oldest[0]),
    }
