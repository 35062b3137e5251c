"""Measures the store for operators, and says what is in it."""

import shutil
from pathlib import Path

import apsw

from agent_fabric.application.ports.vitals import StoreMeasures, StoreStatus
from agent_fabric.infrastructure.persistence.observability.store_contents import (
    contents_of,
    measure,
    require_format,
)
from agent_fabric.infrastructure.persistence.runs.run_locks import SERVER
from agent_fabric.infrastructure.persistence.store import Store


def _status(connection: apsw.Connection, store: Store, *, check: bool) -> StoreStatus:
    def number(query: str) -> int:
        return int(str(connection.execute(query).get or 0))

    return StoreStatus(
        path=str(store.path),
        size_bytes=_size(store.path),
        wal_bytes=_size(store.path.with_name(f"{store.path.name}-wal")),
        unused_bytes=number("PRAGMA freelist_count") * number("PRAGMA page_size"),
        free_bytes=shutil.disk_usage(store.path.parent).free,
        served=not store.locks.is_free(SERVER),
        damage=_damage(connection) if check else None,
        **contents_of(connection),
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
        return await self._store.read(lambda connection: _status(connection, self._store, check=check))

    async def measure(self) -> StoreMeasures:
        self.require_in_place()
        return await self._store.read(self._measure)

    async def try_to_write(self) -> None:
        self.require_in_place()
        await self._store.writer.write(_touch)

    def _measure(self, connection: apsw.Connection) -> StoreMeasures:
        path = self._store.path
        return measure(connection, path.parent, size=_size(path) + _size(path.with_name(f"{path.name}-wal")))


def _touch(connection: apsw.Connection) -> None:
    version = connection.execute("PRAGMA user_version").get
    require_format(version)
    connection.execute(f"PRAGMA user_version = {version}")  # writes a page, and changes nothing
