"""The database of a fabric folder, for tests that read or damage its tables."""

from pathlib import Path

from agent_fabric.bootstrap.records import Records
from agent_fabric.infrastructure.persistence.run_locks import RunLocks
from agent_fabric.infrastructure.persistence.snapshot import SqliteCopies
from agent_fabric.infrastructure.persistence.store import Store


def store_of(records: Records) -> Store:
    """Return the store of a fabric folder, on connections of its own that end with the test."""
    return Store(records.layout.database)


def copies_of(root: Path) -> SqliteCopies:
    """Return what copies the store of a fabric folder."""
    return SqliteCopies(root / "fabric.db", RunLocks(root / "locks"))
