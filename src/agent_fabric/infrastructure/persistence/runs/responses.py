"""The table that says which run has answered a question."""

from typing import Final

from agent_fabric.application.ports.clock import Clock
from agent_fabric.domain.ids import RunId
from agent_fabric.infrastructure.persistence.sql import Database, SqlConnection

KEPT_S: Final = 30 * 24 * 3600.0
"""How long it is known. Asking again begins anew."""


class SqlResponses:
    """ResponseIndex over the database."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def find(self, key: str) -> RunId | None:
        query = "SELECT run_id FROM response_cache WHERE key = ? AND created_at > ?"
        values = (key, self._clock.now() - KEPT_S)
        row = await self._database.read(lambda connection: connection.execute(query, values).fetchone())
        return None if row is None else RunId(row[0])

    async def note(self, key: str, run_id: RunId) -> None:
        now = self._clock.now()

        def write(connection: SqlConnection) -> None:
            connection.execute("DELETE FROM response_cache WHERE created_at <= ?", (now - KEPT_S,))
            connection.execute(
                "INSERT INTO response_cache (key, run_id, created_at) VALUES (?, ?, ?)"
                " ON CONFLICT (key) DO UPDATE SET run_id = excluded.run_id, created_at = excluded.created_at",
                (key, run_id, now),
            )

        await self._database.write(write)
