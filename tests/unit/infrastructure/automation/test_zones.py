"""Time zones."""

from importlib.metadata import version
from zoneinfo import TZPATH, ZoneInfo

from agent_fabric.infrastructure.automation.cronsim_walls import use_own_zones


def test_zones_come_with_the_package() -> None:
    assert use_own_zones() == version("tzdata")
    assert ZoneInfo.no_cache("Europe/Berlin").key == "Europe/Berlin"
    assert isinstance(TZPATH, tuple)
