from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_fabric.application.ports.runs import RunRepository
from agent_fabric.infrastructure.clock import SystemClock
from agent_fabric.infrastructure.persistence.event_store import SqliteRunRepository
from agent_fabric.infrastructure.persistence.store import Store
from contract.run_repository_contract import RunRepositoryContract


class TestSqliteRuns(RunRepositoryContract):
    @pytest.fixture
    def runs(self, tmp_path: Path) -> Iterator[RunRepository]:
        store = Store(tmp_path / "fabric.db")
        yield SqliteRunRepository(store, SystemClock())
        store.close()
