"""Measures the store for operators, and says what is in it."""

import shutil
from pathlib import Path

import apsw

from agent_fabric.application.ports.vitals import StoreMeasures, StoreStatus
from agent_fabric.infrastructure.persistence.observability.store_contents import (
    NODES_OFFLINE,
    NODES_ONLINE,
    contents_of,
    disk_of,
    require_format,
    waiting_approvals,
)
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


class SqliteStoreGauge:
    """StoreGauge over one SQLite file."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def require_in_place(self) -> None:
        self._store.require_in_place()

    async def status(self, *, check: bool) -> StoreStatus:
        return await read_status(self._store, check=check)

    async def measure(self) -> StoreMeasures:
        self.require_in_place()
        return await self._store.read(self._measure)

    async def try_to_write(self) -> None:
        self.require_in_place()
        await self._store.writer.write(_touch)

    def _measure(self, connection: apsw.Connection) -> StoreMeasures:
        waiting = waiting_approvals(connection)
        path = self._store.path
        disk = disk_of(path.parent)
        files = (path, path.with_name(f"{path.name}-wal"))
        return StoreMeasures(
            approvals_waiting=waiting.number,
            oldest_approval_at=waiting.oldest_at,
            store_bytes=sum(file.stat().st_size for file in files if file.exists()),
            disk_free_bytes=disk.free,
            disk_total_bytes=disk.total,
            nodes_online=connection.execute(NODES_ONLINE).get,
            nodes_offline=connection.execute(NODES_OFFLINE).get,
        )


def _touch(connection: apsw.Connection) -> None:
    version = connection.execute("PRAGMA user_version").get
    require_format(version)
    connection.execute(f"PRAGMA user_version = {version}")  # writes a page, and changes nothing
