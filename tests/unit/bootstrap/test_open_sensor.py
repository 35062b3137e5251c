"""Sensors that packages bring along."""

from importlib.metadata import EntryPoint
from typing import Any

import pytest

from agent_fabric.domain.automation.sensing import Look
from agent_fabric.domain.errors import ConfigError
from agent_fabric.infrastructure.packs import plugins
from agent_fabric.infrastructure.packs.plugins import open_packaged_sensor


class Tide:
    """A sensor as a package has it."""

    def __init__(self, options: dict[str, str]) -> None:
        self.harbour = options["harbour"]

    async def look(self, cursor: Any) -> Look:
        return Look(cursor, (), f"no tide in {self.harbour}")


@pytest.mark.proves("A33-144", "AU-9")
async def test_a_kind_of_sensor_is_an_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = EntryPoint("tide", f"{__name__}:Tide", plugins.SENSORS)
    monkeypatch.setattr(EntryPoint, "load", lambda _: Tide)
    monkeypatch.setattr(plugins, "entry_points", lambda group: [entry] if group == plugins.SENSORS else [])
    look = await open_packaged_sensor("tide", {"harbour": "Kiel"}).look(None)
    assert look.reason == "no tide in Kiel"
    with pytest.raises(ConfigError, match="cannot be made"):
        open_packaged_sensor("tide", {})
    with pytest.raises(ConfigError, match="no kind of sensor"):
        open_packaged_sensor("weather", {})
