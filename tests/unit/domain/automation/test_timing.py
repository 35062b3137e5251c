"""When schedules are due, against a brute-force oracle around the transitions of all zones."""

import random
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from itertools import count, islice, pairwise, takewhile
from zoneinfo import ZoneInfo

import pytest

from agent_fabric.domain.automation.timing import (
    BoundedTiming,
    CronTiming,
    EveryTiming,
    due_between,
    names_hours,
    next_after,
    place,
)
from agent_fabric.domain.errors import ConfigError
from agent_fabric.infrastructure.automation.cronsim_walls import read_cron, use_own_zones
from effort import SOAK, effort, report
from unit.domain.automation.zone_transitions import (
    DAY_S,
    EPOCH,
    Transition,
    due_around,
    every_transition,
    fields_of,
    is_alone,
)

EXPRESSIONS = (
    "*/15 2 * * *",
    "30 2 * * *",
    "0 3 * * *",
    "30 * * * *",
    "*/20 * * * *",
    "15 */3 * * *",
    "0 0 * * *",
    "5,35 0-4 * * *",
    "0 12 */2 * 1-5",
    "59 23 * * 0",
)
AROUND_S = 2 * DAY_S
MONTH_S = 30 * DAY_S
"""Transitions of one month are compared with the same expression, except in a soak."""
SOME = 12
"""Instants that are compared when a server asks from somewhere in between."""


def cron(expression: str, zone: str) -> CronTiming:
    return CronTiming(read_cron(expression), ZoneInfo(zone), names_hours(expression))


def at(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def local(instants: Sequence[float], zone: str) -> list[str]:
    return [datetime.fromtimestamp(each, ZoneInfo(zone)).isoformat() for each in instants]


def between(expression: str, zone: str, start: str, end: str) -> list[str]:
    return local(list(due_between(cron(expression, zone), at(start) - 1, at(end))), zone)


def test_a_quarter_hourly_rule_in_the_hour_that_is_skipped_runs_once_when_the_clock_has_jumped() -> None:
    found = between("*/15 2 * * *", "Europe/Berlin", "2026-03-29T00:00+00:00", "2026-03-29T06:00+00:00")
    assert found == ["2026-03-29T03:00:00+02:00"]


def test_a_time_that_comes_twice_runs_once_the_first_time() -> None:
    found = between("30 2 * * *", "Europe/Berlin", "2026-10-24T20:00+00:00", "2026-10-25T20:00+00:00")
    assert found == ["2026-10-25T02:30:00+02:00"]


def test_every_hour_follows_elapsed_time_through_both_transitions() -> None:
    spring = list(due_between(cron("0 * * * *", "Europe/Berlin"), at("2026-03-28T22:30Z"), at("2026-03-29T04:00Z")))
    autumn = list(due_between(cron("0 * * * *", "Europe/Berlin"), at("2026-10-24T22:30Z"), at("2026-10-25T04:00Z")))
    assert {second - first for first, second in pairwise(spring)} == {3600.0}
    assert {second - first for first, second in pairwise(autumn)} == {3600.0}


def test_a_day_that_a_zone_skipped_is_made_up_for_once() -> None:
    found = between("0 9 * * *", "Pacific/Apia", "2011-12-29T12:00+00:00", "2011-12-31T12:00+00:00")
    assert found == ["2011-12-29T09:00:00-10:00", "2011-12-31T00:00:00+14:00", "2011-12-31T09:00:00+14:00"]


def test_an_interval_keeps_its_phase_whatever_it_is_asked_after() -> None:
    every = EveryTiming(90.0, 1_000.0)
    assert list(islice(every.after(1_000.0), 2)) == [1_090.0, 1_180.0]
    assert next_after(every, 1_000.0 + 90.0 * 12_345 + 7) == 1_000.0 + 90.0 * 12_346
    assert next_after(every, 0.0) == 1_000.0


def test_a_period_bounds_both_ends() -> None:
    bounded = BoundedTiming(EveryTiming(60.0, 0.0), starts_at=120.0, ends_at=240.0)
    assert list(bounded.after(0.0)) == [120.0, 180.0, 240.0]
    assert next_after(bounded, 240.0) is None


@pytest.mark.parametrize("wrong", ["", "* * * *", "61 * * * *", "0 0 31 2 *", "@often", "* * * * * *", "a b c d e"])
def test_what_is_no_cron_expression_is_refused(wrong: str) -> None:
    with pytest.raises(ConfigError, match="no cron expression"):
        read_cron(wrong)


@pytest.mark.parametrize(("shortcut", "plain"), [("@daily", "0 0 * * *"), ("@hourly", "0 * * * *")])
def test_shortcuts_are_written_out(shortcut: str, plain: str) -> None:
    now = at("2026-03-28T12:00Z")
    one, other = cron(shortcut, "Europe/Berlin").after(now), cron(plain, "Europe/Berlin").after(now)
    assert list(islice(one, 40)) == list(islice(other, 40))


def brute_force(expression: str, zone: ZoneInfo, start: int, end: int) -> list[float]:
    """Look at every minute of a period, and at every minute that the clock jumps over."""
    fields = fields_of(expression)
    due: set[float] = set()
    before: datetime | None = None
    for instant in range(start, end + 1, 60):
        now = datetime.fromtimestamp(instant, zone)
        if before is not None and before.utcoffset() != now.utcoffset():
            shown, last = now.replace(tzinfo=None, fold=0), before.replace(tzinfo=None, fold=0)
            while fields.named and shown - last > timedelta(minutes=1):
                last += timedelta(minutes=1)
                if fields.match(last) and last != shown:
                    due.add(float(instant))
        if fields.match(now) and not (fields.named and now.fold):
            due.add(float(instant))
        before = now
    return sorted(due)


@cache
def transitions(zone: str, first_year: int, last_year: int) -> tuple[tuple[int, float, float], ...]:
    """Return when the offset of a zone changes, and from what to what."""
    info, found = ZoneInfo(zone), []
    day = int(datetime(first_year, 1, 1, tzinfo=UTC).timestamp())
    end = int(datetime(last_year, 12, 31, tzinfo=UTC).timestamp())

    def offset(instant: int) -> float:
        shift = datetime.fromtimestamp(instant, info).utcoffset()
        assert shift is not None
        return shift.total_seconds()

    last = offset(day)
    while day < end:
        now = offset(day + DAY_S)
        if now != last:
            low, high = day, day + DAY_S
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (middle, high) if offset(middle) == last else (low, middle)
            found.append((high, last, now))
        day, last = day + DAY_S, now
    return tuple(found)


@cache
def walls_of_day(expression: str, ordinal: int) -> tuple[datetime, ...]:
    """Return what cronsim says of a day; of an expression that means every day, only the first day is asked for."""
    if ordinal != EPOCH and expression.endswith(" * * *"):
        return tuple(wall + timedelta(days=ordinal - EPOCH) for wall in walls_of_day(expression, EPOCH))
    day = datetime.fromordinal(ordinal)
    following = read_cron(expression)(day - timedelta(minutes=1))
    return tuple(takewhile(lambda wall: wall < day + timedelta(days=1), following))


def known_walls(expression: str, after: datetime) -> Iterator[datetime]:
    """Return what cronsim says, each day once: most transitions share their days with others."""
    first = after.toordinal()
    yield from (wall for wall in walls_of_day(expression, first) if wall > after)
    for ordinal in count(first + 1):
        yield from walls_of_day(expression, ordinal)


def differs(expression: str, transition: Transition) -> bool:
    """Compare two days around a transition with the oracle, from random instants on, as a server asks."""
    start, end = transition.instant - AROUND_S, transition.instant + AROUND_S
    timing = replace(cron(expression, transition.zone), walls=partial(known_walls, expression))
    if is_alone(transition, AROUND_S):
        expected = due_around(expression, transition, AROUND_S)
    else:
        expected = brute_force(expression, ZoneInfo(transition.zone), start, end)
    if list(due_between(timing, start - 1, end)) != expected:
        return True
    chance = random.Random(f"{expression} {transition}")
    begins = [*(chance.randrange(start, end) for _ in range(effort(1, 3))), transition.instant - 1, transition.instant]
    return any(
        list(islice(due_between(timing, begin, end), SOME)) != expected[bisect_right(expected, begin) :][:SOME]
        for begin in begins
    )


@pytest.mark.slow
@pytest.mark.proves("AU-7", "C21")
def test_around_every_transition_of_all_zones_nothing_is_due_too_often_too_seldom_or_at_another_time() -> None:
    use_own_zones()
    found = [each for each in every_transition(1972, 2037) if each.before % 60 == each.after % 60 == 0]
    wrong = [
        (expression, each)
        for each in found
        for expression in (EXPRESSIONS if SOAK else (EXPRESSIONS[each.instant // MONTH_S % len(EXPRESSIONS)],))
        if differs(expression, each)
    ]
    report("transitions of all time zones against brute force", len(found))
    assert len(found) > 5_000
    assert wrong == []


def test_what_arithmetic_finds_around_a_transition_is_what_a_look_at_every_minute_finds() -> None:
    tricky = {"Australia/Lord_Howe", "Pacific/Apia", "Africa/Casablanca", "America/St_Johns", "Europe/Berlin"}
    found = [each for each in every_transition(2010, 2012) if each.zone in tricky and is_alone(each, AROUND_S)]
    for nth, each in enumerate(found):
        expression, zone = EXPRESSIONS[nth % len(EXPRESSIONS)], ZoneInfo(each.zone)
        literal = brute_force(expression, zone, each.instant - AROUND_S, each.instant + AROUND_S)
        assert due_around(expression, each, AROUND_S) == literal, (expression, each)
    assert len(found) > 5


def test_whole_years_of_zones_are_as_brute_force_finds_them() -> None:
    zones = ["Europe/Berlin", "Australia/Lord_Howe", "America/New_York", "Africa/Casablanca", "Asia/Kathmandu"]
    days, tried = effort(20, 366), 0
    for zone in zones[: effort(1, 5)]:
        for year in (2011, 2026):
            start = int(datetime(year, 1, 1, tzinfo=UTC).timestamp())
            end = start + days * DAY_S
            for expression in EXPRESSIONS[: effort(4, 10)]:
                expected = brute_force(expression, ZoneInfo(zone), start, end)
                assert list(due_between(cron(expression, zone), start - 1, end)) == expected
                tried += 1
    report("whole years of cron expressions against brute force", tried)


def test_a_skipped_time_is_placed_where_the_clock_jumps() -> None:
    placed = place(datetime.fromisoformat("2026-03-29T02:30"), ZoneInfo("Europe/Berlin"))
    assert placed.skipped
    assert placed.instants == (at("2026-03-29T01:00Z"),)
