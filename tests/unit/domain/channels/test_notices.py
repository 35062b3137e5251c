"""Where users want to be told, and when not (issue 22, point 2)."""

from dataclasses import replace

import pytest

from agent_fabric.domain.channels.notices import (
    MAX_ROUTES,
    NoticeKind,
    NotifyPreference,
    read_preference,
    read_routes,
)
from agent_fabric.domain.errors import ConfigError, InvalidInputs

ANN = NotifyPreference(user="ann")


def test_everyone_is_told_on_every_channel_unless_they_say_otherwise() -> None:
    assert ANN.wants(NoticeKind.APPROVAL, "telegram")
    quiet = replace(ANN, approvals=("page",), alerts=("slack", "webhook:ops"))
    assert not quiet.wants(NoticeKind.APPROVAL, "telegram")
    assert quiet.wants(NoticeKind.ALERT, "slack")
    assert not quiet.wants(NoticeKind.ALERT, "telegram")
    assert quiet.wants(NoticeKind.MESSAGE, "telegram")
    assert quiet.webhooks(NoticeKind.ALERT) == ("ops",)


@pytest.mark.parametrize(
    "wrong", [[], ["Telegram"], ["webhook:"], ["a b"], [f"c{each}" for each in range(MAX_ROUTES + 1)]]
)
def test_what_is_no_place_is_refused(wrong: list[str]) -> None:
    with pytest.raises(InvalidInputs):
        read_routes(wrong)


def test_a_preference_is_checked_before_it_is_kept() -> None:
    usual = {"approvals": ["telegram", "telegram"], "alerts": ["page"], "quiet_hours": "22:00-07:00", "timezone": "UTC"}
    kept = read_preference("ann", **usual)  # type: ignore[arg-type]  # of these types
    assert kept.approvals == ("telegram",)
    assert kept.quiet_until(0.0) == 7 * 3600.0  # midnight
    assert kept.quiet_until(12 * 3600.0) is None
    assert ANN.quiet_until(0.0) is None
    with pytest.raises(InvalidInputs):
        read_preference("ann", **usual | {"quiet_hours": "late"})  # type: ignore[arg-type]  # as above
    with pytest.raises(ConfigError):
        read_preference("ann", **usual | {"timezone": "Mars/Base"})  # type: ignore[arg-type]  # as above
