"""The processes of one PostgreSQL database, read from the tables of processes and runs."""

from typing import Any, Final

from agent_fabric.application.ports.cluster import ClusterStatus, Member, Undrivable
from agent_fabric.domain.cluster.roles import Role
from agent_fabric.domain.errors import WorkerNotFound
from agent_fabric.domain.ids import RunId
from agent_fabric.infrastructure.persistence.postgres.leases import ABLE_TAKERS, ALIVE, POOL_TAKERS, REFUSAL_S, TAKERS
from agent_fabric.infrastructure.persistence.postgres.membership import NOW, reap
from agent_fabric.infrastructure.persistence.postgres.store import PostgresStore
from agent_fabric.infrastructure.persistence.runs.event_rows import this_process
from agent_fabric.infrastructure.persistence.runs.run_locks import SERVER, RunLocks
from agent_fabric.infrastructure.persistence.sql import SqlConnection, storable

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
    return [
        Member(
            worker_id=worker_id,
            name=name,
            role=role,
            state=state,
            home=home,
            slots=slots,
            pools=tuple(filter(None, pools.split(","))),
            version=version,
            started_at=started_at,
            lease_until=lease_until,
            running=running,
        )
        for worker_id, name, role, state, home, slots, pools, version, started_at, lease_until, running in rows
    ]
