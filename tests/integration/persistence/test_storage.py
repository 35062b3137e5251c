"""The factory's storage keeps every promise of its ports."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agent_fabric.application.ports.storage import Storage
from agent_fabric.infrastructure.clock import RandomIds
from agent_fabric.infrastructure.persistence.storage import open_storage
from agent_fabric.infrastructure.secrets.keyring import open_keyring
from agent_fabric.testing.fakes import FrozenClock
from contract.storage_contract import StorageContract


class TestSqliteStorage(StorageContract):
    @pytest.fixture
    async def storage(self, tmp_path: Path, clock: FrozenClock) -> AsyncIterator[Storage]:
        storage = open_storage(
            tmp_path,
            clock=clock,
            ids=RandomIds(),
            run_dir=lambda run_id: str(tmp_path / "runs" / run_id),
            open_keyring=lambda: open_keyring({"XDG_DATA_HOME": str(tmp_path / "data")}),
        )
        yield storage
        storage.close()
