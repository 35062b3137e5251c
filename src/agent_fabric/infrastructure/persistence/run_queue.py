"""The runs that a server takes up, read from the tables of runs, inboxes and approvals."""

from collections.abc import Sequence
from functools import partial

from agent_fabric.application.ports.clock import Clock
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.task import RunStatus
from agent_fabric.infrastructure.persistence.sql import Condition, Database, SqlConnection


class SqlRunQueue:
    """RunQueue over the store."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def unfinished(self, *, limit: int | None = None) -> Sequence[RunId]:
        free = self._database.leases.free
        return await self._database.read(
            partial(self._tried, limit=limit) if free is None else partial(_known, free=free, limit=limit)
        )

    def _tried(self, connection: SqlConnection, limit: int | None) -> list[RunId]:
        """Return what is free, where each run has to be tried."""
        query = "SELECT number, run_id, parent FROM runs WHERE status = ? ORDER BY number"
        rows = connection.execute(query, (RunStatus.RUNNING,)).fetchall()
        free = [row for row in rows if self._database.leases.is_abandoned(connection, int(str(row[0])))]
        numbers = {number for number, _, _ in free}
        return [RunId(str(run_id)) for _, run_id, parent in free if parent not in numbers][:limit]

    async def due(self) -> Sequence[RunId]:
        due = due_runs(self._database.leases.free or Condition("1 = 1", ()), self._clock.now())
        return await self._database.read(
            lambda connection: [RunId(str(run_id)) for (run_id,) in connection.execute(due.sql, due.values)]
        )


def free_runs(free: Condition) -> Condition:
    """Return the query for runs that have to be driven, where the database knows which are free; oldest first.

    A child of one of them is left out.
    """
    query = (
        f"SELECT run_id FROM runs WHERE status = 'running' AND {free.sql} AND NOT EXISTS (SELECT 1 FROM runs AS above"  # noqa: S608 - ours
        f" WHERE above.number = runs.parent AND above.status = 'running' AND {free.sql}) ORDER BY number"
    )
    return Condition(query, (*free.values, *free.values))


def due_runs(free: Condition, now: float) -> Condition:
    """Return the query for waiting runs that can go on. Each part has an index: runs that only wait cost nothing."""
    waiting = f"SELECT run_id FROM runs WHERE status = 'waiting' AND {free.sql}"  # noqa: S608 - ours
    query = (
        f"{waiting} AND number IN (SELECT run FROM inbox)"  # noqa: S608 - as above
        f" UNION {waiting} AND number IN"
        " (SELECT run FROM pending_approvals WHERE status = 'pending' AND expires_at <= ?)"
        f" UNION {waiting} AND wake_at <= ?"
    )
    return Condition(query, (*free.values, *free.values, now, *free.values, now))


def _known(connection: SqlConnection, free: Condition, limit: int | None) -> list[RunId]:
    """Return what is free, where the database knows."""
    query, values = free_runs(free)
    if limit is not None:
        query, values = f"{query} LIMIT ?", (*values, limit)
    return [RunId(str(run_id)) for (run_id,) in connection.execute(query, values)]
