"""Looks at one run, whoever drives it: where it stands, and its events a page at a time."""

from collections.abc import Sequence

import apsw

from agent_fabric.domain.events import Event
from agent_fabric.domain.ids import LaneId, RunId
from agent_fabric.domain.runs.task import RunStatus
from agent_fabric.infrastructure.persistence.event_bodies import body_reader, damage_explained
from agent_fabric.infrastructure.persistence.event_rows import locate, number_of, recorded_status
from agent_fabric.infrastructure.persistence.run_locks import RunLocks
from agent_fabric.infrastructure.persistence.sealing import RunKeys
from agent_fabric.infrastructure.persistence.store import Store


class SqliteRunReader:
    """Reads runs for people and programs that watch them."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def status(self, run_id: RunId) -> RunStatus:
        """Return where a run stands; one that nobody drives although it has not settled counts as interrupted.

        Raises:
            RunNotFound: there is none with this id.
        """
        locks = self._store.locks
        return await self._store.read(lambda connection: status_of(connection, locks, number_of(connection, run_id)))

    async def page(self, run_id: RunId, *, after: int, limit: int) -> Sequence[Event]:
        """Return at most `limit` of the events that follow sequence number `after`.

        Raises:
            RunNotFound: there is none with this id.
        """
        keys = self._store.keys
        return await self._store.read(
            lambda connection: _events(connection, keys, run_id, "AND seq > ? ORDER BY seq LIMIT ?", after, limit)
        )

    async def newest(self, run_id: RunId) -> Event:
        """Return a run's last event; there is always one.

        Raises:
            RunNotFound: there is none with this id.
        """
        keys = self._store.keys
        (event,) = await self._store.read(
            lambda connection: _events(connection, keys, run_id, "ORDER BY seq DESC LIMIT 1")
        )
        return event


def _events(connection: apsw.Connection, keys: RunKeys, run_id: RunId, which: str, *values: int) -> list[Event]:
    number, key = locate(connection, run_id)
    read = body_reader(connection, number, keys.cipher(run_id, key))
    query = f"SELECT seq, ts, kind, version, lane, step, payload FROM events WHERE run = ? {which}"  # noqa: S608 - ours
    with damage_explained():
        return [
            Event(seq, ts, LaneId(lane) if lane is not None else None, step, read(seq, kind, version, payload))
            for seq, ts, kind, version, lane, step, payload in connection.execute(query, (number, *values))
        ]


def status_of(connection: apsw.Connection, locks: RunLocks, number: int) -> RunStatus:
    """Return where a run stands; one that nobody drives although it has not settled counts as interrupted."""
    status = recorded_status(connection, number)
    if status is RunStatus.RUNNING and locks.is_free(number):
        # Read again: its driver may have ended it and let go between the two looks.
        status = recorded_status(connection, number)
        return RunStatus.INTERRUPTED if status is RunStatus.RUNNING else status
    return status
