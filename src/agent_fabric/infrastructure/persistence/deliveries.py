"""The table of webhook deliveries."""

from agent_fabric.application.ports.clock import Clock
from agent_fabric.infrastructure.persistence.sql import Database, SqlConnection

KEPT_S = 30 * 24 * 3600.0
"""How long a delivery is remembered: longer than any sender tries. The run that it started is known for longer."""
CLEARED_EVERY = 100
"""Deliveries after which old ones are looked for."""


class SqlDeliveryStore:
    """DeliveryStore over the database."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._noted = 0

    async def knows(self, source: str, delivery_id: str) -> bool:
        query = "SELECT 1 FROM deliveries WHERE source = ? AND delivery = ?"
        return await self._database.read(
            lambda connection: connection.execute(query, (source, delivery_id)).fetchone() is not None
        )

    async def note(self, source: str, delivery_id: str) -> bool:
        now = self._clock.now()
        clears = self._noted % CLEARED_EVERY == 0
        self._noted += 1

        def write(connection: SqlConnection) -> bool:
            if clears:
                connection.execute("DELETE FROM deliveries WHERE received_at <= ?", (now - KEPT_S,))
            query = (
                "INSERT INTO deliveries (source, delivery, received_at) VALUES (?, ?, ?)"
                " ON CONFLICT DO NOTHING RETURNING 1"
            )
            return connection.execute(query, (source, delivery_id, now)).fetchone() is not None

        return await self._database.write(write)
