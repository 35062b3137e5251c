"""Rules fire after their time, once, and are over only when all has been well for a while."""

import pytest

from agent_fabric.domain.observability.alerts import (
    BUILT_IN,
    Alert,
    AlertRule,
    EventSeen,
    Stage,
    Threshold,
    after_event,
    after_look,
    after_silence,
    condition_of,
)

pytestmark = pytest.mark.proves("A33-110")

HOT = AlertRule(name="hot", when=Threshold("x", ">", 5), for_s=300)


def played(rule: AlertRule, values: list[tuple[float, float | None]]) -> list[tuple[float, Stage]]:
    """Return what is told, and when, while a value goes its way."""
    alert, told = Alert(), list[tuple[float, Stage]]()
    for now, value in values:
        change = after_look(rule, alert, value, now)
        alert = change.alert
        if change.told is not None:
            told.append((now, change.told))
    return told


@pytest.mark.parametrize(
    ("text", "condition"),
    [
        ("runs_failed_ratio > 0.5", Threshold("runs_failed_ratio", ">", 0.5)),
        ("x<=-1e3", Threshold("x", "<=", -1000)),
        (" event security_event ", EventSeen("security_event")),
    ],
)
def test_conditions_are_read_as_people_write_them(text: str, condition: object) -> None:
    assert condition_of(text) == condition


@pytest.mark.parametrize(
    "text", ["", "x", "x > y", "x > nan", "event", "x > 1 and y > 2", "X > 1", "x => 1", "a" * 9_999]
)
def test_what_is_no_condition_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="must be like"):
        condition_of(text)


def test_an_alert_fires_only_when_it_has_been_so_for_long_enough() -> None:
    assert played(HOT, [(0, 6), (299, 6), (300, 6), (315, 9)]) == [(300, Stage.FIRING)]
    assert played(HOT, [(0, 6), (200, 1), (210, 6), (505, 6)]) == []
    assert played(AlertRule(name="now", when=HOT.when), [(0, 6)]) == [(0, Stage.FIRING)]


def test_a_value_that_flutters_is_told_once() -> None:
    fluttering = [(float(at), 6.0 if at // 15 % 2 else 1.0) for at in range(315, 100_000, 15)]
    assert played(HOT, [(0, 6), (300, 6), *fluttering]) == [(300, Stage.FIRING)]


def test_it_is_over_when_all_has_been_well_as_long_as_it_took_to_fire() -> None:
    assert played(HOT, [(0, 6), (300, 6), (310, 1), (609, 1), (610, 1)]) == [(300, Stage.FIRING), (610, Stage.QUIET)]


def test_a_value_that_nobody_knows_changes_nothing() -> None:
    assert played(HOT, [(0, 6), (150, None), (300, 6), (400, None), (5_000, None)]) == [(300, Stage.FIRING)]


def test_events_fire_at_once_and_are_counted_until_they_stop() -> None:
    rule = AlertRule(name="e", when=EventSeen("run_failed"), for_s=60)
    first = after_event(Alert(), 0)
    second = after_event(first.alert, 50)
    assert (first.told, second.told, second.alert.value) == (Stage.FIRING, None, 2)
    assert after_silence(rule, second.alert, 100).told is None
    over = after_silence(rule, second.alert, 110)
    assert (over.told, over.alert.stage) == (Stage.QUIET, Stage.QUIET)
    assert after_silence(rule, over.alert, 500).told is None


@pytest.mark.proves("FL-8")
def test_an_absence_of_machines_under_a_minute_raises_no_alert() -> None:
    rule = next(rule for rule in BUILT_IN if rule.name == "machine-absent")
    assert played(rule, [(0, 0), (10, 3), (69, 3), (70, 0), (80, 1), (139, 1)]) == []
    assert played(rule, [(0, 1), (60, 1), (90, 0), (150, 0)]) == [(60, Stage.FIRING), (150, Stage.QUIET)]


def test_the_built_in_rules_have_names_of_their_own() -> None:
    assert len({rule.name for rule in BUILT_IN}) == len(BUILT_IN)
