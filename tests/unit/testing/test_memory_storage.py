"""The store in memory passes the whole suite of the store in the place of SQLite."""

import pytest

from agent_fabric.application.ports.storage import Storage
from agent_fabric.testing.fakes import FrozenClock
from contract.storage_contract import StorageContract
from memory_storage import MemoryStorage


class TestMemoryStorage(StorageContract):
    @pytest.fixture
    def storage(self, clock: FrozenClock) -> Storage:
        return MemoryStorage(clock)
