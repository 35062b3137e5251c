"""Recomputes the hashes of a run's log and of the texts that it refers to."""

import hashlib
import zlib

import apsw

from agent_fabric.application.ports.audit import LogCondition
from agent_fabric.domain.ids import RunId
from agent_fabric.infrastructure.persistence.codec import decode
from agent_fabric.infrastructure.persistence.event_rows import blob_from, chained, number_of
from agent_fabric.infrastructure.persistence.store import Store


class SqliteLogInspector:
    """LogInspector over the store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def inspect(self, run_id: RunId) -> LogCondition:
        return await self._store.read(lambda connection: inspect_run(connection, run_id))


def inspect_run(connection: apsw.Connection, run_id: RunId) -> LogCondition:
    """Recompute every hash of a run's log.

    Raises:
        RunNotFound: there is none with this id.
    """
    number, blob = number_of(connection, run_id), blob_from(connection)
    ((status,),) = connection.execute("SELECT status FROM runs WHERE number = ?", (number,)).fetchall()
    query = "SELECT seq, ts, kind, version, lane, step, payload, hash FROM events WHERE run = ? ORDER BY seq"
    damage: list[str] = []
    head, expected = hashlib.sha256(run_id.encode()).digest(), 0
    for seq, ts, kind, version, lane, step, payload, digest in connection.execute(query, (number,)):
        if seq != expected:
            damage.append(f"event {expected} is missing")
        if chained(head, seq, ts, kind, version, lane, step, payload) != digest:
            damage.append(f"event {seq} ({kind}) is not what was recorded, or does not follow the one before")
        try:
            decode(kind, version, payload, blob)
        except (ValueError, zlib.error) as problem:
            damage.append(f"event {seq} ({kind}) cannot be read: {problem}")
        head, expected = digest, seq + 1
    return LogCondition(events=expected, head=head.hex(), status=str(status), damage=tuple(damage))
