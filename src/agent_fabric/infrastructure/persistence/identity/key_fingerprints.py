"""Fingerprints of the keys that all processes of a store must share."""

from collections.abc import Mapping

from agent_fabric.application.ports.clock import Clock
from agent_fabric.infrastructure.persistence.sql import Database, SqlConnection


class SqlKeyFingerprints:
    """KeyFingerprints over the store."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def read(self) -> dict[str, str]:
        return await self._database.read(_read)

    async def add(self, fingerprints: Mapping[str, str]) -> dict[str, str]:
        known = await self.read()
        if fingerprints.keys() <= known.keys():  # nearly always
            return known
        now = self._clock.now()

        def write(connection: SqlConnection) -> dict[str, str]:
            connection.executemany(
                "INSERT INTO key_fingerprints (name, fingerprint, since) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
                [(name, value, now) for name, value in fingerprints.items()],
            )
            return _read(connection)

        return await self._database.write(write)

    async def replace(self, fingerprints: Mapping[str, str]) -> None:
        now = self._clock.now()

        def write(connection: SqlConnection) -> None:
            connection.executemany(
                "INSERT INTO key_fingerprints (name, fingerprint, since) VALUES (?, ?, ?)"
                " ON CONFLICT (name) DO UPDATE SET fingerprint = excluded.fingerprint, since = excluded.since",
                [(name, value, now) for name, value in fingerprints.items()],
            )

        await self._database.write(write)


def _read(connection: SqlConnection) -> dict[str, str]:
    rows = connection.execute("SELECT name, fingerprint FROM key_fingerprints ORDER BY name")
    return {str(name): str(value) for name, value in rows}
