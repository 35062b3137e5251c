"""Measures a store in PostgreSQL for operators."""

import shutil
from pathlib import Path

from agent_fabric.application.ports.leases import RunLeases
from agent_fabric.application.ports.vitals import StoreMeasures, StoreStatus
from agent_fabric.domain.errors import StoreUnavailable
from agent_fabric.infrastructure.persistence.observability.store_contents import (
    NODES_OFFLINE,
    NODES_ONLINE,
    contents_of,
)
from agent_fabric.infrastructure.persistence.postgres.store import PostgresStore
from agent_fabric.infrastructure.persistence.schema import FORMAT
from agent_fabric.infrastructure.persistence.sql import SqlConnection

_SIZE = "SELECT pg_database_size(current_database())"
_MEASURES = (
    f"SELECT count(*), min(created_at), ({_SIZE}), ({NODES_ONLINE}), ({NODES_OFFLINE})"  # noqa: S608 - ours
    " FROM pending_approvals WHERE status = 'pending'"
)


class PostgresGauge:
    """StoreGauge over a PostgreSQL database. The disk is that of the fabric folder, where the files of runs are."""

    def __init__(self, store: PostgresStore, folder: Path, leases: RunLeases) -> None:
        self._store = store
        self._folder = folder
        self._leases = leases
        self._was_reached = False

    def require_in_place(self) -> None:
        # A file can be deleted unseen. A database that is gone fails whatever uses it, so one look is enough.
        if not self._was_reached:
            self._store.read_now(lambda _: None)
            self._was_reached = True

    async def status(self, *, check: bool) -> StoreStatus:
        return await self._store.read(lambda connection: self._status(connection, check=check))

    async def measure(self) -> StoreMeasures:
        return await self._store.read(self._measure)

    async def try_to_write(self) -> None:
        await self._store.writer.write(_touch)

    def _status(self, connection: SqlConnection, *, check: bool) -> StoreStatus:
        connection.execute(self._store.dialect.begin_snapshot)
        found = contents_of(connection)
        (size,) = connection.execute(_SIZE).fetchone()
        damage = _damage(connection) if check else None
        connection.execute("COMMIT")
        return StoreStatus(
            path=self._store.place,
            format=FORMAT,
            size_bytes=int(size),
            wal_bytes=0,
            unused_bytes=0,
            free_bytes=self._disk().free,
            runs=found.runs,
            events=found.events,
            blobs=found.blobs,
            oldest_run_at=found.oldest_run_at,
            served=self._leases.is_served(),
            damage=damage,
        )

    def _measure(self, connection: SqlConnection) -> StoreMeasures:
        waiting, oldest_at, size, online, offline = connection.execute(_MEASURES).fetchone()
        disk = self._disk()
        return StoreMeasures(
            approvals_waiting=int(waiting),
            oldest_approval_at=None if oldest_at is None else float(oldest_at),
            store_bytes=int(size),
            disk_free_bytes=disk.free,
            disk_total_bytes=disk.total,
            nodes_online=int(online),
            nodes_offline=int(offline),
            clock_skew_s=self._store.membership.skew_s,
        )

    def _disk(self) -> "shutil._ntuple_diskusage":
        try:
            return shutil.disk_usage(self._folder)
        except OSError as problem:
            raise StoreUnavailable(f"{self._folder} cannot be looked at: {problem.strerror}") from None


def _damage(connection: SqlConnection) -> tuple[str, ...]:
    """Return what PostgreSQL itself has found: pages whose checksums were wrong. Reading everything is amcheck's."""
    query = "SELECT coalesce(checksum_failures, 0) FROM pg_stat_database WHERE datname = current_database()"
    (failures,) = connection.execute(query).fetchone()
    return (f"PostgreSQL has found {failures} pages with wrong checksums",) if failures else ()


def _touch(connection: SqlConnection) -> None:
    (version,) = connection.execute("UPDATE fabric_format SET version = version RETURNING version").fetchone()
    if version != FORMAT:
        raise StoreUnavailable(
            f"The store has format {version} by now; this program knows {FORMAT}",
            hint="Restart the server with the version that lifted it.",
        )
