"""Watches values and events, and tells people when something is wrong and when it is over."""

import asyncio
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field
from typing import Any

from agent_fabric.application.observability import take_vitals
from agent_fabric.application.ports.alerts import SUBJECT, AlertPost
from agent_fabric.application.ports.bus import Bus
from agent_fabric.application.ports.clock import Clock
from agent_fabric.application.ports.events import EventsOnly
from agent_fabric.application.ports.operations import OperationsLog
from agent_fabric.config.schema.observability import AlertConfig
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import ConfigError
from agent_fabric.domain.events import Event, ModelFailed, RunCancelled, RunCompleted, RunFailed
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.observability.alerts import (
    BUILT_IN,
    USER,
    Alert,
    AlertChange,
    AlertRule,
    EventSeen,
    Severity,
    Stage,
    Threshold,
    after_event,
    after_look,
    after_silence,
    condition_of,
)

EVERY_S = 15.0
WINDOW_S = 600.0
"""`runs_failed_ratio` and `model_errors_per_minute` are about this time."""
FEWEST = 5
"""Of fewer runs, no share is taken: one of one is not half of the runs."""
RETRIES_S = (1.0, 5.0, 25.0, 125.0)
"""Pauses before an address is tried again."""
MAX_WAITING = 200
"""Messages that wait for an address that does not answer; the oldest go."""

MEANINGS: Mapping[str, str] = {
    "runs_failed_ratio": "Share of failed runs among those that ended here in the last 10 minutes; 0 below 5 runs",
    "model_errors_per_minute": "Failed attempts to ask a model, in the last 10 minutes",
}
"""What can be watched beyond the vitals, by name."""


@dataclass(slots=True)
class RaiseAlerts(EventsOnly):
    """Use case: tell once that something is wrong, and once that it is over. Also an EventSink.

    The log and the bus hear of it at once. Addresses outside have a line of their own each: one that does not answer
    holds up no one.
    """

    rules: Sequence[AlertRule]
    clock: Clock
    log: OperationsLog
    bus: Bus
    post: AlertPost
    wants_deltas: bool = False
    _alerts: dict[str, Alert] = field(default_factory=dict)
    _changed_at: dict[str, float] = field(default_factory=dict)
    _about: dict[str, list[AlertRule]] = field(default_factory=dict)
    """The rules about events, by kind."""
    _happened: "deque[tuple[int, Counter[type]]]" = field(default_factory=deque)
    """What the window holds: how often each kind happened in each second, so that many take no more memory."""
    _lines: "dict[str, asyncio.Queue[dict[str, Any]]]" = field(default_factory=dict)

    def __post_init__(self) -> None:
        for rule in self.rules:
            if isinstance(rule.when, EventSeen):
                self._about.setdefault(rule.when.kind, []).append(rule)
        addresses = {each for rule in self.rules for each in rule.notify if each not in {"log", "bus"}}
        self._lines = {address: asyncio.Queue(MAX_WAITING) for address in sorted(addresses)}

    async def __call__(self, vitals: Callable[[], Awaitable[Mapping[str, float]]]) -> None:
        """Watch, for ever; `vitals` returns all values by their names."""
        async with asyncio.TaskGroup() as tasks:
            for address, line in self._lines.items():
                tasks.create_task(self._deliver(address, line))
            while True:
                try:
                    await self.look(await vitals())
                except Exception as problem:  # without us, no one would be told of anything
                    self.log.warning("alerts_failed", exc_info=problem)
                await self.clock.sleep(EVERY_S)

    async def look(self, vitals: Mapping[str, float]) -> None:
        """Hold all rules against the values of this moment."""
        now = self.clock.monotonic()
        values = {**vitals, **self._window(now)}
        for rule in self.rules:
            alert = self._alerts.get(rule.name, Alert())
            if isinstance(rule.when, EventSeen):
                self._note(rule, after_silence(rule, alert, now))
            else:
                self._note(rule, after_look(rule, alert, values.get(rule.when.metric), now))

    def publish(self, run_id: RunId, events: Sequence[Event]) -> None:
        for event in events:
            kind = type(event.body)
            if kind in _COUNTED:
                second = int(self.clock.monotonic())
                if not self._happened or self._happened[-1][0] != second:
                    self._forget_before(second - WINDOW_S)
                    self._happened.append((second, Counter()))
                self._happened[-1][1][kind] += 1
            if event.body.kind in self._about:
                self.note_event(event.body.kind, run_id=run_id)

    def note_event(self, kind: str, about: str = "", *, run_id: RunId | None = None) -> None:
        """Take an event, by its kind; also one that is no run's, such as `schedule_off_cadence`.

        `about` says in words what it is about.
        """
        for rule in self._about.get(kind, ()):
            alert = self._alerts.get(rule.name, Alert())
            self._note(rule, after_event(alert, self.clock.monotonic()), run_id=run_id, about=about)

    def standing(self) -> list[tuple[AlertRule, Alert, float | None]]:
        """Return each rule with how it stands, and when that last changed; seconds since 1970."""
        return [(rule, self._alerts.get(rule.name, Alert()), self._changed_at.get(rule.name)) for rule in self.rules]

    def _window(self, now: float) -> dict[str, float]:
        self._forget_before(now - WINDOW_S)
        kinds = Counter[type]()
        for _, happened in self._happened:
            kinds += happened
        settled = kinds.total() - kinds[ModelFailed]
        return {
            "runs_failed_ratio": kinds[RunFailed] / settled if settled >= FEWEST else 0.0,
            "model_errors_per_minute": 60 * kinds[ModelFailed] / WINDOW_S,
        }

    def _forget_before(self, second: float) -> None:
        while self._happened and self._happened[0][0] < second:
            self._happened.popleft()

    def _note(self, rule: AlertRule, change: AlertChange, *, run_id: RunId | None = None, about: str = "") -> None:
        before = self._alerts.get(rule.name, Alert())
        self._alerts[rule.name] = change.alert
        if before.stage is not change.alert.stage:
            self._changed_at[rule.name] = self.clock.now()
        if change.told is not None:
            self._tell(rule, change, run_id, about)

    def _tell(self, rule: AlertRule, change: AlertChange, run_id: RunId | None, about: str) -> None:
        message: dict[str, Any] = {
            "alert": rule.name,
            "status": "firing" if change.told is Stage.FIRING else "resolved",
            "severity": rule.severity.value,
            "when": str(rule.when),
            "value": change.alert.value,
            "at": self.clock.now(),
            **({} if run_id is None else {"run_id": run_id}),
            **({"about": about} if about else {}),
        }
        for each in rule.notify:
            if each == "log":
                loud = self.log.error if rule.severity is Severity.CRITICAL else self.log.warning
                write = loud if change.told is Stage.FIRING else self.log.info
                write(f"alert_{message['status']}", **{key: message[key] for key in message if key != "status"})
            elif each == "bus":
                self.bus.publish(f"{SUBJECT}.{rule.name}", message)
            else:
                line = self._lines[each]
                if line.full():
                    line.get_nowait()
                line.put_nowait(message)

    async def _deliver(self, address: str, line: "asyncio.Queue[dict[str, Any]]") -> None:
        while True:
            message = await line.get()
            for pause_s in (*RETRIES_S, None):
                problem = await self._try(address, message)
                if problem is None:
                    break
                if pause_s is None or isinstance(problem, PermissionError | ValueError):
                    self.log.error("alert_not_delivered", alert=message["alert"], problem=str(problem))
                    break
                await self.clock.sleep(pause_s)

    async def _try(self, address: str, message: Mapping[str, Any]) -> Exception | None:
        try:
            await self.post.post(address, message)
        except Exception as problem:  # noqa: BLE001 - whatever it is, the next message may do better
            return problem
        return None


_COUNTED = frozenset({RunCompleted, RunFailed, RunCancelled, ModelFailed})


WATCHED = frozenset(take_vitals.MEANINGS) | frozenset(MEANINGS)
"""The names of all values that rules can be about."""


def alert_rules(configured: Sequence[AlertConfig]) -> list[AlertRule]:
    """Return the rules in force.

    Raises:
        ConfigError: one is no rule.
    """
    rules = {rule.name: rule for rule in BUILT_IN}
    seen: set[str] = set()
    for each in configured:
        if each.name in seen:
            raise ConfigError(f"Two alerts have the name {each.name!r}", hint="Give one of them another name.")
        seen.add(each.name)
        rules[each.name] = _rule(each, rules.get(each.name))
        if not each.enabled:
            del rules[each.name]
    return list(rules.values())


def _rule(each: AlertConfig, built_in: AlertRule | None) -> AlertRule:
    if each.when is None:
        if built_in is None:
            names = ", ".join(rule.name for rule in BUILT_IN)
            raise ConfigError(f"The alert {each.name!r} does not say when", hint=f"Set `when`. Built in are: {names}.")
        when = built_in.when
    else:
        try:
            when = condition_of(each.when)
        except ValueError as problem:
            raise ConfigError(f"`when` of the alert {each.name!r} {problem}", hint=_watched_values()) from None
    if isinstance(when, Threshold) and when.metric not in WATCHED:
        raise ConfigError(f"The alert {each.name!r} is about {when.metric!r}, which is unknown", hint=_watched_values())
    base = built_in or AlertRule(name=each.name, when=when)
    return AlertRule(
        name=each.name,
        when=when,
        for_s=base.for_s if each.for_s is None else each.for_s,
        severity=base.severity if each.severity is None else Severity(each.severity),
        notify=base.notify if each.notify is None else each.notify,
    )


def _watched_values() -> str:
    return f"Values that can be watched: {', '.join(sorted(WATCHED))}."


def webhooks_of(configured: Sequence[AlertConfig]) -> dict[str, str | None]:
    """Return the addresses that are told, each with the reference to its secret."""
    found: dict[str, str | None] = {}
    for each in configured:
        for place in each.notify or ():
            if place not in {"log", "bus"} and not place.startswith(USER):
                found[place] = each.secret or found.get(place)
    return found
