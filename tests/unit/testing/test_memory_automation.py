"""Automation's store for simulations keeps what the port promises."""

from dataclasses import dataclass
from typing import Any, cast

import pytest

from agent_fabric.application.ports.storage import Storage
from agent_fabric.domain.ids import RunId
from agent_fabric.testing.fakes import MemoryRuns
from contract.automation_contract import AutomationContract
from memory_automation import MemoryAutomation
from memory_storage import MemoryStorage


@dataclass
class Undriven:
    """The queue of a server over runs that nothing drives."""

    runs: MemoryRuns

    async def list_unfinished(self) -> list[RunId]:
        return [*self.runs.logs]


class TestMemoryAutomation(AutomationContract):
    @pytest.fixture
    def storage(self) -> Storage:
        runs = MemoryRuns()
        storage: Any = MemoryStorage()
        storage.runs, storage.queue, storage.automation = runs, Undriven(runs), MemoryAutomation.over(runs)
        return cast("Storage", storage)
