"""Every transition of all zones, from the files of tzdata, and what is due around one: brute force by arithmetic."""

import struct
from collections.abc import Iterator
from datetime import UTC, date, datetime
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple
from zoneinfo import ZoneInfo, available_timezones

DAY_S = 86_400
EPOCH = date(1970, 1, 1).toordinal()
_WEEK_S = 7 * DAY_S
_HEADER = struct.Struct(">4s1s15x6l")


class Transition(NamedTuple):
    """A moment at which the clock of a zone is set to another offset."""

    zone: str
    instant: int
    before: int
    after: int


class _ZoneFile(NamedTuple):
    listed: tuple[tuple[int, int, int], ...]
    """Instants and offsets before and after, as the file lists them."""
    rule: str
    """What holds for the years behind the list, in the words of POSIX."""


def every_transition(first_year: int, last_year: int) -> list[Transition]:
    """Return every transition of a period once, however many zones have it."""
    first, last = _new_year(first_year), _new_year(last_year + 1)
    found: dict[tuple[int, int, int], str] = {}
    rules: dict[str, tuple[int, str]] = {}
    """Each rule with the zone that goes by it first, and since when."""
    for zone in sorted(available_timezones()):
        file = _read(zone)
        for each in file.listed:
            if first <= each[0] < last:
                found.setdefault(each, zone)
        since = file.listed[-1][0] if file.listed else first
        if "," in file.rule:  # else its clock is never set again
            rules[file.rule] = min(rules.get(file.rule, (since, zone)), (since, zone))
    for since, zone in rules.values():
        for each in _by_rule(zone, max(since + 1, first), last):
            found.setdefault(each, zone)
    return [Transition(zone, *each) for each, zone in sorted(found.items())]


def _new_year(year: int) -> int:
    return int(datetime(year, 1, 1, tzinfo=UTC).timestamp())


@cache
def _files() -> Path:
    found = find_spec("tzdata")
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent / "zoneinfo"


@cache
def _read(zone: str) -> _ZoneFile:
    """Read a file in the format TZif, RFC 8536: the part with 64-bit numbers, which is its second one."""
    raw = (_files() / zone).read_bytes()
    *_, utc, standard, leaps, times, types, letters = _HEADER.unpack_from(raw)
    begin = _HEADER.size + times * 5 + types * 6 + letters + leaps * 8 + standard + utc
    *_, utc, standard, leaps, times, types, letters = _HEADER.unpack_from(raw, begin)
    at = begin + _HEADER.size
    instants = struct.unpack_from(f">{times}q", raw, at)
    kinds = raw[at + 8 * times : at + 9 * times]
    offsets = [each[0] for each in struct.iter_unpack(">lbB", raw[at + 9 * times : at + 9 * times + 6 * types])]
    listed, before = [], offsets[0]
    for instant, kind in zip(instants, kinds, strict=True):
        if offsets[kind] != before:
            listed.append((instant, before, offsets[kind]))
        before = offsets[kind]
    return _ZoneFile(tuple(listed), raw.rsplit(b"\n", 2)[-2].decode())


def _by_rule(zone: str, first: int, last: int) -> Iterator[tuple[int, int, int]]:
    """Find the transitions of a rule, which are months apart."""
    info = ZoneInfo(zone)

    def offset(instant: int) -> int:
        shift = datetime.fromtimestamp(instant, info).utcoffset()
        assert shift is not None
        return int(shift.total_seconds())

    before = offset(first)
    for week in range(first, last, _WEEK_S):
        upto = min(week + _WEEK_S, last)
        after = offset(upto - 1)
        if after != before:
            low, high = week - 1, upto - 1
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (middle, high) if offset(middle) == before else (low, middle)
            yield high, before, after
        before = after


def is_alone(transition: Transition, within_s: int) -> bool:
    """Tell whether the clock of its zone is set only once around it."""
    zone = ZoneInfo(transition.zone)
    ends = [
        datetime.fromtimestamp(transition.instant + shift, zone).utcoffset()
        for shift in (-within_s - DAY_S, within_s + DAY_S)
    ]
    near = [each for each in _read(transition.zone).listed if abs(each[0] - transition.instant) <= within_s + DAY_S]
    plain = [None if each is None else int(each.total_seconds()) for each in ends]
    return len(near) <= 1 and plain == [transition.before, transition.after]


class Fields:
    """What an expression matches, read without cronsim."""

    def __init__(self, expression: str) -> None:
        minute, hour, day, month, weekday = expression.split()
        self.minutes, self.hours = _values(minute, 0, 59), _values(hour, 0, 23)
        self.days, self.months = _values(day, 1, 31), _values(month, 1, 12)
        self.weekdays = {each % 7 for each in _values(weekday, 0, 7)}
        self.both = day.startswith("*") or weekday.startswith("*")
        self.named = not hour.startswith("*")
        self.of_day = tuple(hour * 60 + minute for hour in sorted(self.hours) for minute in sorted(self.minutes))

    def match_day(self, shown: date) -> bool:
        day, weekday = shown.day in self.days, (shown.weekday() + 1) % 7 in self.weekdays
        return shown.month in self.months and ((day and weekday) if self.both else (day or weekday))

    def match(self, wall: datetime) -> bool:
        return wall.minute in self.minutes and wall.hour in self.hours and self.match_day(wall)

    def walls(self, first: int, last: int) -> Iterator[int]:
        """Return the times on the wall from `first` up to `last`, in seconds since 1970 on the wall."""
        for day in range(first // DAY_S, last // DAY_S + 1):
            if self.match_day(date.fromordinal(EPOCH + day)):
                for minute in self.of_day:
                    if first <= (wall := day * DAY_S + minute * 60) < last:
                        yield wall


def _values(text: str, least: int, most: int) -> set[int]:
    found: set[int] = set()
    for part in text.split(","):
        span, _, step = part.partition("/")
        first, _, last = span.partition("-")
        low = least if first == "*" else int(first)
        high = most if first == "*" or (step and not last) else int(last or first)
        found.update(range(low, high + 1, int(step or 1)))
    return found


fields_of = cache(Fields)


def due_around(expression: str, transition: Transition, within_s: int) -> list[float]:
    """Return what is due around a transition that is the only one there: every minute that the wall clock shows."""
    fields, (_, at, before, after) = fields_of(expression), transition
    due = {wall - before for wall in fields.walls(at - within_s + before, at + before)}
    shown_before = at + before
    for wall in fields.walls(at + after, at + within_s + 1 + after):
        if not (fields.named and wall < shown_before):  # the second time that the clock shows it
            due.add(wall - after)
    if fields.named and any(True for _ in fields.walls(at + before, at + after)):
        due.add(at)  # what the clock has jumped over
    return [float(each) for each in sorted(due)]
