"""What is in the store, and how much."""

import shutil
from pathlib import Path

import apsw

from agent_fabric.application.ports.vitals import StoreStatus
from agent_fabric.infrastructure.persistence.observability.store_contents import contents_of
from agent_fabric.infrastructure.persistence.runs.run_locks import SERVER
from agent_fabric.infrastructure.persistence.schema import FORMAT
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

    found = contents_of(connection)
    return StoreStatus(
        path=str(store.path),
        format=FORMAT,
        size_bytes=_size(store.path),
        wal_bytes=_size(store.path.with_name(f"{store.path.name}-wal")),
        unused_bytes=number("PRAGMA freelist_count") * number("PRAGMA page_size"),
        free_bytes=shutil.disk_usage(store.path.parent).free,
        runs=found.runs,
        events=found.events,
        blobs=found.blobs,
        oldest_run_at=found.oldest_run_at,
        served=not store.locks.is_free(SERVER),
        damage=_damage(connection) if check else None,
    )


def _damage(connection: apsw.Connection) -> tuple[str, ...]:
    found = [str(row[0]) for row in connection.execute("PRAGMA quick_check(20)")]
    return () if found == ["ok"] else tuple(found)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
