"""Moments as people type them."""

from datetime import UTC, datetime

import pytest

from agent_fabric.domain.errors import ConfigError
from agent_fabric.interfaces.cli.durations import moment_in

NOW = 1_800_000_000.0


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", None),
        ("7d", NOW - 7 * 86_400),
        (" 90m ", NOW - 5_400),
        ("2026-11-17", datetime(2026, 11, 17).timestamp()),  # noqa: DTZ001 - of this place
        ("2026-11-17T09:30", datetime(2026, 11, 17, 9, 30).timestamp()),  # noqa: DTZ001 - as above
        ("2026-11-17 09:30:15+00:00", datetime(2026, 11, 17, 9, 30, 15, tzinfo=UTC).timestamp()),
    ],
)
def test_a_moment_is_a_date_a_time_or_so_long_ago(text: str, expected: float | None) -> None:
    assert moment_in(text, now=NOW) == expected


@pytest.mark.parametrize("text", ["yesterday", "7", "2026-13-01", "99:99", "-1d", "0001-01-01T00:00+99:00"])
def test_what_is_no_moment_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ConfigError, match="is not a time") as refused:
        moment_in(text, now=NOW)
    assert "7d" in refused.value.hint
