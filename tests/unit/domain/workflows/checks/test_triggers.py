"""Schedules are checked, and what nothing watches yet is said."""

import pytest

from agent_fabric.domain.workflows.checks.triggers import cron_problem
from agent_fabric.domain.workflows.definition import Triggers


@pytest.mark.proves("A33-042")
@pytest.mark.parametrize(
    "text",
    ["0 3 * * *", "*/15 0-6,22 1 jan-mar MON", "59 23 31 12 7", "0 0 29 2 *", "0 0 31 2 mon", "5/10 * * * *", "@daily"],
)
def test_a_cron_expression_is_taken(text: str) -> None:
    assert cron_problem(text) == ""


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "it has 0 fields, not 5"),
        ("0 3 * *", "it has 4 fields, not 5"),
        ("0 3 * * * *", "it has 6 fields, not 5"),
        ("61 * * * *", "'61' is no minute: it goes from 0 to 59"),
        ("* 24 * * *", "'24' is no hour: it goes from 0 to 23"),
        ("* * 0 * *", "'0' is no day of the month: it goes from 1 to 31"),
        ("* * * foo *", "'foo' is no month: it goes from 1 to 12"),
        ("* * * * 8", "'8' is no day of the week: it goes from 0 to 7"),
        ("*/0 * * * *", "'*/0' is no minute: a step of 0 never moves"),
        ("5-1 * * * *", "'5-1' is no minute: 5 comes after 1"),
        ("*-5 * * * *", "'*-5' is no minute"),
        ("1,,2 * * * *", "'' is no minute"),
        ("٣ * * * *", "'٣' is no minute"),
        ("0 0 31 2,4 *", "no such month has a day 31"),
        ("@nightly", "'@nightly' is not one of @annually, @daily, @hourly, @midnight, @monthly, @weekly, @yearly"),
    ],
)
def test_what_is_wrong_with_a_cron_expression_is_said(text: str, told: str) -> None:
    assert cron_problem(text) == told


@pytest.mark.proves("A33-042")
def test_triggers_are_listed_one_by_one() -> None:
    triggers = Triggers(schedule="@daily", on_change=("src/**",), on_event=("push",), webhook=("code",))
    assert [(each.kind, each.when) for each in triggers.entries()] == [
        ("manual", ""),
        ("schedule", "@daily"),
        ("on_change", "src/**"),
        ("on_event", "push"),
        ("webhook", "code"),
    ]
