"""The tables of what the bus has not been told of yet, and of webhook deliveries."""

import asyncio
import logging
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from agent_fabric.application.ports.bus import BusMessage, OutboxRow
from agent_fabric.application.ports.clock import Clock
from agent_fabric.application.ports.webhooks import NewDelivery
from agent_fabric.domain.errors import DriverConflict
from agent_fabric.domain.ids import RunId
from agent_fabric.infrastructure.persistence.automation.dead_letters import LetterSeal, Runs, add_letter
from agent_fabric.infrastructure.persistence.sql import Database, Rows, SqlConnection, marks, storable
from agent_fabric.infrastructure.persistence.table import fetch
from agent_fabric.wire.json_codec import dump_json, load_json

if TYPE_CHECKING:
    from agent_fabric.domain.events import Event

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

        rows = await fetch(self._database, query, limit)
        return [(BusMessage(key, subject, load_json(data)), at) for key, subject, data, at in rows]

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

        return [OutboxRow(*row) for row in await fetch(self._database, query, limit)]

    async def settle(self, row: OutboxRow) -> None:
        run = "(SELECT number FROM runs WHERE run_id = ?)"
        forget = f"DELETE FROM outbox WHERE run = {run} AND upto_seq = ?"  # noqa: S608 - our own words
        keep = f"UPDATE outbox SET from_seq = ? WHERE run = {run} AND from_seq <= ?"  # noqa: S608 - as above

        def write(connection: SqlConnection) -> None:
            connection.execute(forget, (row.run_id, row.upto_seq))
            connection.execute(keep, (row.upto_seq + 1, row.run_id, row.upto_seq))

        await self._database.write(write)


KEPT_S = 30 * 24 * 3600.0
"""How long a delivery is remembered: longer than any sender tries. The run that it started is known for longer."""
CLEARED_EVERY = 100
"""Deliveries after which old ones are looked for."""


class SqlDeliveryStore:
    """DeliveryStore over the database."""

    def __init__(self, database: Database, clock: Clock, runs: Runs) -> None:
        self._database = database
        self._clock = clock
        self._runs = runs
        self._seal = LetterSeal(database.keys)
        self._taken = 0

    async def find(self, source: str, delivery_id: str, runs: Sequence[RunId]) -> Sequence[RunId] | None:
        query = "SELECT 1 FROM deliveries WHERE source = ? AND delivery = ?"

        def read(connection: SqlConnection) -> list[RunId] | None:
            if connection.execute(query, (storable(source), storable(delivery_id))).fetchone() is None:
                return None
            there = f"SELECT run_id FROM runs WHERE run_id IN ({marks(runs)})"  # noqa: S608 - ours
            found = {str(run_id) for (run_id,) in connection.execute(there, tuple(runs)).fetchall()} if runs else set()
            return [run_id for run_id in runs if run_id in found]

        return await self._database.read(read)

    async def take(self, delivery: NewDelivery) -> Sequence[RunId] | None:
        now = self._clock.now()
        clears = self._taken % CLEARED_EVERY == 0
        self._taken += 1

        def write(connection: SqlConnection) -> list[RunId] | None:
            if clears:
                connection.execute("DELETE FROM deliveries WHERE received_at <= ?", (now - KEPT_S,))
            query = (
                "INSERT INTO deliveries (source, delivery, received_at) VALUES (?, ?, ?)"
                " ON CONFLICT DO NOTHING RETURNING 1"
            )
            values = (storable(delivery.source), storable(delivery.delivery_id), now)
            if connection.execute(query, values).fetchone() is None:
                return None
            started = [run_id for run_id, created in delivery.runs.items() if self._create(connection, run_id, created)]
            for letter in delivery.letters:
                add_letter(connection, letter, self._seal)
            if delivery.message is not None:
                put_message(connection, delivery.message, now)
            return started

        return await self._database.write(write)

    def _create(self, connection: SqlConnection, run_id: RunId, created: "Event") -> bool:
        """Create a run; False: the delivery was forgotten, and its run is still there."""
        try:
            self._runs().create_undriven(connection, run_id, created)
        except DriverConflict:
            return False
        return True
