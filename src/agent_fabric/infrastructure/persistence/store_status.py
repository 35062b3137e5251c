"""What is in the store, and how much."""

import shutil
from pathlib import Path

import apsw

from agent_fabric.application.ports.vitals import StoreStatus
from agent_fabric.domain.runs.task import RunStatus
from agent_fabric.infrastructure.persistence.run_locks import SERVER
from agent_fabric.infrastructure.persistence.schema import MIGRATIONS
from agent_fabric.infrastructure.persistence.store import Store


async def read_status(store: Store, *, check: bool) -> StoreStatus:
    """Look at the store; with `check`, also through the whole file, which takes a while.

    Raises:
        StoreUnavailable: it cannot be read.
    """
    return await store.read(lambda connection: _status(connection, store, check=check))


def _status(connection: apsw.Connection, store: Store, *, check: bool) -> StoreStatus:
    def number(query: str) -> int:
        return int(str(connection.execute(query).get or 0))

    counted = {str(status): int(str(count)) for status, count in connection.execute(_RUNS)}
    oldest = connection.execute("SELECT created_at FROM runs ORDER BY number LIMIT 1").get
    return StoreStatus(
        path=str(store.path),
        format=len(MIGRATIONS),
        size_bytes=_size(store.path),
        wal_bytes=_size(store.path.with_name(f"{store.path.name}-wal")),
        unused_bytes=number("PRAGMA freelist_count") * number("PRAGMA page_size"),
        free_bytes=shutil.disk_usage(store.path.parent).free,
        runs={status.value: counted.get(status.value, 0) for status in RunStatus},
        events=number("SELECT count(*) FROM events"),
        blobs=number("SELECT count(*) FROM blobs"),
        oldest_run_at=None if oldest is None else float(str(oldest)),
        served=not store.locks.is_free(SERVER),
        damage=_damage(connection) if check else None,
    )


_RUNS = "SELECT status, count(*) FROM runs GROUP BY status"


def _damage(connection: apsw.Connection) -> tuple[str, ...]:
    found = [str(row[0]) for row in connection.execute("PRAGMA quick_check(20)")]
    return () if found == ["ok"] else tuple(found)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
