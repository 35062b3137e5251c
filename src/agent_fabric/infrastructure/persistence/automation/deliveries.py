"""The table of webhook deliveries."""

from collections.abc import Sequence

from agent_fabric.application.ports.clock import Clock
from agent_fabric.application.ports.webhooks import NewDelivery
from agent_fabric.domain.errors import DriverConflict
from agent_fabric.domain.events import Event
from agent_fabric.domain.ids import RunId
from agent_fabric.infrastructure.persistence.automation.dead_letters import LetterSeal, add_letter
from agent_fabric.infrastructure.persistence.automation.outbox import put_message
from agent_fabric.infrastructure.persistence.runs.event_store import SqlRunRepository
from agent_fabric.infrastructure.persistence.sql import Database, SqlConnection, marks, storable

KEPT_S = 30 * 24 * 3600.0
"""How long a delivery is remembered: longer than any sender tries. The run that it started is known for longer."""
CLEARED_EVERY = 100
"""Deliveries after which old ones are looked for."""


class SqlDeliveryStore:
    """DeliveryStore over the database."""

    def __init__(self, database: Database, clock: Clock, runs: SqlRunRepository) -> None:
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

    def _create(self, connection: SqlConnection, run_id: RunId, created: Event) -> bool:
        """Create a run; False: the delivery was forgotten, and its run is still there."""
        try:
            self._runs.create_undriven(connection, run_id, created)
        except DriverConflict:
            return False
        return True
