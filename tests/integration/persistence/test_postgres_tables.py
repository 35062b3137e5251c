"""Every table module keeps the promises of its port on PostgreSQL too, also behind pgbouncer."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import cast

import pytest

from agent_fabric.application.ports.runs import RunRepository
from agent_fabric.application.ports.storage import Storage
from agent_fabric.infrastructure.clock import SystemClock
from agent_fabric.infrastructure.secrets.keyring import Keyring, open_keyring
from agent_fabric.testing.fakes import FrozenClock
from contract.run_repository_contract import RunRepositoryContract
from contract.storage_contract import StorageContract
from integration.persistence.postgres_storage import open_tables
from integration.persistence.sealed_folder import EncryptedRuns


def keyring_in(folder: Path) -> Callable[[], Keyring]:
    """Return what opens the keys of a user who lives in a folder."""
    return lambda: open_keyring({"XDG_DATA_HOME": str(folder / "data")})


@pytest.mark.proves("SC-13")
class TestPostgresTables(StorageContract):
    @pytest.fixture
    async def storage(self, database_url: str, tmp_path: Path, clock: FrozenClock) -> AsyncIterator[Storage]:
        tables = open_tables(database_url, tmp_path, clock, open_keyring=keyring_in(tmp_path))
        yield cast("Storage", tables)
        tables.close()


@pytest.mark.proves("SC-4", "SC-13")
class TestTablesBehindPgbouncer(StorageContract):
    @pytest.fixture
    async def storage(
        self, database_url: str, through_pgbouncer: Callable[[str], str], tmp_path: Path, clock: FrozenClock
    ) -> AsyncIterator[Storage]:
        tables = open_tables(through_pgbouncer(database_url), tmp_path, clock, open_keyring=keyring_in(tmp_path))
        yield cast("Storage", tables)
        tables.close()


@pytest.mark.proves("SC-13")
class TestEncryptedRunsInPostgres(RunRepositoryContract):
    """Everything that is promised of runs holds for encrypted ones there, too."""

    @pytest.fixture
    async def runs(self, database_url: str, tmp_path: Path) -> AsyncIterator[RunRepository]:
        keyring = open_keyring({"XDG_DATA_HOME": str(tmp_path / "data")})
        tables = open_tables(database_url, tmp_path / "store", SystemClock(), open_keyring=lambda: keyring)
        yield EncryptedRuns(tables.runs)
        tables.close()
