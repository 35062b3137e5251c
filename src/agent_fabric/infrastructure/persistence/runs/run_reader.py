"""Reads single runs: their status, and their events page by page."""

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from agent_fabric.application.ports.runs import Progress
from agent_fabric.domain.events import Event
from agent_fabric.domain.ids import LaneId, RunId
from agent_fabric.domain.runs.task import RunStatus
from agent_fabric.infrastructure.persistence.runs.event_bodies import body_reader, readable
from agent_fabric.infrastructure.persistence.runs.event_rows import known_status, locate, number_of, recorded_status
from agent_fabric.infrastructure.persistence.secrets.sealing import RunKeys
from agent_fabric.infrastructure.persistence.sql import Database, RunNumberLeases, SqlConnection, marks

AT_ONCE: Final = 500
"""Runs that are looked up with one query."""


class SqlRunReader:
    """RunReader over the database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def status(self, run_id: RunId) -> RunStatus:
        leases = self._database.leases
        return await self._database.read(
            lambda connection: status_of(connection, leases, number_of(connection, run_id))
        )

    async def page(self, run_id: RunId, *, after: int, limit: int, whole: bool = True) -> Sequence[Event]:
        keys = self._database.keys
        return await self._database.read(
            lambda connection: _events(
                connection, keys, run_id, "AND seq > ? ORDER BY seq LIMIT ?", after, limit, whole=whole
            )
        )

    async def newest(self, run_id: RunId) -> Event:
        keys = self._database.keys
        (event,) = await self._database.read(
            lambda connection: _events(connection, keys, run_id, "ORDER BY seq DESC LIMIT 1")
        )
        return event

    async def progress(self, run_ids: Collection[RunId]) -> Mapping[RunId, Progress]:
        leases, wanted = self._database.leases, list(run_ids)

        def read(connection: SqlConnection) -> dict[RunId, Progress]:
            found: dict[RunId, Progress] = {}
            for first in range(0, len(wanted), AT_ONCE):
                found |= _progress(connection, leases, wanted[first : first + AT_ONCE])
            return found

        return await self._database.read(read) if wanted else {}


def _progress(connection: SqlConnection, leases: RunNumberLeases, wanted: Sequence[RunId]) -> dict[RunId, Progress]:
    abandoned = leases.abandoned
    query = (
        f"SELECT run_id, number, status, {'0 = 1' if abandoned is None else abandoned.sql},"  # noqa: S608 - ours
        f" (SELECT max(seq) FROM events WHERE run = number) FROM runs WHERE run_id IN ({marks(wanted)})"
    )
    values = (*(abandoned.values if abandoned is not None else ()), *wanted)
    found: dict[RunId, Progress] = {}
    for run_id, number, value, left, newest in connection.execute(query, values).fetchall():
        status = known_status(value)
        if status is RunStatus.RUNNING and abandoned is None:
            status = status_of(connection, leases, int(number))
        elif status is RunStatus.RUNNING and left:
            status = RunStatus.INTERRUPTED
        found[RunId(str(run_id))] = Progress(status, int(newest))
    return found


def _events(
    connection: SqlConnection, keys: RunKeys, run_id: RunId, which: str, *values: int, whole: bool = True
) -> list[Event]:
    number, key = locate(connection, run_id)
    read = readable(body_reader(connection, number, keys.cipher(run_id, key), whole=whole))
    query = f"SELECT seq, ts, kind, version, lane, step, payload FROM events WHERE run = ? {which}"  # noqa: S608 - ours
    return [
        Event(seq, ts, LaneId(lane) if lane is not None else None, step, read(seq, kind, version, payload))
        for seq, ts, kind, version, lane, step, payload in connection.execute(query, (number, *values))
    ]


def status_of(connection: SqlConnection, leases: RunNumberLeases, number: int) -> RunStatus:
    """Return the status of a run; one that has not settled and has no driver counts as interrupted."""
    status = recorded_status(connection, number)
    if status is RunStatus.RUNNING and leases.is_abandoned(connection, number):
        # Read again: its driver may have ended it and let go between the two looks.
        status = recorded_status(connection, number)
        return RunStatus.INTERRUPTED if status is RunStatus.RUNNING else status
    return status
