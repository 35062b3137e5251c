"""Schedules as people read and type them."""

import json
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from agent_fabric.domain.audit.acts import moment_words
from agent_fabric.domain.automation.schedule import shown_interval
from agent_fabric.domain.automation.why import asked_time
from agent_fabric.domain.errors import ConfigError
from agent_fabric.interfaces.cli.durations import seconds_in
from agent_fabric.interfaces.cli.output import plain
from agent_fabric.wire.shape import Json

_NUMBERS = frozenset({"max_catch_up", "pause_after_failures", "daily_runs"})
_AMOUNTS = frozenset({"max_cost"})
_FLAGS = frozenset({"require_proof"})
_TIMES = frozenset({"max_late_s", "jitter_s"})
_WORDS = frozenset({"misfire", "overlap", "on_doubt", "required_model"})
_MOMENTS = frozenset({"starts_at", "ends_at"})
_CLEARED = _MOMENTS | {"daily_runs", "max_cost"}
"""Settings that a schedule may do without: `ends_at=` takes one away."""


class Target(NamedTuple):
    """What is to be started, as it was typed."""

    workflow: str | None = None
    agent: str | None = None
    chat: str | None = None
    node: str | None = None

    def wish(self, do: str | None) -> dict[str, Any]:
        """Return it as the API takes it."""
        if self.workflow is not None and (self.agent is not None or do is not None):
            raise ConfigError("A schedule runs a workflow, or an agent with a task", hint="Leave one of them out.")
        if self.chat is not None and self.workflow is not None:
            raise ConfigError("A schedule runs a workflow, or speaks in a session", hint="Leave one of them out.")
        if self.node is not None:
            if any(each is not None for each in (self.workflow, self.agent, self.chat)):
                raise ConfigError("A schedule runs a command on a machine, or something here", hint="Leave one out.")
            return {"target_kind": "node_command", "target": self.node}
        if self.chat is not None and "@" in self.chat:  # a person on a channel; without a name, the schedule's owner
            return {"target_kind": "channel", "target": self.chat.removeprefix("@")}
        if self.chat is not None:
            session = None if self.chat in ("new", "same") else self.chat
            said = {"use_persistent_chat": self.chat != "new", "chat_session_id": session}
            return {"target_kind": "chat", "target": self.agent, **said}
        kind = "workflow" if self.workflow is not None else "agent" if self.agent is not None else None
        return {"target_kind": kind, "target": self.workflow or self.agent}


def wish_from(
    cron: str | None,
    every: str | None,
    timezone: str | None,
    do: str | None,
    target: Target,
    inputs: Sequence[str] | None,
    more: Sequence[str] | None,
) -> dict[str, Any]:
    """Return what was typed as the API takes it."""
    wish: dict[str, Any] = {
        "cron_expression": cron,
        "every": every,
        "timezone": timezone,
        "task_instruction": do,
        **target.wish(do),
        "inputs": dict(map(_input, inputs)) if inputs else None,
    }
    settings = dict(_setting(each, timezone or "UTC") for each in more or ())
    return {key: value for key, value in wish.items() if value is not None} | settings


def _input(pair: str) -> tuple[str, Any]:
    name, equals, text = pair.partition("=")
    if not equals:
        raise ConfigError(f"{pair!r} is no KEY=VALUE", hint="Write such as -i count=3.")
    try:
        return name, json.loads(text)
    except ValueError:
        return name, text


def moment_of(text: str | None, zone: str) -> float | None:
    """Return the moment of a text: ISO 8601, or how long ago; None for none. Without an offset, of the zone.

    Raises:
        ConfigError: it is none.
    """
    if text is None:
        return None
    with suppress(ConfigError):
        return time.time() - seconds_in(text)
    try:
        return asked_time(text, zone).instant
    except (ValueError, OverflowError, OSError):
        raise ConfigError(
            f"{text[:60]!r} is no time", hint="Write such as 2026-11-17, 2026-11-17T03:00, or how long ago: 3d."
        ) from None


def _setting(pair: str, zone: str) -> tuple[str, Any]:
    name, _, text = pair.partition("=")
    if name in _CLEARED and not text:
        return name, None
    try:
        if name in _NUMBERS:
            return name, int(text)
        if name in _AMOUNTS:
            return name, float(text)
        if name in _TIMES:
            return name, float(text) if text.replace(".", "", 1).isdigit() else seconds_in(text)
    except ValueError:
        raise ConfigError(f"{text!r} is no number", hint=f"Write such as --with {name}=3.") from None
    if name in _FLAGS and text in ("true", "false"):
        return name, text == "true"
    if name in _FLAGS:
        raise ConfigError(f"{text!r} is neither true nor false", hint=f"Write such as --with {name}=true.")
    if name in _WORDS:
        return name, text
    if name in _MOMENTS:
        return name, moment_of(text, zone)
    known = ", ".join(sorted(_NUMBERS | _AMOUNTS | _FLAGS | _TIMES | _WORDS | _MOMENTS))
    raise ConfigError(f"There is no setting {name!r} of schedules", hint=f"Settings: {known}.")


def line(schedule: Json) -> str:
    """Return one line about a schedule."""
    every = schedule["every"]
    rule = f"every {shown_interval(every)}" if every is not None else f"{schedule['cron_expression']}"
    what = schedule["target"] or schedule["task_instruction"] or ""
    if not schedule["is_active"]:
        state = f"paused by {schedule['paused_by'] or 'someone'}"
    elif schedule["next_at"] is None:
        state = "never due again"
    else:
        zone = ZoneInfo(schedule["timezone"])
        state = f"next {datetime.fromtimestamp(schedule['next_at'], zone).isoformat(timespec='seconds')}"
    last = schedule.get("last")
    outcome = f"  last {last['status']}{' ' + last['reason'] if last['reason'] else ''}" if last else ""
    waits = f"  {schedule['queued']} waiting" if schedule.get("queued") else ""
    said = f"{plain(schedule['name'])}  {plain(rule)}  {plain(state)}{plain(outcome)}{waits}  {plain(what[:60])}\n"
    return said + (_question(asked, schedule["overlap"]) if (asked := schedule.get("waits")) else "")


def _question(asked: Json, overlap: str) -> str:
    """Return the line that says that a person is asked, and how to answer."""
    since, approval = moment_words(asked["since"]), plain(asked["approval_id"])
    holds = "" if overlap == "cancel" else ", and starts nothing before"
    return f"  waits for a person since {since}{holds}: fabric approvals show {approval}\n"


def firing_line(planned: Json) -> str:
    """Return one line about an instant to come."""
    return f"  {plain(planned['local'])}{'  ' + plain(planned['note']) if planned['note'] else ''}\n"


def shown_in_full(schedule: Json, firings: Sequence[Json]) -> str:
    """Return everything about a schedule."""
    lines = [line(schedule)]
    keys = (
        *("id", "owner", "target_kind", "misfire", "overlap", "on_doubt", "max_late_s", "jitter_s"),
        *("required_model", "require_proof", "max_cost", "revision"),
    )
    lines += [f"  {key}: {plain(str(schedule[key]))}\n" for key in keys if schedule[key] not in (None, "")]
    lines += ["next:\n", *(firing_line(each) for each in schedule.get("next", ()))]
    lines += ["last:\n"] if firings else []
    for each in firings:
        due = datetime.fromtimestamp(each["due_at"], ZoneInfo(schedule["timezone"])).isoformat(timespec="seconds")
        text = f"  {due}  {each['status']}  {each['reason'] or ''}  {each['run_id'] or each['about'] or ''}"
        lines.append(plain(text.rstrip()) + "\n")
    return "".join(lines)
