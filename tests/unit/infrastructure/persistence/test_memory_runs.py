"""The stand-in that other tests use keeps the same promises as the store."""

import pytest

from agent_fabric.application.ports.runs import RunRepository
from agent_fabric.testing.fakes import MemoryRuns
from contract.run_repository_contract import RunRepositoryContract


class TestMemoryRuns(RunRepositoryContract):
    @pytest.fixture
    def runs(self) -> RunRepository:
        return MemoryRuns()
