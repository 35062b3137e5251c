"""What has been delivered to webhooks, in the file that the runs are in."""

import apsw

from agent_fabric.application.ports.clock import Clock
from agent_fabric.infrastructure.persistence.store import Store

KEPT_S = 30 * 24 * 3600.0
"""How long a delivery is remembered: longer than any sender tries. The run that it started is known for longer."""
CLEARED_EVERY = 100
"""Deliveries after which old ones are looked for."""


class SqliteDeliveryStore:
    """DeliveryStore in one SQLite file."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._noted = 0

    async def knows(self, source: str, delivery_id: str) -> bool:
        query = "SELECT 1 FROM deliveries WHERE source = ? AND delivery = ?"
        return await self._store.read(
            lambda connection: connection.execute(query, (source, delivery_id)).fetchone() is not None
        )

    async def note(self, source: str, delivery_id: str) -> bool:
        now = self._clock.now()
        clears = self._noted % CLEARED_EVERY == 0
        self._noted += 1

        def write(connection: apsw.Connection) -> bool:
            if clears:
                connection.execute("DELETE FROM deliveries WHERE received_at <= ?", (now - KEPT_S,))
            query = "INSERT OR IGNORE INTO deliveries (source, delivery, received_at) VALUES (?, ?, ?) RETURNING 1"
            return connection.execute(query, (source, delivery_id, now)).fetchone() is not None

        return await self._store.writer.write(write)
