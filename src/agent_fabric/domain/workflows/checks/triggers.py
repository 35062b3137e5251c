"""Checks triggers."""

import re
from typing import Any, Final, NamedTuple

from agent_fabric.domain.definitions.problems import CheckPosition, ProblemCollector

_SHORTCUTS: Final = frozenset({"@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"})
_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_MAX_DAYS: Final = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_PART: Final = re.compile(
    r"(?P<from>\*|[a-z]{3}|\d{1,2})(?:-(?P<to>[a-z]{3}|\d{1,2}))?(?:/(?P<every>\d{1,2}))?", re.ASCII
)


class _Column(NamedTuple):
    name: str
    least: int
    most: int
    words: tuple[str, ...] = ()
    """Names for the numbers from `least` on."""


_COLUMNS: Final = (
    _Column("minute", 0, 59),
    _Column("hour", 0, 23),
    _Column("day of the month", 1, 31),
    _Column("month", 1, 12, _MONTHS),
    _Column("day of the week", 0, 7, _DAYS),
)


def check_triggers(plain: Any, findings: ProblemCollector) -> None:
    """Note what is wrong with a schedule."""
    schedule = plain.get("schedule") if isinstance(plain, dict) else None
    if isinstance(schedule, str) and schedule:
        place = CheckPosition(("triggers", "schedule"))
        if message := cron_problem(schedule):
            findings.add(place, f"triggers.schedule {schedule[:60]!r} is no cron expression: {message}", _HINT)


def cron_problem(text: str) -> str:
    """Say what is wrong with a cron expression; empty: nothing."""
    if text.startswith("@"):
        return "" if text in _SHORTCUTS else f"{text!r} is not one of {', '.join(sorted(_SHORTCUTS))}"
    columns = text.lower().split()
    if len(columns) != len(_COLUMNS):
        return f"it has {len(columns)} fields, not 5"
    values: list[set[int]] = []
    for column, written in zip(_COLUMNS, columns, strict=True):
        chosen: set[int] = set()
        for part in written.split(","):
            problem = _take(part, column, chosen)
            if problem:
                return problem
        values.append(chosen)
    _, _, days, months, _ = values
    if columns[4] == "*" and min(days) > max(_MAX_DAYS[month - 1] for month in months):
        return f"no such month has a day {min(days)}"
    return ""


def _take(part: str, column: _Column, chosen: set[int]) -> str:
    match = _PART.fullmatch(part)
    if match is None:
        return f"{part!r} is no {column.name}"
    if match["from"] == "*":
        first, last = column.least, column.most
        if match["to"] is not None:
            return f"{part!r} is no {column.name}"
    else:
        start = _value(match["from"], column)
        end = start if match["to"] is None else _value(match["to"], column)
        if start is None or end is None:
            return f"{part!r} is no {column.name}: it goes from {column.least} to {column.most}"
        first, last = start, column.most if match["to"] is None and match["every"] else end
    every = int(match["every"] or 1)
    if every < 1:
        return f"{part!r} is no {column.name}: a step of 0 never moves"
    if first > last:
        return f"{part!r} is no {column.name}: {first} comes after {last}"
    chosen.update(range(first, last + 1, every))
    return ""


def _value(word: str, column: _Column) -> int | None:
    if word in column.words:
        return column.words.index(word) + column.least
    value = int(word) if word.isdecimal() else -1
    return value if column.least <= value <= column.most else None


_HINT: Final = "Write minute, hour, day, month and weekday, as in: 0 3 * * * (every night at three)"
