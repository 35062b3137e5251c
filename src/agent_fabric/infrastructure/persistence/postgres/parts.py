"""What a storage in PostgreSQL does in its own way: leases, measures, backups, the processes that share it."""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from agent_fabric.application.ports.clock import Clock
from agent_fabric.application.ports.cluster import ClusterStatus, Introduction, Member, Undrivable
from agent_fabric.application.ports.leases import RunLeases
from agent_fabric.application.ports.vitals import StoreMeasures, StoreStatus
from agent_fabric.config.store_address import StoreAddress
from agent_fabric.domain.cluster.roles import Role
from agent_fabric.domain.errors import ConfigError, WorkerNotFound
from agent_fabric.domain.ids import RunId
from agent_fabric.infrastructure.clock import AdjustedClock
from agent_fabric.infrastructure.persistence.audit.chain_writer import ChainWriter
from agent_fabric.infrastructure.persistence.observability.snapshot import check_copy, read_sealed_keys
from agent_fabric.infrastructure.persistence.observability.store_contents import (
    contents_of,
    disk_of,
    measure,
    require_format,
)
from agent_fabric.infrastructure.persistence.postgres.leases import (
    ABLE_TAKERS,
    ACQUIRE_LOCK,
    ALIVE,
    POOL_TAKERS,
    REFUSAL_S,
    TAKERS,
)
from agent_fabric.infrastructure.persistence.postgres.membership import NOW, reap
from agent_fabric.infrastructure.persistence.postgres.store import PostgresStore
from agent_fabric.infrastructure.persistence.runs.run_leases import this_process
from agent_fabric.infrastructure.persistence.runs.run_locks import SERVER, RunLocks
from agent_fabric.infrastructure.persistence.secrets.sealing import SESSION_KEYS, RunKeys
from agent_fabric.infrastructure.persistence.sql import SqlConnection, marks, storable
from agent_fabric.infrastructure.persistence.table import Codec, Table, fetch

_WORKERS: Final = Table(
    "workers",
    Member,
    key="id",
    renamed={"worker_id": "id"},
    pools=Codec(lambda stored: tuple(filter(None, stored.split(",")))),
)
_MEMBERS: Final = (
    "SELECT id, name, role, CASE WHEN state <> 'gone' AND lease_until < {now} THEN 'gone' ELSE state END, home, slots,"
    " pools, version, started_at, lease_until,"
    " (SELECT count(*) FROM runs WHERE driver = workers.id AND status = 'running')"
    " FROM workers WHERE {which} ORDER BY started_at, id"
)
_LISTED: Final = f"id IN {ALIVE} OR EXISTS (SELECT 1 FROM runs WHERE driver = workers.id AND status = 'running')"  # noqa: S608 - ours
_QUEUED: Final = f"SELECT count(*) FROM runs WHERE status = 'running' AND driver NOT IN {ALIVE}"  # noqa: S608 - ours
_WAITING: Final = "SELECT count(*) FROM runs WHERE status = 'waiting'"
_LACKING: Final = (
    f"CASE WHEN NOT EXISTS ({TAKERS}) THEN 'no worker has their workspaces'"  # noqa: S608 - ours
    f" WHEN NOT EXISTS ({POOL_TAKERS}) THEN 'no worker takes up runs of their pool'"
    " ELSE (SELECT 'every worker lacks ' || refusals.reason FROM refusals WHERE refusals.run = runs.number"
    " ORDER BY refused_at DESC LIMIT 1) END"
)
_UNDRIVABLE: Final = (
    "SELECT home, pool, count(*), lacking, min(run_id) FROM"  # noqa: S608 - ours
    f" (SELECT home, pool, run_id, {_LACKING} AS lacking FROM runs WHERE status = 'running' AND driver NOT IN {ALIVE}"
    f" AND NOT EXISTS ({ABLE_TAKERS})) AS left_over GROUP BY home, pool, lacking ORDER BY home, pool, lacking LIMIT ?"
)
MAX_UNDRIVABLE: Final = 50
"""Kinds of runs that no one can drive which are listed."""
_REFUSE: Final = (
    "INSERT INTO refusals (run, worker, reason, refused_at)"  # noqa: S608 - ours
    f" SELECT number, ?, ?, {NOW} FROM runs WHERE run_id = ?"
    " ON CONFLICT (run, worker) DO UPDATE SET reason = excluded.reason, refused_at = excluded.refused_at"
)
_FORGET_REFUSALS: Final = f"DELETE FROM refusals WHERE refused_at < {NOW} - {REFUSAL_S}"  # noqa: S608 - ours


class PostgresCluster:
    """Cluster over a PostgreSQL database."""

    def __init__(self, store: PostgresStore) -> None:
        self._store = store

    async def status(self) -> ClusterStatus:
        def read(connection: SqlConnection) -> ClusterStatus:
            connection.execute(self._store.dialect.begin_snapshot)
            (now,) = connection.execute(f"SELECT {NOW}").fetchone()
            members = _members(connection, _LISTED)
            (queued,) = connection.execute(_QUEUED).fetchone()
            (waiting,) = connection.execute(_WAITING).fetchone()
            left = [
                Undrivable(home=home, pool=pool, runs=runs, reason=reason, run_id=RunId(run_id))
                for home, pool, runs, reason, run_id in connection.execute(_UNDRIVABLE, (MAX_UNDRIVABLE,))
            ]
            connection.execute("COMMIT")
            return ClusterStatus(
                now=float(now),
                home=self._store.membership.home,
                members=members,
                queued=queued,
                waiting=waiting,
                undrivable=left,
            )

        return await self._store.read(read)

    async def drain(self, prefix: str) -> Member:
        def write(connection: SqlConnection) -> Member:
            reap(connection)
            found = [each for each in _members(connection, f"id IN {ALIVE}") if each.worker_id.startswith(prefix)]
            if not prefix or len(found) != 1:
                many = "More than one process begins" if prefix and found else "No living process begins"
                raise WorkerNotFound(f"{many} with {prefix!r}", hint="See all of them with `fabric cluster status`.")
            connection.execute("UPDATE workers SET state = 'draining' WHERE id = ?", (found[0].worker_id,))
            return _members(connection, "id = ?", found[0].worker_id)[0]

        return await self._store.write(write)

    async def refuse(self, run_id: RunId, reason: str) -> None:
        def write(connection: SqlConnection) -> None:
            connection.execute(_FORGET_REFUSALS)
            connection.execute(_REFUSE, (self.worker_id, storable(reason), run_id))

        await self._store.write(write)

    @property
    def worker_id(self) -> str:
        return self._store.membership.worker_id

    @property
    def drains(self) -> bool:
        return self._store.membership.drains


class PostgresServerRole:
    """RunLeases over a PostgreSQL database. Any number of servers share it; one of each folder can be found there."""

    def __init__(self, store: PostgresStore, locks: RunLocks) -> None:
        self._store = store
        self._locks = locks

    @property
    def driver(self) -> str:
        return self._store.membership.introduction.name or this_process()

    def claim_server(self) -> bool:
        said = self._store.membership.introduction.role
        self._store.membership.take_role(Role.SERVER if said is Role.PROCESS else said)
        return self._locks.acquire(SERVER)

    def release_server(self) -> None:
        self._locks.release(SERVER)
        self._store.membership.leave_role()

    def is_served(self) -> bool:
        query = f"SELECT 1 FROM workers WHERE id IN {ALIVE} AND role IN (?, ?)"  # noqa: S608 - ours
        takers = (Role.SERVER, Role.WORKER)
        return self._store.read_now(lambda connection: connection.execute(query, takers).fetchone()) is not None


def _members(connection: SqlConnection, which: str, *values: Any) -> list[Member]:
    rows = connection.execute(_MEMBERS.format(now=NOW, which=which), values)
    return [*map(_WORKERS.load, rows)]


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
        measured = measure(connection, self._folder, size=_SIZE, clock_skew_s=self._store.membership.skew_s)
        (queued,) = connection.execute(_QUEUED).fetchone()
        return replace(measured, cluster_runs_queued=int(queued))


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
        return bool(await fetch(self._store, _HELD, name))

    async def find_taken(self, names: Sequence[str]) -> Collection[str]:
        # One whose acquisition got no answer may stand there as ours; it can be acquired again.
        query = f"SELECT name FROM named_locks WHERE name IN ({marks(names)}) AND holder <> ? AND holder IN {ALIVE}"  # noqa: S608 - ours
        found = await fetch(self._store, query, *names, self._store.membership.present_id)
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
