"""When a schedule is due: instants in UTC, from a cron expression in a time zone or from an interval.

The zone's transitions are handled here, for all expressions alike. A cron expression with named hours, such as
`30 2 * * *` or `*/15 2 * * *`, means wall-clock times: one that does not exist is due at the next instant that does,
and one that comes twice is due the first time. An expression whose hour begins with `*` follows elapsed time: it is due
whenever the clock on the wall shows a matching time, also the second time.
"""

import math
from bisect import bisect_left
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from heapq import heappop, heappush
from typing import Final, NamedTuple, Protocol
from zoneinfo import ZoneInfo

from agent_fabric.domain.dataclass import dataclass

WallTimes = Callable[[datetime], Iterator[datetime]]
"""Times on the wall (without a zone) that a cron expression names, ascending, after a given one."""

SHORTCUTS: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_AHEAD_H: Final = (1, 3, 6, 12, 18, 26)
"""Hours in which a zone is looked at for a clock that is about to be set back."""


class Timing(Protocol):
    """When something is due."""

    def after(self, instant: float) -> Iterator[float]:
        """Return the instants at which it is due, ascending, later than `instant`."""
        ...


class PlacedTime(NamedTuple):
    """A time on the wall, on the line of time."""

    instants: tuple[float, ...]
    """When the clock shows it: once, twice, or, if it is skipped, the instant at which the clock jumps over it."""
    skipped: bool = False
    """The clock never shows it."""


def place(wall: datetime, zone: ZoneInfo) -> PlacedTime:
    """Return when the clock of a zone shows a time."""
    first, second = wall.replace(tzinfo=zone, fold=0), wall.replace(tzinfo=zone, fold=1)
    before, after = first.utcoffset(), second.utcoffset()
    assert before is not None
    assert after is not None
    if before == after:
        return PlacedTime((first.timestamp(),))
    if before > after:
        return PlacedTime((first.timestamp(), second.timestamp()))
    return PlacedTime((_jump(second.timestamp(), first.timestamp(), zone),), skipped=True)


def _jump(before: float, upto: float, zone: ZoneInfo) -> float:
    """Return the first instant after `before` at which the zone's offset is that of `upto`."""
    seconds = range(math.floor(before) + 1, math.ceil(upto) + 1)
    new = _offset(seconds[-1], zone)
    return float(seconds[bisect_left(seconds, True, key=lambda second: _offset(second, zone) == new)])


def _offset(instant: float, zone: ZoneInfo) -> timedelta:
    offset = datetime.fromtimestamp(instant, zone).utcoffset()
    assert offset is not None
    return offset


@dataclass(frozen=True, slots=True)
class CronTiming:
    """Timing of a cron expression in a zone."""

    walls: WallTimes
    zone: ZoneInfo
    names_hours: bool
    """Whether the hours are named, and not `*`."""

    def after(self, instant: float) -> Iterator[float]:
        last = instant
        for each in self._named_instants(instant) if self.names_hours else self._repeated_instants(instant):
            if each > last:  # several times that are skipped together are one instant
                last = each
                yield each

    def _named_instants(self, instant: float) -> Iterator[float]:
        for wall in self.walls(self._wall(instant)):
            yield place(wall, self.zone).instants[0]

    def _repeated_instants(self, instant: float) -> Iterator[float]:
        start = self._wall(instant) - self._set_back_after(instant)
        again: list[float] = []
        """Second times that the clock shows something."""
        for wall in self.walls(start):
            placed = place(wall, self.zone)
            while again and again[0] < placed.instants[0]:
                yield heappop(again)
            if not placed.skipped:
                yield placed.instants[0]
                for second in placed.instants[1:]:
                    heappush(again, second)
        yield from sorted(again)

    def _wall(self, instant: float) -> datetime:
        return datetime.fromtimestamp(instant, self.zone).replace(tzinfo=None)

    def _set_back_after(self, instant: float) -> timedelta:
        """Return by how much the clock is soon set back: what it shows now may come again."""
        now = _offset(instant, self.zone)
        return max(now - min(_offset(instant + hours * 3600, self.zone) for hours in _AHEAD_H), timedelta())


@dataclass(frozen=True, slots=True)
class EveryTiming:
    """Timing of an interval. It keeps its phase: restarts and changes of other settings do not shift it."""

    every_s: float
    anchor: float

    def after(self, instant: float) -> Iterator[float]:
        count = max(math.floor((instant - self.anchor) / self.every_s), 0)
        while True:
            due = self.anchor + count * self.every_s
            if due > instant:
                yield due
            count += 1


@dataclass(frozen=True, slots=True)
class BoundedTiming:
    """Timing within a period."""

    inner: Timing
    starts_at: float | None = None
    ends_at: float | None = None

    def after(self, instant: float) -> Iterator[float]:
        begin = instant if self.starts_at is None else max(instant, math.nextafter(self.starts_at, -math.inf))
        for due in self.inner.after(begin):
            if self.ends_at is not None and due > self.ends_at:
                return
            yield due


def next_after(timing: Timing, instant: float) -> float | None:
    """Return when something is due next; None: never again."""
    return next(timing.after(instant), None)


def due_between(timing: Timing, after: float, until: float) -> Iterator[float]:
    """Return the due instants that are later than `after` and not later than `until`."""
    for due in timing.after(after):
        if due > until:
            return
        yield due


def plain_expression(expression: str) -> str:
    """Return the five fields of a cron expression; a shortcut is written out."""
    return SHORTCUTS.get(expression.strip().lower(), " ".join(expression.split()))


def names_hours(expression: str) -> bool:
    """Tell whether an expression names hours, and does not mean all of them or every so many."""
    return not plain_expression(expression).split()[1].startswith("*")


def shown_instant(instant: float, timezone: str) -> str:
    """Return an instant for people, to the second, in a zone."""
    text = datetime.fromtimestamp(instant, ZoneInfo(timezone)).isoformat(timespec="seconds")
    return text.replace("+00:00", "Z") if timezone == "UTC" else text


def iso_utc(instant: float) -> str:
    """Return an instant as text, for keys."""
    return datetime.fromtimestamp(instant, UTC).isoformat().replace("+00:00", "Z")
