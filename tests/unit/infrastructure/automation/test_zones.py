"""Time zones."""

import zoneinfo
from importlib.metadata import version
from pathlib import Path
from zoneinfo import ZoneInfo

from agent_fabric.infrastructure.automation.cronsim_walls import use_own_zones


def test_zones_come_with_the_package_and_not_from_the_machine(tmp_path: Path) -> None:
    (tmp_path / "localtime").write_bytes(b"TZif of the machine")
    zoneinfo.reset_tzpath(to=[str(tmp_path)])
    assert "localtime" in zoneinfo.available_timezones()
    assert use_own_zones() == version("tzdata")
    assert "localtime" not in zoneinfo.available_timezones()
    assert ZoneInfo.no_cache("Europe/Berlin").key == "Europe/Berlin"
