"""Reads single runs: their status, and their events page by page."""

from collections.abc import Sequence

from agent_fabric.domain.events import Event
from agent_fabric.domain.ids import LaneId, RunId
from agent_fabric.domain.runs.task import RunStatus
from agent_fabric.infrastructure.persistence.event_bodies import body_reader, readable
from agent_fabric.infrastructure.persistence.event_rows import locate, number_of, recorded_status
from agent_fabric.infrastructure.persistence.sealing import RunKeys
from agent_fabric.infrastructure.persistence.sql import Database, RunNumberLeases, SqlConnection


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
