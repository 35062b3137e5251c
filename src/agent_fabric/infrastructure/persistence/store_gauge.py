"""Looks at the store as those do who watch the server."""

import shutil

import apsw

from agent_fabric.application.ports.vitals import StoreMeasures
from agent_fabric.domain.errors import StoreUnavailable
from agent_fabric.infrastructure.persistence.database import MIGRATIONS
from agent_fabric.infrastructure.persistence.store import Store

_WAITING = "SELECT count(*), min(created_at) FROM pending_approvals WHERE status = 'pending'"


class SqliteStoreGauge:
    """StoreGauge that reads by one connection and writes by the one that all runs write by."""

    def __init__(self, reading: Store, writing: Store) -> None:
        self._reading = reading
        self._writing = writing

    async def measure(self) -> StoreMeasures:
        self._reading.require_in_place()
        return await self._reading.read(self._measure)

    async def try_to_write(self) -> None:
        self._reading.require_in_place()
        await self._writing.writer.write(_touch)

    def _measure(self, connection: apsw.Connection) -> StoreMeasures:
        ((count, oldest),) = connection.execute(_WAITING).fetchall()
        path = self._reading.path
        try:
            disk = shutil.disk_usage(path.parent)
        except OSError as problem:
            raise StoreUnavailable(f"{path.parent} cannot be looked at: {problem.strerror}") from None
        files = (path, path.with_name(f"{path.name}-wal"))
        return StoreMeasures(
            approvals_waiting=int(str(count)),
            oldest_approval_at=None if oldest is None else float(str(oldest)),
            store_bytes=sum(file.stat().st_size for file in files if file.exists()),
            disk_free_bytes=disk.free,
            disk_total_bytes=disk.total,
        )


def _touch(connection: apsw.Connection) -> None:
    version = connection.execute("PRAGMA user_version").get
    if version != len(MIGRATIONS):
        raise StoreUnavailable(
            f"The store has format {version} by now; this program knows {len(MIGRATIONS)}",
            hint="Restart the server with the version that lifted it.",
        )
    connection.execute(f"PRAGMA user_version = {version}")  # writes a page, and changes nothing
