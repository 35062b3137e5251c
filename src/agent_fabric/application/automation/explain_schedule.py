"""Says why a schedule did or did not do something, and what it will do."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from itertools import islice
from typing import NamedTuple
from zoneinfo import ZoneInfo

from agent_fabric.application.ports.automation import FiringHistory, FiringOverview, ReadCron
from agent_fabric.application.ports.clock import Clock
from agent_fabric.domain.automation.firing import FiringStatus, Reason
from agent_fabric.domain.automation.schedule import Rule, zone_of
from agent_fabric.domain.automation.timing import WallTimes, due_between, names_hours, next_after, place
from agent_fabric.domain.automation.why import SAME_S, Explain, Explanation, History, Verdict, asked_time
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import InvalidInputs, ScheduleNotFound
from agent_fabric.domain.ids import RunId

_IN_THE_WAY = frozenset({Reason.OVERLAP.value, Reason.QUEUE_FULL.value, FiringStatus.QUEUED.value})
"""Reasons that are about a run under way."""
MAX_SHOWN = 20_000
"""Instants of one simulation."""
YEAR_S = 366 * 86_400.0


@dataclass(frozen=True, slots=True)
class ExplainSchedule:
    """Use case: answer from the log why something happened at a time, or did not."""

    history: FiringHistory
    read_cron: ReadCron
    clock: Clock
    overview: FiringOverview

    async def __call__(self, name: str, at: str, *, timezone: str = "") -> Explanation:
        """Explain a time: ISO 8601; without an offset, a time of the schedule's zone.

        Raises:
            ScheduleNotFound: there never was such a schedule.
            InvalidInputs: that is no time.
        """
        versions = await self.history.versions(name)
        if not versions:
            raise ScheduleNotFound(f"There is no schedule {name!r}", hint="See them with `fabric schedules list`.")
        try:
            asked = asked_time(at, timezone or versions[-1].rule.timezone)
        except (ValueError, OverflowError, OSError):
            raise InvalidInputs(f"{at[:60]!r} is no time", hint="Write such as 2026-11-17T03:00, or with Z.") from None
        history = History(
            versions=versions,
            firings=await self.history.around(name, asked.instant, within_s=SAME_S),
            lives=await self.history.lives(asked.instant),
            now=self.clock.now(),
        )
        return await self._with_question(name, Explain(history, self.read_cron)(asked), history.now)

    async def _with_question(self, name: str, found: Explanation, now: float) -> Explanation:
        """Return an explanation with the question that the run in its way had asked, or that is asked now."""
        if found.reason in _IN_THE_WAY and found.about:
            at = found.at if found.fired_at is None else found.fired_at
            waited = [each for each in await self.overview.questions(RunId(found.about)) if each.is_open_at(at)]
            return found.waiting_for(waited[0], now=now) if waited else found
        open_now = (await self.overview.open_questions([name])).get(name)
        if open_now is None or found.answer is Verdict.MOVED or found.at < open_now.since:
            return found
        return found.waiting_for(open_now, now=now)

    def upcoming(self, rule: Rule, start: float, count: int) -> "Sequence[PlannedFiring]":
        """Return the next instants of a rule, and what is odd about each.

        Raises:
            ConfigError: the rule cannot be read.
        """
        return _planned_firings(rule, self.read_cron, islice(rule.timing(self.read_cron).after(start), count))

    def simulate(self, rule: Rule, start: float | None, until: float | None) -> "Sequence[PlannedFiring]":
        """Return when a rule is due, from now on if no start is given; see the function `simulate`."""
        return simulate(rule, self.read_cron, self.clock.now() if start is None else start, until)


class PlannedFiring(NamedTuple):
    """An instant at which something will be due."""

    at: float
    local: str
    """On the clock of the zone."""
    note: str
    """What is odd about it; empty: nothing."""


def simulate(rule: Rule, read_cron: ReadCron, start: float, until: float | None) -> Sequence[PlannedFiring]:
    """Return when a rule is due in a period, at most 20,000 instants, and what is odd about each.

    Without an end it is a year, or up to the next instant if that is later.

    Raises:
        ConfigError: the rule cannot be read.
    """
    timing = rule.timing(read_cron)
    end = max(start + YEAR_S, next_after(timing, start) or 0.0) if until is None else until
    return _planned_firings(rule, read_cron, islice(due_between(timing, start, end), MAX_SHOWN))


def _planned_firings(rule: Rule, read_cron: ReadCron, instants: Iterable[float]) -> list[PlannedFiring]:
    zone = zone_of(rule.timezone)
    named = rule.every_s is None and names_hours(rule.cron_expression)
    walls = read_cron(rule.cron_expression) if named else None
    planned = []
    for at in instants:
        local = datetime.fromtimestamp(at, zone)
        note = _again(local) if walls is None else _oddity(walls, zone, local)
        planned.append(PlannedFiring(at, local.isoformat(timespec="seconds"), note))
    return planned


def _again(local: datetime) -> str:
    return "the clock shows this time again" if local.fold else ""


def _oddity(walls: WallTimes, zone: ZoneInfo, local: datetime) -> str:
    """Say that an instant stands for a time that does not exist, or for the first of two."""
    wall = local.replace(tzinfo=None)
    if len(place(wall, zone).instants) > 1:
        return "the clock shows this time twice: only the first counts"
    if next(walls(wall - timedelta(seconds=1)), None) == wall:
        return ""
    return "the named time does not exist on this day: due at the next instant that does"
