"""When an alert begins, and when it is over. Rules are pure: time and values are given to them."""

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from enum import StrEnum
from typing import Final, NamedTuple

from agent_fabric.domain.dataclass import dataclass

USER: Final = "user:"
"""Begins the address of a user who is told of alerts."""
SHORTEST_CLEAR_S: Final = 60.0
"""A value must be good for at least so long before an alert is over: one that flutters is told once."""
SILENCE_S: Final = 300.0
"""An alert about an event is over when none came for so long, unless its rule says otherwise."""

_WHEN = re.compile(r"\s*([a-z][a-z0-9_]*)\s*(>=|<=|>|<|==|!=)\s*(-?\d+(?:\.\d+)?(?:e[+-]?\d+)?)\s*")
_EVENT = re.compile(r"\s*event\s+([a-z][a-z0-9_]*)\s*")
_COMPARED: Mapping[str, Callable[[float, float], bool]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
}


class Severity(StrEnum):
    """How much it matters."""

    INFO = "info"
    WARNING = "warning"
    CRITICAL = "critical"


@dataclass(frozen=True, slots=True)
class Threshold:
    """A value that is beyond a bound."""

    metric: str
    comparison: str
    bound: float

    def holds(self, value: float) -> bool:
        """Tell whether a value is beyond the bound."""
        return _COMPARED[self.comparison](value, self.bound)

    def __str__(self) -> str:
        return f"{self.metric} {self.comparison} {self.bound:g}"


@dataclass(frozen=True, slots=True)
class EventSeen:
    """An event of a run, by its kind; or one that is no run's, such as `schedule_off_cadence` or `plan_incomplete`."""

    kind: str

    def __str__(self) -> str:
        return f"event {self.kind}"


Condition = Threshold | EventSeen


def condition_of(text: str) -> Condition:
    """Read a condition: `runs_failed_ratio > 0.5`, or `event security_event`.

    Raises:
        ValueError: it is none.
    """
    if found := _EVENT.fullmatch(text):
        return EventSeen(found[1])
    if found := _WHEN.fullmatch(text):
        return Threshold(found[1], found[2], float(found[3]))
    raise ValueError("must be like 'runs_failed_ratio > 0.5' or 'event security_event'")


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertRule:
    """When to tell whom."""

    name: str
    when: Condition
    for_s: float = 0.0
    """How long the condition must hold. About an event: how long none must come before it is over."""
    severity: Severity = Severity.WARNING
    notify: tuple[str, ...] = ("log", "bus")
    """`log`, `bus`, or addresses of webhooks."""

    @property
    def clear_s(self) -> float:
        """How long all must be well before the alert is over."""
        if isinstance(self.when, EventSeen):
            return self.for_s or SILENCE_S
        return max(self.for_s, SHORTEST_CLEAR_S)


class Stage(StrEnum):
    """Where an alert stands."""

    QUIET = "quiet"
    PENDING = "pending"
    """The condition holds, but not for long enough."""
    FIRING = "firing"


@dataclass(frozen=True, slots=True)
class Alert:
    """An alert at one moment. Times are of a clock that never jumps."""

    stage: Stage = Stage.QUIET
    since: float = 0.0
    """When this stage began."""
    value: float | None = None
    """The last value, or how many events there were."""
    well_since: float | None = None
    """While firing: since when the condition has not held."""


class AlertChange(NamedTuple):
    """An alert after a look, and what there is to tell."""

    alert: Alert
    told: Stage | None = None
    """FIRING: it has begun. QUIET: it is over. None: nothing new."""


def after_look(rule: AlertRule, alert: Alert, value: float | None, now: float) -> AlertChange:
    """Return an alert after its metric was looked at; None: the value is not known, so nothing changes."""
    if value is None or not isinstance(rule.when, Threshold):
        return AlertChange(alert)
    alert = replace(alert, value=value)
    if rule.when.holds(value):
        if alert.stage is Stage.FIRING:
            return AlertChange(replace(alert, well_since=None))
        if alert.stage is Stage.QUIET:
            alert = Alert(Stage.PENDING, now, value)
        if now - alert.since >= rule.for_s:
            return AlertChange(Alert(Stage.FIRING, now, value), Stage.FIRING)
        return AlertChange(alert)
    if alert.stage is Stage.FIRING:
        return _well(rule, alert, now)
    return AlertChange(Alert(value=value))


def after_event(alert: Alert, now: float) -> AlertChange:
    """Return an alert about events after another one came."""
    if alert.stage is Stage.FIRING:
        return AlertChange(replace(alert, value=(alert.value or 0) + 1, well_since=now))
    return AlertChange(Alert(Stage.FIRING, now, 1, now), Stage.FIRING)


def after_silence(rule: AlertRule, alert: Alert, now: float) -> AlertChange:
    """Return an alert about events when some time has passed."""
    if alert.stage is not Stage.FIRING:
        return AlertChange(alert)
    return _well(rule, alert, now)


def _well(rule: AlertRule, alert: Alert, now: float) -> AlertChange:
    if alert.well_since is None:
        alert = replace(alert, well_since=now)
    if now - (alert.well_since or 0.0) >= rule.clear_s:
        return AlertChange(Alert(Stage.QUIET, now, alert.value), Stage.QUIET)
    return AlertChange(alert)


BUILT_IN: Final = (
    AlertRule(
        name="store-unavailable",
        when=Threshold("store_unavailable", ">", 0),
        for_s=30,
        severity=Severity.CRITICAL,
    ),
    AlertRule(
        name="disk-nearly-full", when=Threshold("disk_free_ratio", "<", 0.05), for_s=60, severity=Severity.CRITICAL
    ),
    AlertRule(name="approval-waits-long", when=Threshold("approvals_oldest_age_seconds", ">", 3600)),
    AlertRule(name="many-runs-fail", when=Threshold("runs_failed_ratio", ">", 0.5), for_s=300),
    AlertRule(name="clock-differs", when=Threshold("clock_skew_seconds", ">", 1)),
    AlertRule(name="queue-stands-still", when=Threshold("queue_oldest_age_seconds", ">", 900), for_s=60),
    AlertRule(name="machine-absent", when=Threshold("nodes_offline", ">", 0), for_s=60),
    AlertRule(name="schedule-off-cadence", when=EventSeen("schedule_off_cadence"), for_s=900),
    AlertRule(name="schedule-waits", when=EventSeen("schedule_waits"), for_s=900),
    AlertRule(name="clock-set-back", when=EventSeen("clock_set_back"), for_s=900),
    AlertRule(name="plan-halted", when=EventSeen("plan_halted"), for_s=900),
    AlertRule(name="plan-incomplete", when=EventSeen("plan_incomplete"), for_s=900),
    AlertRule(name="channel-undelivered", when=EventSeen("channel_undelivered"), for_s=900),
)
"""The alerts that are on by default."""
