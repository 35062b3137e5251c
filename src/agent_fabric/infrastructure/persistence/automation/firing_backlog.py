"""Many firings at once: what a list of schedules shows, and what is to be made up for."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from agent_fabric.domain.automation.firing import AskedPerson, Firing, Reason
from agent_fabric.domain.ids import RunId
from agent_fabric.infrastructure.persistence.automation.firing_rows import (
    FIRING_COLUMNS,
    add_firing,
    firing_from,
    make_room,
)
from agent_fabric.infrastructure.persistence.sql import Database, SqlConnection, marks, storable

_CHUNK = 500
"""Names in one `IN (…)`."""


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
        columns = ", ".join(f"firings.{name}" for name in FIRING_COLUMNS.split(", "))

        def read(connection: SqlConnection) -> dict[str, Firing]:
            found: list[Firing] = []
            for names in chunks(triggers):
                # By way of the schedules: one step down the index for each, however long its history is.
                query = (
                    f"SELECT {columns} FROM schedules JOIN firings ON trigger_name = name AND due_at ="  # noqa: S608 - ours
                    " (SELECT max(due_at) FROM firings AS newest WHERE newest.trigger_name = schedules.name)"
                    f" WHERE name IN ({marks(names)})"
                )
                found += map(firing_from, connection.execute(query, names).fetchall())
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
                added += add_firing(connection, firing)
            return added

        return await self._database.write(write)

    async def withdraw(self, trigger: str, *, by: str, now: float) -> int:
        query = (
            "UPDATE firings SET status = 'skipped', reason = ?, about = ?, fired_at = ?"
            " WHERE trigger_name = ? AND status = 'queued' AND reason = ? RETURNING 1"
        )
        values = (Reason.WITHDRAWN, storable(by), now, storable(trigger), Reason.BACKFILL)
        return await self._database.write(lambda connection: len(connection.execute(query, values).fetchall()))
