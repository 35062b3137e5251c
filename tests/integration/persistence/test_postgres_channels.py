"""The tables of channels keep the promises of their port on PostgreSQL, too."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_fabric.application.ports.channels import ChannelStore
from agent_fabric.testing.fakes import FrozenClock
from contract.channel_contract import ChannelContract
from integration.persistence.postgres_storage import open_tables
from unit.infrastructure.persistence.channels.test_tables import MirrorSealer


class TestPostgresChannels(ChannelContract):
    @pytest.fixture
    def channels(self, database_url: str, tmp_path: Path) -> Iterator[ChannelStore]:
        tables = open_tables(database_url, tmp_path, FrozenClock(), open_keyring=MirrorSealer)
        yield tables.channels
        tables.close()
