"""The tables of firings and of the processes that were alive: what was recorded, what a list shows, what is made up."""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from agent_fabric.domain.automation.firing import AskedPerson, Firing, FiringStatus, Reason
from agent_fabric.domain.automation.schedule import RuleVersion
from agent_fabric.domain.automation.why import ALIVE_SLACK_S, Life
from agent_fabric.domain.ids import RunId
from agent_fabric.infrastructure.persistence.automation.schedules import FIRINGS, versions_of
from agent_fabric.infrastructure.persistence.runs.log_writes import OneStatement
from agent_fabric.infrastructure.persistence.sql import Database, SqlConnection, marks, storable

_MAX_NEAR: Final = 200
KEPT_S: Final = 400 * 86_400.0
"""How long is known who was alive."""
_CHUNK: Final = 500
"""Names in one `IN (…)`."""


def make_room(connection: SqlConnection, firing: Firing) -> None:
    """Let an instant that was skipped be fired after all; of several that were skipped together, the others stay so."""
    place = (storable(firing.trigger), firing.due_at)
    alone = "trigger_name = ? AND due_at = ? AND status = 'skipped' AND count = 1"
    FIRINGS.delete(connection, alone, *place)
    connection.execute(
        "UPDATE firings SET due_at = due_at + 0.001, count = count - 1"
        " WHERE trigger_name = ? AND due_at = ? AND status = 'skipped' AND count > 1",
        place,
    )


class SqlFiringHistory:
    """FiringHistory over the database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def firings(self, trigger: str, *, limit: int, before: float | None = None) -> Sequence[Firing]:
        older = "" if before is None else " AND due_at < ?"
        rest = f"WHERE trigger_name = ?{older} ORDER BY due_at DESC LIMIT ?"
        values = (trigger, limit) if before is None else (trigger, before, limit)
        return await FIRINGS.within(self._database).rows(rest, *values)

    async def around(self, trigger: str, at: float, *, within_s: float) -> Sequence[Firing]:
        near = "WHERE trigger_name = ? AND due_at <= ? AND due_at >= ? ORDER BY due_at DESC LIMIT ?"
        # Instants that were skipped together do not overlap: the newest row of several is the one that can reach here.
        reaching = "WHERE trigger_name = ? AND due_at < ? AND until_at > due_at ORDER BY due_at DESC LIMIT 1"

        def read(connection: SqlConnection) -> list[Firing]:
            found = FIRINGS.rows(connection, near, trigger, at, at - within_s, _MAX_NEAR)
            found += FIRINGS.rows(connection, reaching, trigger, at - within_s)
            return [each for each in found if each.until_at >= at - within_s]

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


def chunks(names: Sequence[str]) -> Iterable[tuple[str, ...]]:
    """Return names in parts that fit into one query."""
    for start in range(0, len(names), _CHUNK):
        yield tuple(storable(name) for name in names[start : start + _CHUNK])


def count_queued(connection: SqlConnection, triggers: Sequence[str], *, without: str = "-") -> dict[str, int]:
    """Return how many firings of triggers wait, but for those that wait for the reason `without`."""
    found: dict[str, int] = {}
    for names in chunks(triggers):
        query = (
            "SELECT trigger_name, count(*) FROM firings WHERE status = 'queued'"  # noqa: S608 - ours
            f" AND trigger_name IN ({marks(names)}) AND reason <> ? GROUP BY trigger_name"
        )
        rows = connection.execute(query, (*names, without)).fetchall()
        found |= {str(name): int(count) for name, count in rows}
    return found


class SqlFiringOverview:
    """FiringOverview over the database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def newest(self, triggers: Sequence[str]) -> Mapping[str, Firing]:
        columns = ", ".join(f"firings.{name}" for name in FIRINGS.columns)

        def read(connection: SqlConnection) -> dict[str, Firing]:
            found: list[Firing] = []
            for names in chunks(triggers):
                # By way of the schedules: one step down the index for each, however long its history is.
                query = (
                    f"SELECT {columns} FROM schedules JOIN firings ON trigger_name = name AND due_at ="  # noqa: S608 - ours
                    " (SELECT max(due_at) FROM firings AS newest WHERE newest.trigger_name = schedules.name)"
                    f" WHERE name IN ({marks(names)})"
                )
                found += map(FIRINGS.load, connection.execute(query, names).fetchall())
            return {each.trigger: each for each in found}

        return await self._database.read(read)

    async def waiting(self, triggers: Sequence[str]) -> Mapping[str, int]:
        return await self._database.read(lambda connection: count_queued(connection, triggers))

    async def asked(self, triggers: Sequence[str] | None = None) -> Mapping[str, AskedPerson]:
        def read(connection: SqlConnection) -> dict[str, AskedPerson]:
            found: dict[str, AskedPerson] = {}
            for names in [()] if triggers is None else chunks(triggers):
                which = "" if triggers is None else f" AND trigger_name IN ({marks(names)})"
                under_way = f"firings.status = 'fired' AND firings.outcome = ''{which}"
                query = _QUESTIONS.format(top=under_way) + " WHERE asked.status = 'pending'" + _OLDEST_FIRST
                for trigger, *question in connection.execute(query, names).fetchall():
                    found.setdefault(str(trigger), _asked(question))
            return found

        return await self._database.read(read)

    async def questions(self, run_id: RunId) -> Sequence[AskedPerson]:
        query = _QUESTIONS.format(top="firings.run_id = ?") + _OLDEST_FIRST
        rows = await self._database.read(lambda connection: connection.execute(query, (storable(run_id),)).fetchall())
        return [_asked(question) for _, *question in rows]


_QUESTIONS = (
    "WITH RECURSIVE below (trigger_name, run_id, number) AS ("
    "SELECT firings.trigger_name, firings.run_id, runs.number FROM firings"
    " JOIN runs ON runs.run_id = firings.run_id WHERE {top}"
    " UNION ALL SELECT below.trigger_name, below.run_id, runs.number FROM below"
    " JOIN runs ON runs.parent = below.number)"
    " SELECT below.trigger_name, below.run_id, asked.id, asked.created_at, asked.expires_at, asked.decided_at,"
    " asked.decided_by FROM below JOIN pending_approvals AS asked ON asked.run = below.number"
)
_OLDEST_FIRST = " ORDER BY asked.created_at, asked.id"


def _asked(row: Sequence[Any]) -> AskedPerson:
    run_id, approval_id, since, expires_at, decided_at, decided_by = row
    at = None if decided_at is None else float(decided_at)
    return AskedPerson(RunId(str(run_id)), str(approval_id), float(since), float(expires_at), at, str(decided_by))


class SqlBacklog:
    """Backlog over the database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, firings: Sequence[Firing]) -> int:
        def write(connection: SqlConnection) -> int:
            added = 0
            for firing in firings:
                make_room(connection, firing)
                added += FIRINGS.add(connection, firing)
            return added

        return await self._database.write(write)

    async def withdraw(self, trigger: str, *, by: str, now: float) -> int:
        withdrawn = {"status": FiringStatus.SKIPPED, "reason": Reason.WITHDRAWN, "about": by, "fired_at": now}
        where = "trigger_name = ? AND status = 'queued' AND reason = ?"
        return await FIRINGS.within(self._database).update(withdrawn, where, trigger, Reason.BACKFILL)
