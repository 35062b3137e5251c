"""What a storage in PostgreSQL does in its own way: connections, leases, measures, backups."""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Final

from agent_fabric.application.ports.clock import Clock
from agent_fabric.application.ports.cluster import Introduction
from agent_fabric.application.ports.leases import RunLeases
from agent_fabric.application.ports.vitals import StoreMeasures, StoreStatus
from agent_fabric.config.store_address import StoreAddress
from agent_fabric.domain.errors import ConfigError
from agent_fabric.infrastructure.clock import AdjustedClock
from agent_fabric.infrastructure.persistence.audit.chain_writer import ChainWriter
from agent_fabric.infrastructure.persistence.observability.snapshot import check_copy, read_sealed_keys
from agent_fabric.infrastructure.persistence.observability.store_contents import (
    contents_of,
    disk_of,
    measure,
    require_format,
)
from agent_fabric.infrastructure.persistence.postgres.cluster import PostgresCluster, PostgresServerRole
from agent_fabric.infrastructure.persistence.postgres.leases import ACQUIRE_LOCK, ALIVE
from agent_fabric.infrastructure.persistence.postgres.store import PostgresStore
from agent_fabric.infrastructure.persistence.runs.run_locks import RunLocks
from agent_fabric.infrastructure.persistence.secrets.sealing import SESSION_KEYS, RunKeys
from agent_fabric.infrastructure.persistence.sql import SqlConnection, marks


class PostgresCopies:
    """StoreCopies that names the program to use instead."""

    def __init__(self, store: PostgresStore, folder: Path) -> None:
        self._store = store
        self._folder = folder

    def require_own(self) -> None:
        raise ConfigError(
            f"The store is {self._store.place}, and PostgreSQL's own programs make its backups",
            hint='Back up: pg_dump --format=custom --file=fabric.dump "$FABRIC_STORE__URL". Restore into an empty '
            'database: pg_restore --dbname="$FABRIC_STORE__URL" fabric.dump. '
            f"Keep a copy of the keys beside it, and of {self._folder}: files of runs, secrets and settings are there.",
        )

    def copy_to(self, target: Path, on_progress: Callable[[float], None]) -> None:  # noqa: ARG002 - of the port
        self.require_own()

    def check(self, copy: Path) -> int:
        return check_copy(copy)

    def sealed_keys(self, copy: Path | None = None) -> list[bytes]:
        if copy is not None:
            return read_sealed_keys(copy)

        def read(connection: SqlConnection) -> list[bytes]:
            rows = [*connection.execute("SELECT key FROM run_keys"), *connection.execute(SESSION_KEYS)]
            return [bytes(key) for (key,) in rows]

        return self._store.read_now(read)

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        self.require_own()
        yield


_SIZE = "SELECT pg_database_size(current_database())"


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
            size_bytes=int(size),
            wal_bytes=0,
            unused_bytes=0,
            free_bytes=disk_of(self._folder).free,
            served=self._leases.is_served(),
            damage=damage,
            **found,
        )

    def _measure(self, connection: SqlConnection) -> StoreMeasures:
        return measure(connection, self._folder, size=_SIZE, clock_skew_s=self._store.membership.skew_s)


def _damage(connection: SqlConnection) -> tuple[str, ...]:
    """Return what PostgreSQL itself has found: pages whose checksums were wrong. Reading everything is amcheck's."""
    query = "SELECT coalesce(checksum_failures, 0) FROM pg_stat_database WHERE datname = current_database()"
    (failures,) = connection.execute(query).fetchone()
    return (f"PostgreSQL has found {failures} pages with wrong checksums",) if failures else ()


def _touch(connection: SqlConnection) -> None:
    (version,) = connection.execute("UPDATE fabric_format SET version = version RETURNING version").fetchone()
    require_format(version)


_HELD: Final = f"SELECT 1 FROM named_locks WHERE name = ? AND holder IN {ALIVE}"  # noqa: S608 - ours


class PostgresLocks:
    """NamedLocks in a PostgreSQL database."""

    def __init__(self, store: PostgresStore) -> None:
        self._store = store
        self._held: dict[str, str] = {}
        """Locks of this process, with the id that it had when it acquired them."""

    async def acquire(self, name: str) -> bool:
        if name in self._held:
            return False
        self._held[name] = ""  # now: others of this process may ask meanwhile

        def acquire(connection: SqlConnection) -> str:
            holder = self._store.membership.worker_id
            return holder if connection.execute(ACQUIRE_LOCK, (name, holder)).fetchone() is not None else ""

        holder = ""
        try:
            holder = await self._store.write(acquire)
        finally:
            if holder:
                self._held[name] = holder
            else:
                del self._held[name]
        return bool(holder)

    async def release(self, name: str) -> None:
        holder = self._held.pop(name, "")
        if holder:
            statement = "DELETE FROM named_locks WHERE name = ? AND holder = ?"
            await self._store.write(lambda connection: connection.execute(statement, (name, holder)))

    async def is_held(self, name: str) -> bool:
        return await self._store.read(lambda connection: connection.execute(_HELD, (name,)).fetchone() is not None)

    async def find_taken(self, names: Sequence[str]) -> Collection[str]:
        # One whose acquisition got no answer may stand there as ours; it can be acquired again.
        query = f"SELECT name FROM named_locks WHERE name IN ({marks(names)}) AND holder <> ? AND holder IN {ALIVE}"  # noqa: S608 - ours
        values = (*names, self._store.membership.present_id)
        found = await self._store.read(lambda connection: connection.execute(query, values).fetchall())
        return {*(str(name) for (name,) in found), *(name for name in names if name in self._held)}


class PostgresParts:
    """The parts of a store in a PostgreSQL database."""

    def __init__(
        self,
        address: StoreAddress,
        folder: Path,
        keys: RunKeys,
        chain: ChainWriter,
        introduction: Introduction | None = None,
    ) -> None:
        """Connect to nothing yet.

        Raises:
            StoreUnavailable: the address cannot be read.
        """
        self._folder = folder
        self.database = PostgresStore(address.url, keys=keys, chain=chain, pool=address.pool, introduction=introduction)
        self.leases = PostgresServerRole(self.database, RunLocks(folder / "locks"))
        self.cluster = PostgresCluster(self.database)

    def shared_clock(self, clock: Clock) -> Clock:
        membership = self.database.membership
        return AdjustedClock(clock, lambda: membership.ahead_s)

    @cached_property
    def agent_locks(self) -> PostgresLocks:
        return PostgresLocks(self.database)

    @cached_property
    def gauge(self) -> PostgresGauge:
        return PostgresGauge(self.database, self._folder, self.leases)

    @cached_property
    def copies(self) -> PostgresCopies:
        return PostgresCopies(self.database, self._folder)

    def close(self) -> None:
        self.database.close()
