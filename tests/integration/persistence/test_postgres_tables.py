"""Every table module keeps the promises of its port on PostgreSQL too, also behind pgbouncer."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import cast

import pytest

from agent_fabric.application.ports.storage import Storage
from agent_fabric.testing.fakes import FrozenClock
from contract.storage_contract import StorageContract
from integration.persistence.postgres_storage import open_tables


@pytest.mark.proves("SC-13")
class TestPostgresTables(StorageContract):
    @pytest.fixture
    async def storage(self, database_url: str, tmp_path: Path, clock: FrozenClock) -> AsyncIterator[Storage]:
        tables = open_tables(database_url, tmp_path, clock)
        yield cast("Storage", tables)
        tables.close()


@pytest.mark.proves("SC-4", "SC-13")
class TestTablesBehindPgbouncer(StorageContract):
    @pytest.fixture
    async def storage(
        self, database_url: str, through_pgbouncer: Callable[[str], str], tmp_path: Path, clock: FrozenClock
    ) -> AsyncIterator[Storage]:
        tables = open_tables(through_pgbouncer(database_url), tmp_path, clock)
        yield cast("Storage", tables)
        tables.close()
