"""The channels in memory keep what the port promises."""

import pytest

from agent_fabric.application.ports.channels import ChannelStore
from contract.channel_contract import ChannelContract
from memory_storage import MemoryChannels


class TestMemoryChannels(ChannelContract):
    @pytest.fixture
    def channels(self) -> ChannelStore:
        return MemoryChannels()
