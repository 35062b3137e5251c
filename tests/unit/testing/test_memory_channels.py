"""The channels in memory keep what the port promises."""

import pytest

from agent_fabric.testing.channels import MemoryChannels
from contract.channel_contract import ChannelContract


class TestMemoryChannels(ChannelContract):
    @pytest.fixture
    def channels(self) -> MemoryChannels:
        return MemoryChannels()
