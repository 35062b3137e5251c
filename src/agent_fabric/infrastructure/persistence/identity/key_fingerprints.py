"""Fingerprints of the keys that all processes of a store must share."""

from collections.abc import Mapping
from typing import Final

from agent_fabric.application.ports.clock import Clock
from agent_fabric.infrastructure.persistence.sql import Database
from agent_fabric.infrastructure.persistence.table import fetch

_PUT: Final = "INSERT INTO key_fingerprints (name, fingerprint, since) VALUES (?, ?, ?) ON CONFLICT"
_ADD: Final = f"{_PUT} DO NOTHING"
_REPLACE: Final = f"{_PUT} (name) DO UPDATE SET fingerprint = excluded.fingerprint, since = excluded.since"


class SqlKeyFingerprints:
    """KeyFingerprints over the store."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def read(self) -> dict[str, str]:
        return dict(await fetch(self._database, "SELECT name, fingerprint FROM key_fingerprints ORDER BY name"))

    async def add(self, fingerprints: Mapping[str, str]) -> dict[str, str]:
        known = await self.read()
        if fingerprints.keys() <= known.keys():  # nearly always
            return known
        await self._put(_ADD, fingerprints)
        return await self.read()

    async def replace(self, fingerprints: Mapping[str, str]) -> None:
        await self._put(_REPLACE, fingerprints)

    async def _put(self, query: str, fingerprints: Mapping[str, str]) -> None:
        rows = [(name, value, self._clock.now()) for name, value in fingerprints.items()]
        await self._database.write(lambda connection: connection.executemany(query, rows))
