"""The table of logins that were ended before their time."""

from agent_fabric.application.ports.clock import Clock
from agent_fabric.infrastructure.persistence.sql import Database, SqlConnection


class SqlEndedLogins:
    """EndedLogins over the database. A login whose time is over needs no row: its tokens have expired."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def has(self, login: str) -> bool:
        query = "SELECT 1 FROM ended_logins WHERE id = ?"
        return await self._database.read_briefly(
            lambda connection: connection.execute(query, (login,)).fetchone() is not None
        )

    async def add(self, login: str, *, until: float) -> None:
        now = self._clock.now()

        def write(connection: SqlConnection) -> None:
            connection.execute("DELETE FROM ended_logins WHERE until <= ?", (now,))
            query = "INSERT INTO ended_logins (id, until) VALUES (?, ?) ON CONFLICT DO NOTHING"
            connection.execute(query, (login, until))

        await self._database.write(write)
