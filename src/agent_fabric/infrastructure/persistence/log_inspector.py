"""Recomputes the hashes of a run's log and of the texts that it refers to."""

import hashlib
import zlib

from agent_fabric.application.ports.audit import LogCondition
from agent_fabric.domain.errors import RunKeyMissing
from agent_fabric.domain.ids import RunId
from agent_fabric.infrastructure.persistence.event_bodies import ReadBody, body_reader
from agent_fabric.infrastructure.persistence.event_rows import chained, locate
from agent_fabric.infrastructure.persistence.sealing import RunKeys
from agent_fabric.infrastructure.persistence.sql import Database, SqlConnection


class SqlLogInspector:
    """LogInspector over the store."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def inspect(self, run_id: RunId) -> LogCondition:
        return await self._database.read(lambda connection: inspect_run(connection, self._database.keys, run_id))


def inspect_run(connection: SqlConnection, keys: RunKeys, run_id: RunId) -> LogCondition:
    """Recompute every hash of a run's log; they cover what is stored, so that of an encrypted one needs no key.

    Raises:
        RunNotFound: there is none with this id.
    """
    number, key = locate(connection, run_id)
    read: ReadBody | None
    try:
        read = body_reader(connection, number, keys.cipher(run_id, key))
    except RunKeyMissing:
        read = None
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
            if read is not None:
                read(seq, kind, version, payload)
        except RunKeyMissing:
            read = None
        except (ValueError, zlib.error) as problem:
            damage.append(f"event {seq} ({kind}) cannot be read: {problem}")
        head, expected = digest, seq + 1
    return LogCondition(events=expected, head=head.hex(), status=str(status), damage=tuple(damage))
