"""What was recorded about schedules: firings, rules, and the processes that were alive."""

from collections.abc import Sequence
from functools import partial

from agent_fabric.domain.automation.firing import Firing
from agent_fabric.domain.automation.schedule import RuleVersion
from agent_fabric.domain.automation.why import ALIVE_SLACK_S, Life
from agent_fabric.infrastructure.persistence.automation.firing_rows import FIRING_COLUMNS, firing_from
from agent_fabric.infrastructure.persistence.automation.schedules import versions_of
from agent_fabric.infrastructure.persistence.runs.log_writes import OneStatement
from agent_fabric.infrastructure.persistence.sql import Database, SqlConnection, storable

_MAX_NEAR = 200
KEPT_S = 400 * 86_400.0
"""How long is known who was alive."""


class SqlFiringHistory:
    """FiringHistory over the database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def firings(self, trigger: str, *, limit: int, before: float | None = None) -> Sequence[Firing]:
        older = "" if before is None else " AND due_at < ?"
        query = (
            f"SELECT {FIRING_COLUMNS} FROM firings WHERE trigger_name = ?{older}"  # noqa: S608 - ours
            " ORDER BY due_at DESC LIMIT ?"
        )
        values = (storable(trigger), *(() if before is None else (before,)), limit)
        rows = await self._database.read(lambda connection: connection.execute(query, values).fetchall())
        return [firing_from(row) for row in rows]

    async def around(self, trigger: str, at: float, *, within_s: float) -> Sequence[Firing]:
        name, columns = storable(trigger), f"SELECT {FIRING_COLUMNS} FROM firings WHERE trigger_name = ?"  # noqa: S608 - ours
        near = f"{columns} AND due_at <= ? AND due_at >= ? ORDER BY due_at DESC LIMIT ?"
        # Instants that were skipped together do not overlap: the newest row of several is the one that can reach here.
        reaching = f"{columns} AND due_at < ? AND until_at > due_at ORDER BY due_at DESC LIMIT 1"

        def read(connection: SqlConnection) -> list[Firing]:
            rows = connection.execute(near, (name, at, at - within_s, _MAX_NEAR)).fetchall()
            rows += connection.execute(reaching, (name, at - within_s)).fetchall()
            return [found for found in map(firing_from, rows) if found.until_at >= at - within_s]

        return await self._database.read(read)

    async def fired_within(self, trigger: str, since: float, until: float) -> Sequence[float]:
        query = (
            "SELECT due_at FROM firings WHERE trigger_name = ? AND due_at >= ? AND due_at <= ?"
            " AND status IN ('fired', 'queued') ORDER BY due_at"
        )
        values = (storable(trigger), since, until)
        rows = await self._database.read(lambda connection: connection.execute(query, values).fetchall())
        return [float(due_at) for (due_at,) in rows]

    async def versions(self, trigger: str) -> Sequence[RuleVersion]:
        return await self._database.read(partial(versions_of, name=trigger))

    async def lives(self, around: float) -> Sequence[Life]:
        columns = "SELECT server, since, until_at FROM firing_processes WHERE"
        queries = (
            (f"{columns} until_at > since AND since <= ? AND until_at >= ?", (around, around - ALIVE_SLACK_S)),
            (f"{columns} since <= ? AND since >= ? LIMIT 1", (around, around - ALIVE_SLACK_S)),
            (f"{columns} until_at < ? ORDER BY until_at DESC LIMIT 1", (around,)),
            (f"{columns} since > ? ORDER BY since LIMIT 1", (around,)),
        )

        def read(connection: SqlConnection) -> list[Life]:
            rows = [row for query, values in queries for row in connection.execute(query, values).fetchall()]
            return [Life(str(server), float(since), float(until)) for server, since, until in rows]

        return await self._database.read(read)


class SqlHeartbeats:
    """Heartbeats over the database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def beat(self, life_id: str, server: str, since: float, now: float) -> None:
        query = (
            "INSERT INTO firing_processes (id, server, since, until_at) VALUES (?, ?, ?, ?)"
            " ON CONFLICT (id) DO UPDATE SET until_at ="
            " CASE WHEN excluded.until_at > firing_processes.until_at THEN excluded.until_at"
            " ELSE firing_processes.until_at END"
        )

        await self._database.write(OneStatement(query, (life_id, storable(server), since, now)))
        if since == now:
            old = "DELETE FROM firing_processes WHERE until_at < ?"
            await self._database.write(OneStatement(old, (now - KEPT_S,)))
