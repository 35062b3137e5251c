"""The stand-ins for people and keys keep the promises of the real ones."""

import pytest

from agent_fabric.testing.identity import MemoryKeys, MemoryUsers
from contract.identity_contract import KeyBookContract, UserBookContract


class TestMemoryUsers(UserBookContract):
    @pytest.fixture
    def users(self) -> MemoryUsers:
        return MemoryUsers()


class TestMemoryKeys(KeyBookContract):
    @pytest.fixture
    def keys(self) -> MemoryKeys:
        return MemoryKeys()
