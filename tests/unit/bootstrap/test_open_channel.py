"""Channels that packages bring along (A33-145, CH-1)."""

from collections.abc import Awaitable, Callable
from importlib.metadata import EntryPoint

import pytest

from agent_fabric.application.ports.channels import ChannelStatus
from agent_fabric.application.ports.clock import Clock
from agent_fabric.domain.errors import ConfigError
from agent_fabric.infrastructure.packs import plugins
from agent_fabric.infrastructure.packs.plugins import open_channel
from agent_fabric.testing.fakes import FrozenClock
from scripted_channel import ScriptedChannel


def pigeons(
    options: dict[str, str],
    resolve: Callable[[str], Awaitable[str]],
    clock: Clock,
) -> ScriptedChannel:
    """A channel as a package has it."""
    return ScriptedChannel(status=ChannelStatus(options["name"], account="loft"))


async def no_secret(reference: str) -> str:
    raise AssertionError(reference)


@pytest.mark.proves("A33-145")
def test_a_channel_is_an_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = EntryPoint("pigeons", f"{__name__}:pigeons", plugins.CHANNELS)
    monkeypatch.setattr(EntryPoint, "load", lambda _: pigeons)
    monkeypatch.setattr(plugins, "entry_points", lambda group: [entry] if group == plugins.CHANNELS else [])
    made = open_channel("pigeons", {"name": "pigeons"}, no_secret, FrozenClock())
    assert made.status.account == "loft"
    with pytest.raises(ConfigError, match="cannot be made"):
        open_channel("pigeons", {}, no_secret, FrozenClock())
    with pytest.raises(ConfigError, match="calls itself"):
        open_channel("pigeons", {"name": "telegram"}, no_secret, FrozenClock())
    with pytest.raises(ConfigError, match="no channel"):
        open_channel("smoke", {}, no_secret, FrozenClock())
