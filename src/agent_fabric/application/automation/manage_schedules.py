"""Adds, changes, pauses, fires and removes schedules."""

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from agent_fabric.application.ports.automation import (
    AutomationStore,
    Begin,
    FirstEvent,
    MakeTask,
    NewFiring,
    ReadCron,
    Say,
)
from agent_fabric.application.ports.clock import Clock
from agent_fabric.domain.approvals.answers import OnDoubt
from agent_fabric.domain.automation.firing import Firing, FiringStatus, Reason, run_of_firing
from agent_fabric.domain.automation.schedule import (
    Misfire,
    Overlap,
    Rule,
    Schedule,
    TargetKind,
    interval_from,
    require_name,
)
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import ConfigError, Forbidden, InvalidInputs
from agent_fabric.domain.identity.ownership import LOCAL_OWNER, owner_of
from agent_fabric.domain.identity.principals import Principal, Scope
from agent_fabric.domain.ids import RunId

_RULE = ("cron_expression", "timezone", "starts_at", "ends_at")
_PLAIN = (
    "target",
    "task_instruction",
    "agent_id",
    "required_model",
    "max_late_s",
    "max_catch_up",
    "jitter_s",
    "pause_after_failures",
    "require_proof",
    "use_persistent_chat",
    "chat_session_id",
    "inputs",
)
_CLEARED = ("daily_runs", "max_cost")
"""What may be taken away by null."""
_CHOICES = {"target_kind": TargetKind, "misfire": Misfire, "overlap": Overlap, "on_doubt": OnDoubt}
MAX_VALUE = 400 * 86_400
"""Of any number that is set: 400 days in seconds."""
TRIES = 5
"""A change of a schedule that is fired at this moment is tried again."""


@dataclass(frozen=True, slots=True)
class ManageSchedules:
    """Use case: look after schedules. A change counts from now on, and never makes up for the past."""

    store: AutomationStore
    read_cron: ReadCron
    make_task: MakeTask
    first_event: FirstEvent
    begin: Begin
    clock: Clock
    default_timezone: str = "UTC"
    say: Say | None = None
    """Says what schedules for chats are to say."""
    changed: Callable[[], None] = lambda: None
    """Called after a schedule was added or changed."""

    async def add(self, wish: Mapping[str, Any], *, by: Principal) -> Schedule:
        """Keep a new schedule and return it with its next due instant.

        Raises:
            InvalidInputs, ConfigError: it cannot be carried out so.
            NameTaken: there is one of this name.
        """
        require_person(by)
        now = self.clock.now()
        name = require_name(str(wish.get("name", "")))
        base = Schedule(
            id=str(uuid.uuid4()),
            name=name,
            rule=Rule(timezone=self.default_timezone, anchor=now),
            owner=owner_of(by),
            requested_by="" if owner_of(by) == "local" else by.name,
            user_scopes=tuple(sorted(by.scopes)) if owner_of(by) != "local" else (),
            created_at=now,
        )
        schedule = self._changed_schedule(base, wish, now)
        require_scope_for_target(schedule, by)
        await self.require_startable(schedule)
        await self.store.schedules.add(schedule, by=by.name)
        self.changed()
        return schedule

    async def change(self, schedule: Schedule, wish: Mapping[str, Any], *, by: Principal) -> Schedule:
        """Change a schedule, and return it. What its owner has changed is done with the rights that they showed for it.

        Raises:
            InvalidInputs, ConfigError: it cannot be carried out so.
            Forbidden: it is someone else's.
        """
        require_own(schedule, by)
        for _ in range(TRIES):
            now = self.clock.now()
            changed = self._changed_schedule(replace(schedule, revision=schedule.revision + 1), wish, now)
            require_scope_for_target(changed, by)
            if set(wish) - {"is_active"}:
                if owner_of(by) == changed.owner != LOCAL_OWNER:
                    changed = replace(changed, user_scopes=tuple(sorted(by.scopes)))
                await self.require_startable(changed)
            changed = replace(changed, paused_by="" if changed.is_active else by.name)
            if await self.store.schedules.change(schedule, changed, by=by.name, now=now):
                self.changed()
                return changed
            schedule = await self.store.schedules.find(schedule.id)
        raise InvalidInputs(f"The schedule {schedule.name!r} was changed by someone else", hint="Try again.")

    async def remove(self, schedule: Schedule, *, by: Principal) -> None:
        """Delete a schedule; what it has started goes on.

        Raises:
            Forbidden: it is someone else's.
        """
        require_own(schedule, by)
        await self.store.schedules.remove(schedule, by=by.name, now=self.clock.now())

    async def fire(self, schedule: Schedule, *, by: Principal, due_at: float | None = None) -> RunId:
        """Start a schedule's run now, whatever its rule says; `due_at` is the instant that it is made for.

        Raises:
            Forbidden: it is someone else's.
            FabricError: what it starts cannot be started.
        """
        require_own(schedule, by)
        now = self.clock.now()
        due = now if due_at is None else due_at
        run_id = run_of_firing(schedule.name, due)
        chats = schedule.is_said and self.say is not None
        created = None if chats else self.first_event(run_id, await self.make_task(schedule))
        if chats and self.say is not None:
            await self.say(schedule, run_id)
        reason = Reason.MANUAL if due_at is None else Reason.BACKFILL
        fired = Firing.of(schedule, due, FiringStatus.FIRED, reason, at=now, server=by.name)
        fired = replace(fired, run_id=run_id)
        if await self.store.queue.record(NewFiring(firing=fired, created=created)) and created is not None:
            self.begin([run_id])
        return run_id

    def draft(self, wish: Mapping[str, Any]) -> Schedule:
        """Return a schedule as it would be, without keeping it; for showing when it would be due.

        Raises:
            InvalidInputs, ConfigError: it cannot be carried out so.
        """
        now = self.clock.now()
        name = require_name(str(wish.get("name", "draft")))
        base = Schedule(id="", name=name, rule=Rule(timezone=self.default_timezone, anchor=now), created_at=now)
        return self._changed_schedule(base, {"task_instruction": "-", **wish}, now)

    async def require_startable(self, schedule: Schedule) -> None:
        """Check that what a schedule starts can be started.

        Raises:
            FabricError: it cannot.
        """
        if not schedule.is_said or self.say is None:
            await self.make_task(schedule)

    def _changed_schedule(self, base: Schedule, wish: Mapping[str, Any], now: float) -> Schedule:
        rule = replace(base.rule, **{key: wish[key] for key in _RULE if wish.get(key) is not None})
        ends: dict[str, Any] = {key: wish[key] for key in ("starts_at", "ends_at") if key in wish}
        rule = replace(rule, **ends)
        if wish.get("every") is not None:
            if wish.get("cron_expression"):
                raise InvalidInputs("A schedule has a cron expression or an interval", hint="Leave one of them out.")
            seconds = interval_from(wish["every"])
            anchor = base.rule.anchor if rule.starts_at is None else rule.starts_at
            rule = replace(rule, every_s=seconds, cron_expression="", anchor=anchor)
        elif wish.get("cron_expression"):
            rule = replace(rule, every_s=None)
        if not rule.cron_expression and rule.every_s is None:
            raise InvalidInputs("A schedule needs a cron_expression or every", hint="Such as: 0 3 * * *, or every 5m.")
        schedule = replace(base, rule=rule, **{key: wish[key] for key in _PLAIN if wish.get(key) is not None})
        schedule = replace(schedule, **{key: wish[key] for key in _CLEARED if key in wish})
        for name, kind in _CHOICES.items():
            if wish.get(name):
                schedule = replace(schedule, **{name: _choice(kind, wish[name], name)})
        if wish.get("is_active") is not None:
            schedule = replace(schedule, is_active=bool(wish["is_active"]))
        _require_target(schedule)
        _require_sense(schedule)
        return schedule.after_change(self.read_cron, now)


def require_person(by: Principal) -> None:
    """Refuse a run: it would go on by itself for ever.

    Raises:
        Forbidden: a run asks.
    """
    if by.run:
        raise Forbidden("A run cannot make or change schedules", hint="A person does that themselves.")


def require_own(schedule: Schedule, by: Principal) -> None:
    """Check that a schedule is the caller's own, or that the caller is an admin.

    Raises:
        Forbidden: neither.
    """
    require_person(by)
    if schedule.owner != owner_of(by) and not by.may(Scope.ADMIN):
        raise Forbidden(
            f"The schedule {schedule.name!r} belongs to {schedule.owner}", hint="Ask its owner, or an admin."
        )


def require_scope_for_target(schedule: Schedule, by: Principal) -> None:
    """Check that a person may have a schedule start what it starts.

    Raises:
        Forbidden: they may not.
    """
    if schedule.target_kind is TargetKind.NODE_COMMAND and not by.may(Scope.NODES):
        raise Forbidden("A schedule for a machine needs the scope 'nodes'", hint="Ask an admin, or an operator.")
    user, _, channel = schedule.target.rpartition("@")
    if schedule.target_kind is TargetKind.CHANNEL and schedule.owner not in (LOCAL_OWNER, f"user:{user}") and user:
        raise Forbidden(
            f"A schedule of {schedule.owner} writes only to them, not to {user!r}",
            hint=f"Set the target to {channel!r}.",
        )


def _require_target(schedule: Schedule) -> None:
    needs_target = (TargetKind.WORKFLOW, TargetKind.CHANNEL, TargetKind.NODE_COMMAND)
    if schedule.target_kind in needs_target and not schedule.target:
        raise InvalidInputs(f"A schedule for a {schedule.target_kind.value} needs a target", hint="Name it.")
    if schedule.is_said and not schedule.task_instruction:
        raise InvalidInputs("A schedule for a chat needs a task_instruction", hint="Say what is to be said.")
    if schedule.is_said and schedule.on_doubt is not OnDoubt.ASK:
        raise InvalidInputs(
            "on_doubt is for runs of their own: in a chat, a person is asked",
            hint="Leave it out, or start a workflow or an agent instead.",
        )
    if schedule.is_said and (schedule.require_proof or schedule.max_cost is not None):
        raise InvalidInputs(
            "require_proof and max_cost are for runs of their own: a turn of a chat is as the configuration says",
            hint="Leave them out, or start a workflow or an agent instead.",
        )
    if schedule.target_kind is TargetKind.AGENT and not (schedule.task_instruction or schedule.target):
        raise InvalidInputs(
            "A schedule needs a task_instruction, or a target", hint='Such as: --do "Summarize the log of today".'
        )


def _require_sense(schedule: Schedule) -> None:
    """Refuse numbers that no one can mean: the command line takes any."""
    least = {"max_catch_up": 1, "pause_after_failures": 0, "max_late_s": 0, "jitter_s": 0, "daily_runs": 1}
    for name, lowest in least.items():
        value = getattr(schedule, name)
        if value is not None and not lowest <= value <= MAX_VALUE:
            raise InvalidInputs(f"{name} cannot be {value}", hint=f"It is at least {lowest}.")
    rule = schedule.rule
    if rule.starts_at is not None and rule.ends_at is not None and rule.ends_at < rule.starts_at:
        raise InvalidInputs("ends_at is before starts_at: it would never be due", hint="Change one of them.")


def _choice(kind: Any, value: object, what: str) -> Any:
    try:
        return kind(value)
    except ValueError:
        known: Sequence[str] = [each.value for each in kind]
        raise ConfigError(f"{str(value)[:60]!r} is no {what}", hint=f"Choose from: {', '.join(known)}.") from None
