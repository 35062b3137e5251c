"""Why a schedule did or did not do something at some time. Pure, over what was recorded: rules, firings, processes."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final, NamedTuple

from agent_fabric.domain.automation.firing import AskedPerson, Firing, FiringStatus, Reason
from agent_fabric.domain.automation.schedule import SET_BACK, RuleVersion, zone_of
from agent_fabric.domain.automation.timing import Timing, WallTimes, due_between, names_hours, place, shown_instant
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.ids import RunId

HEARTBEAT_S: Final = 5.0
"""How often a process that fires schedules says that it is alive."""
ALIVE_SLACK_S: Final = 2 * HEARTBEAT_S
SAME_S: Final = 60.0
"""An instant is meant if it is asked for within the minute that it begins."""
_LOOKS_BACK_S: Final = (3_600.0, 86_400.0, 40 * 86_400.0, 400 * 86_400.0)


class Verdict(StrEnum):
    """The answer in one word."""

    FIRED = "fired"
    SKIPPED = "skipped"
    NOT_DUE = "not_due"
    MOVED = "moved"
    NOBODY_ALIVE = "nobody_alive"


class Life(NamedTuple):
    """The time in which a process fired schedules."""

    server: str
    since: float
    until: float


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """What was recorded about one schedule."""

    versions: Sequence[RuleVersion]
    """Oldest first."""
    firings: Sequence[Firing]
    lives: Sequence[Life]
    now: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Why something happened, or did not."""

    answer: Verdict
    at: float
    text: str
    """One sentence."""
    due_at: float | None = None
    reason: str = ""
    run_id: RunId | None = None
    fired_at: float | None = None
    late_s: float | None = None
    server: str = ""
    about: str = ""
    """The run that it overlapped with, or what went wrong."""
    by: str = ""
    """Who paused or removed the schedule."""
    dead_from: float | None = None
    dead_until: float | None = None
    """When a process was alive again; None: not yet."""
    before: float | None = None
    after: float | None = None
    """The nearest due instants, where it was not due."""
    rule: str = ""
    """The rule as it was then."""
    revision: int | None = None
    approval_id: str = ""
    """What a person has to answer before it goes on; empty: nothing."""
    waits_since: float | None = None
    """Since when a person is asked."""
    timezone: str = "UTC"
    """Of the schedule; the sentence tells times in it."""

    def _moment(self, instant: float) -> str:
        return shown_instant(instant, self.timezone)

    def after_set_back(self, version: RuleVersion) -> "Explanation":
        """Return the same, and that the interval counts anew since the clock was set back."""
        by = version.changed_by.removeprefix(SET_BACK)
        at = self._moment(version.since)
        text = f"{self.text} The clock was set back{by} at {at}, and the interval counts from then."
        return replace(self, text=text)

    def waiting_for(self, asked: AskedPerson, *, now: float) -> "Explanation":
        """Return the same, and that the run in its way waited for a person then, or that its run does so now."""
        approval, since = asked.approval_id, self._moment(asked.since)
        if asked.decided_at is not None:
            by = asked.decided_by or "nobody in time"
            said = f"That run waited for a person from {since} to {self._moment(asked.decided_at)}, answered by {by}"
        elif now < asked.expires_at:
            said = f"Run {asked.run_id} waits for a person since {since}"
        else:
            said = f"That run waited for a person from {since} to {self._moment(asked.expires_at)}, and nobody answered"
        text = f"{self.text} {said} (fabric approvals show {approval})."
        return replace(self, text=text, approval_id=approval, waits_since=asked.since)


class AskedTime(NamedTuple):
    """The time that is asked about: an instant, and what was written if it named no zone."""

    instant: float
    wall: datetime | None = None


def asked_time(text: str, zone: str) -> AskedTime:
    """Return the time of a text: ISO 8601, or seconds since 1970. Without an offset, it is a time of the zone.

    Raises:
        ValueError: it is none.
        ConfigError: there is no such zone.
    """
    text = text.strip()
    try:
        return AskedTime(float(text))
    except ValueError:
        moment = datetime.fromisoformat(text)
    if moment.tzinfo is not None:
        return AskedTime(moment.timestamp())
    return AskedTime(place(moment, zone_of(zone)).instants[0], moment)


@dataclass(frozen=True, slots=True)
class Explain:
    """Answers for one schedule."""

    history: History
    read_cron: Callable[[str], WallTimes]

    def __call__(self, asked: AskedTime) -> Explanation:
        """Say what happened at a time, and why."""
        version = self._version(asked.instant)
        found = replace(self._explain(asked), timezone=self._zone)
        counts_anew = version is not None and version.changed_by.startswith(SET_BACK)
        return found.after_set_back(version) if counts_anew and version is not None else found

    @property
    def _zone(self) -> str:
        return self.history.versions[-1].rule.timezone if self.history.versions else "UTC"

    def _moment(self, instant: float) -> str:
        return shown_instant(instant, self._zone)

    def _explain(self, asked: AskedTime) -> Explanation:
        at = asked.instant
        version = self._version(at)
        moved = None if version is None else self._explain_move(version, asked)
        if moved is not None:
            return moved
        timing = None if version is None else version.rule.timing(self.read_cron)
        due = None if timing is None else _due_at(timing, at, self._same_s(version))
        row = self._row(at if due is None else due, exact=due is not None)
        if row is not None and row.status is not FiringStatus.SKIPPED:
            return self._explain_firing(row, at, version)
        if version is None or timing is None:
            if row is not None:  # before it was made, and to be made up for all the same
                return self._explain_skip(row, version, at, row.due_at)
            text = "There was no such schedule then."
            return Explanation(answer=Verdict.NOT_DUE, at=at, reason="not_yet_made", text=text)
        if due is None and row is None:
            return self._not_due(version, timing, at, "no_instant")
        due = row.due_at if due is None and row is not None else due
        assert due is not None
        if row is None and not version.is_active:
            return self._explain_pause(version, at, due)
        if row is None and due > self.history.now:
            return self._not_due(version, timing, at, "future", due)
        if row is None or row.reason in _MISSES or not row.server:
            dead = self._dead_at(due)
            if dead is not None:
                return self._nobody(version, at, due, dead, row)
        if row is None:
            text = "It was due, and nothing has been decided about it yet."
            return _explanation(Verdict.SKIPPED, at, text, version, due_at=due, reason="pending")
        return self._explain_skip(row, version, at, due)

    def _version(self, at: float) -> RuleVersion | None:
        """Return the rule that was in force."""
        return next((each for each in reversed(self.history.versions) if each.since <= at), None)

    def _same_s(self, version: RuleVersion | None) -> float:
        every = version.rule.every_s if version is not None else None
        return SAME_S if every is None else min(SAME_S, every)

    def _row(self, at: float, *, exact: bool) -> Firing | None:
        """Return what was recorded about a due instant, or about another time that something was fired at by hand."""
        for row in self.history.firings:
            alone = row.due_at == row.until_at and 0 <= at - row.due_at < SAME_S
            if row.due_at <= at <= row.until_at if exact else alone:
                return row
        return None

    def _explain_move(self, version: RuleVersion, asked: AskedTime) -> Explanation | None:
        """Tell about a time on the wall that its rule names, and that is not when it was due."""
        rule = version.rule
        if rule.every_s is not None or not rule.cron_expression or not names_hours(rule.cron_expression):
            return None
        zone = zone_of(rule.timezone)
        local = datetime.fromtimestamp(asked.instant, zone)
        wall = asked.wall or local.replace(tzinfo=None)
        wall = wall.replace(second=0, microsecond=0)
        placed = place(wall, zone)
        again = len(placed.instants) > 1 and asked.wall is None and local.fold == 1
        if not (placed.skipped or again) or not _names(self.read_cron(rule.cron_expression), wall):
            return None
        to = placed.instants[0]
        what = self(AskedTime(to))
        said = "did not exist" if placed.skipped else "came twice"
        text = (
            f"{wall:%H:%M} {said} on {wall:%Y-%m-%d} in {rule.timezone}: it was due at {self._moment(to)}. {what.text}"
        )
        found = _explanation(Verdict.MOVED, asked.instant, text, version, due_at=to, reason=what.answer.value)
        found = replace(found, run_id=what.run_id, fired_at=what.fired_at, late_s=what.late_s)
        return replace(found, server=what.server, about=what.about)

    def _explain_firing(self, row: Firing, at: float, version: RuleVersion | None) -> Explanation:
        waits = row.status is FiringStatus.QUEUED
        text = (
            f"It waits for the run before{f' ({row.about})' if row.about else ''}."
            if waits
            else f"Run {row.run_id} was started {row.late_s:.1f} s after it was due, by {row.server}."
        )
        reason = FiringStatus.QUEUED.value if waits else row.reason.value
        found = _explanation(Verdict.FIRED, at, text, version, due_at=row.due_at, reason=reason, row=row)
        return replace(found, run_id=row.run_id, late_s=row.late_s, revision=row.revision or None)

    def _explain_skip(self, row: Firing, version: RuleVersion | None, at: float, due: float) -> Explanation:
        about = f" ({row.about})" if row.about else ""
        text = f"It was due and skipped: {_WORDS.get(row.reason, row.reason.value)}{about}."
        found = _explanation(Verdict.SKIPPED, at, text, version, due_at=due, reason=row.reason.value, row=row)
        by = row.about if row.reason in {Reason.PAUSED, Reason.CHANGED, Reason.WITHDRAWN} else ""
        return replace(found, by=by, revision=row.revision or found.revision)

    def _explain_pause(self, version: RuleVersion, at: float, due: float) -> Explanation:
        removed = "removed" if version.removed else Reason.PAUSED.value
        stands = "is" if due > self.history.now else "was"
        text = f"It {stands} {removed} by {version.changed_by or 'someone'} since {self._moment(version.since)}."
        found = _explanation(Verdict.SKIPPED, at, text, version, due_at=due, reason=removed)
        return replace(found, by=version.changed_by)

    def _not_due(
        self, version: RuleVersion, timing: Timing, at: float, reason: str, due: float | None = None
    ) -> Explanation:
        if due is not None:
            text = f"It will be due then, at {self._moment(due)}."
        elif at > self.history.now:
            text = f"It will not be due then. Its rule is {version.rule.text}."
        else:
            text = f"It was not due. Its rule then was {version.rule.text}."
        found = _explanation(Verdict.NOT_DUE, at, text, version, due_at=due, reason=reason)
        return replace(found, before=_last_before(timing, at), after=next(timing.after(at), None))

    def _dead_at(self, due: float) -> tuple[float | None, float | None] | None:
        """Return from when to when nothing was alive around an instant; None: something was alive."""
        lives, now = self.history.lives, self.history.now
        # A live process fires within a second: what lies after the last sign of a dead one came after its death.
        if any(life.since <= due and (due <= life.until or now - life.until <= ALIVE_SLACK_S) for life in lives):
            return None
        ended = max((life.until for life in lives if life.until < due), default=None)
        began = min((life.since for life in lives if life.since > due), default=None)
        return ended, began

    def _nobody(
        self, version: RuleVersion, at: float, due: float, dead: tuple[float | None, float | None], row: Firing | None
    ) -> Explanation:
        since = "the beginning" if dead[0] is None else self._moment(dead[0])
        until = "now" if dead[1] is None else self._moment(dead[1])
        text = f"It was due, and no process that fires schedules was alive from {since} to {until}."
        reason, about = ("", "") if row is None else (row.reason.value, row.about)
        found = _explanation(Verdict.NOBODY_ALIVE, at, text, version, due_at=due, reason=reason)
        return replace(found, about=about, dead_from=dead[0], dead_until=dead[1])


def _explanation(
    answer: Verdict,
    at: float,
    text: str,
    version: RuleVersion | None,
    *,
    due_at: float | None,
    reason: str,
    row: Firing | None = None,
) -> Explanation:
    """Return an explanation with the rule of its time, and what was recorded."""
    told = Explanation(answer=answer, at=at, text=text, due_at=due_at, reason=reason)
    if version is not None:
        told = replace(told, rule=version.rule.text, revision=version.revision)
    return told if row is None else replace(told, fired_at=row.fired_at, server=row.server, about=row.about)


_MISSES = frozenset({Reason.MISFIRE, Reason.LATE, Reason.CATCH_UP})
"""What is said of an instant at which no process may have been alive, or about which no server has decided."""
_WORDS = {
    Reason.OVERLAP: "the run before was still under way",
    Reason.QUEUE_FULL: "too many firings waited for the run before",
    Reason.PAUSED: "the schedule was paused",
    Reason.CHANGED: "the schedule was changed before it was fired",
    Reason.MISFIRE: "it was missed, and a newer instant was fired instead",
    Reason.LATE: "it was missed by more than max_late_s",
    Reason.CATCH_UP: "more were missed than max_catch_up",
    Reason.QUOTA: "its owner had started too many runs",
    Reason.BUDGET: "its runs of the day were used up",
    Reason.MODEL_BUSY: "its model had no room in time",
    Reason.WITHDRAWN: "it was to be made up for, and somebody took that back",
    Reason.FAILED: "what it starts could not be started",
}


def _due_at(timing: Timing, at: float, same_s: float) -> float | None:
    """Return the due instant that is meant by a time; None: it was not due."""
    found = list(due_between(timing, at - same_s, at))
    return found[-1] if found else None


def _names(walls: WallTimes, wall: datetime) -> bool:
    return next(walls(wall - timedelta(seconds=1)), None) == wall


def _last_before(timing: Timing, at: float) -> float | None:
    for back_s in _LOOKS_BACK_S:
        found = list(due_between(timing, at - back_s, at - 1e-6))
        if found:
            return found[-1]
    return None
