"""The stand-ins for time, ids and folders keep the promises of the real ones."""

from pathlib import Path

import pytest

from agent_fabric.application.ports.clock import Clock, IdSource
from agent_fabric.application.ports.runs import Workspaces
from agent_fabric.infrastructure.clock import RandomIds, SystemClock
from agent_fabric.infrastructure.runs.log.layout import Layout
from agent_fabric.testing.fakes import CountingIds, FrozenClock, MemoryWorkspaces
from contract.surroundings_contract import ClockContract, IdSourceContract, WorkspacesContract


class TestFrozenClock(ClockContract):
    @pytest.fixture
    def clock(self) -> Clock:
        return FrozenClock()


class TestSystemClock(ClockContract):
    @pytest.fixture
    def clock(self) -> Clock:
        return SystemClock()


class TestCountingIds(IdSourceContract):
    @pytest.fixture
    def ids(self) -> IdSource:
        return CountingIds()


class TestRandomIds(IdSourceContract):
    @pytest.fixture
    def ids(self) -> IdSource:
        return RandomIds()


class TestMemoryWorkspaces(WorkspacesContract):
    @pytest.fixture
    def workspaces(self) -> Workspaces:
        return MemoryWorkspaces()


class TestFolders(WorkspacesContract):
    @pytest.fixture
    def workspaces(self, tmp_path: Path) -> Workspaces:
        layout = Layout(tmp_path)
        layout.make()
        return layout
