"""The tables of channels in SQLite keep what the port promises."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_fabric.application.ports.channels import ChannelStore
from agent_fabric.infrastructure.clock import RandomIds
from agent_fabric.infrastructure.persistence.storage import open_storage
from agent_fabric.testing.fakes import FrozenClock
from contract.channel_contract import PART, SAID, ChannelContract


class MirrorSealer:
    """KeySealer that writes everything backwards: enough to see whether something was sealed."""

    def seal(self, data: bytes) -> bytes:
        return data[::-1]

    def unseal(self, data: bytes) -> bytes:
        return data[::-1]

    def reseal(self, data: bytes) -> bytes:
        return data


class TestSqliteChannels(ChannelContract):
    @pytest.fixture
    def channels(self, tmp_path: Path) -> Iterator[ChannelStore]:
        storage = open_storage(
            tmp_path, clock=FrozenClock(), ids=RandomIds(), run_dir=lambda _: "", open_keyring=MirrorSealer
        )
        yield storage.channels
        storage.close()

    async def test_what_was_said_does_not_stand_in_the_file(self, channels: ChannelStore, tmp_path: Path) -> None:
        await channels.inbound.add([SAID], now=1.0)
        await channels.outbox.put([PART])
        stored = b"".join(each.read_bytes() for each in tmp_path.glob("fabric.db*"))
        assert b"channel_outbox" in stored
        assert b"hello" not in stored
        assert b"<b>x</b>" not in stored
