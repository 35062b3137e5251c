"""The tables of what the bus has not been told of yet."""

import asyncio
import logging
from collections.abc import Collection, Sequence

from agent_fabric.application.ports.bus import BusMessage, OutboxRow
from agent_fabric.application.ports.clock import Clock
from agent_fabric.domain.ids import RunId
from agent_fabric.infrastructure.persistence.sql import Database, Rows, SqlConnection, storable
from agent_fabric.wire.json_codec import dump_json, load_json

_log = logging.getLogger(__name__)


def put_message(connection: SqlConnection, message: BusMessage, now: float) -> Rows:
    """Keep a message for the bus, in the caller's transaction."""
    values = (storable(message.message_id), storable(message.subject), dump_json(message.payload), now)
    query = "INSERT INTO outbox_messages (id, subject, payload, put_at) VALUES (?, ?, ?, ?) ON CONFLICT (id) DO NOTHING"
    return connection.execute(query, values)


def _after_write(written: "asyncio.Future[Rows]") -> None:
    if not written.cancelled() and (problem := written.exception()) is not None:
        _log.warning("A message for the bus could not be kept: %s", problem)


class SqlOutbox:
    """Outbox over the store."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    def put(self, message: BusMessage) -> None:
        now = self._clock.now()
        self._database.write(lambda connection: put_message(connection, message, now)).add_done_callback(_after_write)

    async def messages(self, *, limit: int) -> Sequence[tuple[BusMessage, float]]:
        query = "SELECT id, subject, payload, put_at FROM outbox_messages ORDER BY put_at, id LIMIT ?"

        def read(connection: SqlConnection) -> list[tuple[BusMessage, float]]:
            rows = connection.execute(query, (limit,)).fetchall()
            return [(BusMessage(str(key), str(subject), load_json(data)), float(at)) for key, subject, data, at in rows]

        return await self._database.read(read)

    async def remove(self, message_ids: Collection[str]) -> None:
        rows = [(storable(message_id),) for message_id in message_ids]
        if rows:
            await self._database.write(
                lambda connection: connection.executemany("DELETE FROM outbox_messages WHERE id = ?", rows)
            )

    async def rows(self, *, limit: int) -> Sequence[OutboxRow]:
        query = (
            "SELECT run_id, from_seq, upto_seq, noted_at FROM outbox JOIN runs ON number = run"
            " ORDER BY noted_at, run LIMIT ?"
        )

        def read(connection: SqlConnection) -> list[OutboxRow]:
            rows = connection.execute(query, (limit,)).fetchall()
            return [OutboxRow(RunId(str(run_id)), *rest) for run_id, *rest in rows]

        return await self._database.read(read)

    async def settle(self, row: OutboxRow) -> None:
        run = "(SELECT number FROM runs WHERE run_id = ?)"
        forget = f"DELETE FROM outbox WHERE run = {run} AND upto_seq = ?"  # noqa: S608 - our own words
        keep = f"UPDATE outbox SET from_seq = ? WHERE run = {run} AND from_seq <= ?"  # noqa: S608 - as above

        def write(connection: SqlConnection) -> None:
            connection.execute(forget, (row.run_id, row.upto_seq))
            connection.execute(keep, (row.upto_seq + 1, row.run_id, row.upto_seq))

        await self._database.write(write)
