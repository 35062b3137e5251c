"""The database of a fabric folder, for tests that read or damage its tables."""

from pathlib import Path
from typing import Any

from agent_fabric.bootstrap.records import Records
from agent_fabric.infrastructure.persistence.observability.snapshot import SqliteCopies
from agent_fabric.infrastructure.persistence.runs.run_locks import RunLocks
from agent_fabric.infrastructure.persistence.store import Store


def store_of(records: Records) -> Store:
    """Return the store of a fabric folder, on connections of its own that end with the test."""
    return Store(records.layout.database)


async def rows_of(records: Records, query: str, *values: object) -> list[Any]:
    """Return rows of the store of a server, whichever database that is."""
    storage: Any = records.storage
    rows: list[Any] = await storage._store.read(lambda connection: connection.execute(query, values).fetchall())
    return rows


def copies_of(root: Path) -> SqliteCopies:
    """Return what copies the store of a fabric folder."""
    return SqliteCopies(root / "fabric.db", RunLocks(root / "locks"))
