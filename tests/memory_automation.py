"""Automation's store in memory, for tests: it passes the contract suite and decides nothing that the domain decides."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from agent_fabric.application.ports.automation import (
    EVERY_SCHEDULE,
    AutomationStore,
    DeadLetter,
    DueLook,
    DueSchedule,
    NewFiring,
    NewNoticed,
    Noticed,
    OpenRun,
    ScheduleQuery,
    SensorState,
    Turn,
)
from agent_fabric.domain.approvals.events import ApprovalDecided, ApprovalRequested
from agent_fabric.domain.automation.firing import AskedPerson, Firing, FiringStatus, Reason, jitter
from agent_fabric.domain.automation.outgoing import OutgoingMessage, Subscription
from agent_fabric.domain.automation.schedule import RuleVersion, Schedule
from agent_fabric.domain.automation.sensing import Look
from agent_fabric.domain.automation.why import Life
from agent_fabric.domain.errors import DeadLetterNotFound, NameTaken, ScheduleNotFound
from agent_fabric.domain.events import Event, RunCreated
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.task import RunStatus
from agent_fabric.testing.fakes import MemoryRuns


@dataclass
class _Tables:
    runs: MemoryRuns
    schedules: dict[str, Schedule] = field(default_factory=dict)
    failures: dict[str, int] = field(default_factory=dict)
    versions: dict[str, list[RuleVersion]] = field(default_factory=dict)
    firings: dict[tuple[str, float], Firing] = field(default_factory=dict)
    outcomes: dict[tuple[str, float], str] = field(default_factory=dict)
    lives: dict[str, Life] = field(default_factory=dict)
    letters: dict[str, DeadLetter] = field(default_factory=dict)
    happenings: dict[tuple[str, str], Noticed] = field(default_factory=dict)
    waiting: set[tuple[str, float]] = field(default_factory=set)
    """Firings that are queued."""
    unsettled: dict[str, set[tuple[str, float]]] = field(default_factory=dict)
    """Firings whose run nothing was noted about, by trigger: so that years can be lived through."""

    def keep(self, firing: Firing) -> None:
        key = (firing.trigger, firing.due_at)
        self.firings[key] = firing
        self.waiting.discard(key)
        unsettled = self.unsettled.setdefault(firing.trigger, set())
        unsettled.discard(key)
        if firing.status is FiringStatus.QUEUED:
            self.waiting.add(key)
        elif firing.status is FiringStatus.FIRED and firing.run_id is not None and key not in self.outcomes:
            unsettled.add(key)

    def write(self, new: NewFiring) -> bool:
        key = (new.firing.trigger, new.firing.due_at)
        if key in self.firings:
            return False
        self.keep(new.firing)
        if new.created is not None and new.firing.run_id is not None:
            self.create(new.firing.run_id, new.created)
        return True

    def write_after_all(self, new: NewFiring) -> bool:
        """Write a firing whose instant may have been skipped, alone or with others."""
        key = (new.firing.trigger, new.firing.due_at)
        there = self.firings.get(key)
        if there is not None and there.status is FiringStatus.SKIPPED:
            del self.firings[key]
            if there.count > 1:
                self.keep(replace(there, due_at=there.due_at + 0.001, count=there.count - 1))
        return self.write(new)

    def create(self, run_id: RunId, created: Event) -> None:
        self.runs._add(run_id)
        self.runs.logs[run_id].append(created)

    def open_runs(self, trigger: str) -> list[OpenRun]:
        found = [self.firings[key] for key in sorted(self.unsettled.get(trigger, ()))]
        return [
            OpenRun(firing.run_id, firing.due_at, self.runs._statuses.get(firing.run_id))
            for firing in found
            if firing.run_id is not None
        ]

    def queued(self, trigger: str = "") -> list[Firing]:
        found = [self.firings[key] for key in self.waiting if trigger in ("", key[0])]
        return sorted(found, key=lambda each: (each.due_at, each.trigger))

    def close(self, trigger: str, over: Sequence[OpenRun]) -> None:
        for run in over:
            self.outcomes[trigger, run.due_at] = "deleted" if run.status is None else run.status.value
            self.unsettled.get(trigger, set()).discard((trigger, run.due_at))


def _look_at(schedule: Schedule) -> float | None:
    due = schedule.next_at
    return None if due is None else due + jitter(schedule.name, due, schedule.jitter_s)


@dataclass
class MemorySchedules:
    tables: _Tables

    async def add(self, schedule: Schedule, *, by: str) -> None:
        if any(each.name == schedule.name for each in self.tables.schedules.values()):
            raise NameTaken(f"There is a schedule {schedule.name!r} already")
        self.tables.schedules[schedule.id] = schedule
        self._version(schedule, schedule.created_at, by)

    def _version(self, schedule: Schedule, since: float, by: str, *, removed: bool = False) -> None:
        self.tables.versions.setdefault(schedule.name, []).append(
            RuleVersion(
                since=since,
                revision=schedule.revision,
                rule=schedule.rule,
                is_active=schedule.is_active and not removed,
                changed_by=by,
                removed=removed,
            )
        )

    async def find(self, name: str) -> Schedule:
        for each in self.tables.schedules.values():
            if name in (each.name, each.id):
                return each
        raise ScheduleNotFound(f"There is no schedule {name!r}")

    async def list(self, wanted: ScheduleQuery = EVERY_SCHEDULE) -> Sequence[Schedule]:
        found = [
            each
            for each in self.tables.schedules.values()
            if (each.source or not wanted.declared)
            and (wanted.owners is None or each.owner in wanted.owners)
            and wanted.words.lower() in f"{each.name} {each.target} {each.task_instruction}".lower()
            and each.name > wanted.after
        ]
        return sorted(found, key=lambda each: each.name)[: wanted.limit]

    async def change(self, old: Schedule, new: Schedule, *, by: str, now: float) -> bool:
        current = self.tables.schedules.get(old.id)
        if current is None or current.revision != old.revision:
            return False
        pending = current.next_at
        if pending is not None and pending <= now:
            reason = Reason.CHANGED if new.is_active else Reason.PAUSED
            skipped = Firing(
                trigger=old.name,
                due_at=pending,
                until_at=max(pending, now),
                status=FiringStatus.SKIPPED,
                reason=reason,
                fired_at=now,
                about=by,
                revision=old.revision,
            )
            self.tables.write(NewFiring(firing=skipped))
        self.tables.schedules[old.id] = new
        self.tables.failures[old.id] = 0
        self._version(new, now, by)
        return True

    async def remove(self, schedule: Schedule, *, by: str, now: float) -> None:
        self.tables.schedules.pop(schedule.id, None)
        for firing in self.tables.queued(schedule.name):
            self.tables.keep(
                replace(firing, status=FiringStatus.SKIPPED, reason=Reason.CHANGED, about=by, fired_at=now)
            )
        self._version(replace(schedule, revision=schedule.revision + 1), now, by, removed=True)


@dataclass
class MemoryFiringQueue:
    tables: _Tables

    async def due(self, now: float, *, limit: int) -> DueLook:
        found = [(_look_at(each), each.id) for each in self.tables.schedules.values()]
        planned = sorted((at, key) for at, key in found if at is not None)
        due = [(at, key) for at, key in planned if at <= now]
        schedules = tuple(
            DueSchedule(
                schedule=self.tables.schedules[key],
                open_runs=self.tables.open_runs(self.tables.schedules[key].name),
                queued=sum(
                    each.reason is not Reason.BACKFILL for each in self.tables.queued(self.tables.schedules[key].name)
                ),
                failures=self.tables.failures.get(key, 0),
            )
            for _, key in due[:limit]
        )
        return DueLook(schedules, planned[0][0] if planned else None, bool(self.tables.waiting))

    async def commit(self, turns: Sequence[Turn]) -> Sequence[bool]:
        return [self._turn(turn) for turn in turns]

    def _turn(self, turn: Turn) -> bool:
        read, now = turn.schedule, self.tables.schedules.get(turn.schedule.id)
        if now is None or (now.revision, now.next_at) != (read.revision, read.next_at):
            return False
        self.tables.close(read.name, turn.over)
        self.tables.failures[read.id] = turn.failures
        later = replace(read, next_at=turn.next_at)
        for new in turn.firings:
            self.tables.write(new)
        self.tables.letters |= {letter.id: letter for letter in turn.letters}
        if turn.paused_by:
            later = replace(later, is_active=False, paused_by=turn.paused_by, revision=read.revision + 1)
            MemorySchedules(self.tables)._version(later, turn.firings[0].firing.fired_at, turn.paused_by)
        self.tables.schedules[read.id] = later
        return True

    async def waiting(self, *, limit: int) -> Sequence[tuple[Firing, Sequence[OpenRun]]]:
        first: dict[str, Firing] = {}
        for firing in self.tables.queued():
            first.setdefault(firing.trigger, firing)
        return [(each, self.tables.open_runs(each.trigger)) for each in list(first.values())[:limit]]

    async def start(self, fired: Firing, created: Event | None, over: Sequence[OpenRun] = ()) -> bool:
        key = (fired.trigger, fired.due_at)
        if key not in self.tables.firings or self.tables.firings[key].status is not FiringStatus.QUEUED:
            return False
        self.tables.close(fired.trigger, over)
        self.tables.keep(fired)
        if created is not None and fired.run_id is not None:
            self.tables.create(fired.run_id, created)
        return True

    async def record(self, fired: NewFiring) -> bool:
        return self.tables.write_after_all(fired)


@dataclass
class MemoryOverview:
    tables: _Tables

    async def newest(self, triggers: Sequence[str]) -> Mapping[str, Firing]:
        found = sorted((each for each in self.tables.firings.values() if each.trigger in triggers), key=_due)
        return {each.trigger: each for each in found}

    async def waiting(self, triggers: Sequence[str]) -> Mapping[str, int]:
        counted = {name: len(self.tables.queued(name)) for name in triggers}
        return {name: count for name, count in counted.items() if count}

    async def open_questions(self, triggers: Sequence[str] | None = None) -> Mapping[str, AskedPerson]:
        found: dict[str, AskedPerson] = {}
        for trigger, keys in self.tables.unsettled.items():
            runs = [self.tables.firings[key].run_id for key in sorted(keys)]
            pending = [
                question
                for run_id in runs
                if run_id is not None
                for question, is_open in self._questions(run_id, run_id)
                if is_open
            ]
            if pending and (triggers is None or trigger in triggers):
                found[trigger] = min(pending, key=lambda each: each.since)
        return found

    async def questions(self, run_id: RunId) -> Sequence[AskedPerson]:
        return sorted((each for each, _ in self._questions(run_id, run_id)), key=lambda each: each.since)

    def _questions(self, top: RunId, run_id: RunId) -> list[tuple[AskedPerson, bool]]:
        logs, found = self.tables.runs.logs, dict[str, tuple[AskedPerson, bool]]()
        for event in logs.get(run_id, ()):
            match event.body:
                case ApprovalRequested() as body:
                    found[body.approval_id] = AskedPerson(top, body.approval_id, event.ts, body.expires_at), True
                case ApprovalDecided() as body if body.approval_id in found:
                    asked = found[body.approval_id][0]
                    found[body.approval_id] = asked._replace(decided_at=event.ts, decided_by=body.by), False
        below = [
            each
            for each, log in logs.items()
            if log
            and isinstance(log[0].body, RunCreated)
            and log[0].body.parent
            and log[0].body.parent.run_id == run_id
        ]
        return [*found.values(), *(question for each in below for question in self._questions(top, each))]


@dataclass
class MemoryBacklog:
    tables: _Tables

    async def add(self, firings: Sequence[Firing]) -> int:
        return sum(self.tables.write_after_all(NewFiring(firing=each)) for each in firings)

    async def withdraw(self, trigger: str, *, by: str, now: float) -> int:
        found = [each for each in self.tables.queued(trigger) if each.reason is Reason.BACKFILL]
        for each in found:
            settled = replace(each, status=FiringStatus.SKIPPED, reason=Reason.WITHDRAWN, about=by, fired_at=now)
            self.tables.keep(settled)
        return len(found)


@dataclass
class MemoryHistory:
    tables: _Tables

    async def firings(self, trigger: str, *, limit: int, before: float | None = None) -> Sequence[Firing]:
        found = sorted((each for each in self.tables.firings.values() if each.trigger == trigger), key=_due)
        return [each for each in reversed(found) if before is None or each.due_at < before][:limit]

    async def around(self, trigger: str, at: float, *, within_s: float) -> Sequence[Firing]:
        found = [each for each in self.tables.firings.values() if each.trigger == trigger]
        near = [each for each in found if each.due_at <= at and each.until_at >= at - within_s]
        return sorted(near, key=_due, reverse=True)

    async def fired_within(self, trigger: str, since: float, until: float) -> Sequence[float]:
        return sorted(
            each.due_at
            for each in self.tables.firings.values()
            if each.trigger == trigger
            and since <= each.due_at <= until
            and each.status in (FiringStatus.FIRED, FiringStatus.QUEUED)
        )

    async def versions(self, trigger: str) -> Sequence[RuleVersion]:
        return list(self.tables.versions.get(trigger, ()))

    async def lives(self, around: float) -> Sequence[Life]:
        return list(self.tables.lives.values())


@dataclass
class MemoryHeartbeats:
    tables: _Tables

    async def beat(self, life_id: str, server: str, since: float, now: float) -> None:
        known = self.tables.lives.get(life_id)
        self.tables.lives[life_id] = Life(server, since, now if known is None else max(now, known.until))


@dataclass
class MemoryLetters:
    tables: _Tables

    async def add(self, letter: DeadLetter) -> None:
        self.tables.letters.setdefault(letter.id, letter)

    async def list(self, *, limit: int, everything: bool = False) -> Sequence[DeadLetter]:
        found = [each for each in self.tables.letters.values() if everything or each.status == "dead"]
        return sorted(found, key=lambda each: -each.created_at)[:limit]

    async def find(self, letter_id: str) -> DeadLetter:
        found = [each for key, each in self.tables.letters.items() if key.startswith(letter_id)]
        if len(found) != 1:
            raise DeadLetterNotFound(f"There is no dead letter {letter_id!r}")
        return found[0]

    async def start(self, letter: DeadLetter, run_id: RunId, created: Event, *, by: str, now: float) -> bool:
        self.tables.letters[letter.id] = replace(
            letter, status="replayed", settled_by=by, settled_at=now, outcome=run_id
        )
        if run_id in self.tables.runs.logs:
            return False
        self.tables.create(run_id, created)
        key = (str(letter.payload.get("sensor")), str(letter.payload.get("key")))
        if key in self.tables.happenings and self.tables.happenings[key].run_id is None:
            self.tables.happenings[key] = replace(self.tables.happenings[key], run_id=run_id, reason="")
        return True

    async def settle(self, letter: DeadLetter, *, status: str, by: str, outcome: str, now: float) -> bool:
        if self.tables.letters[letter.id].status != letter.status:
            return False
        self.tables.letters[letter.id] = replace(letter, status=status, settled_by=by, settled_at=now, outcome=outcome)
        return True


@dataclass
class MemorySensors:
    tables: _Tables
    kept: dict[str, SensorState] = field(default_factory=dict)

    async def state(self, name: str, known: SensorState | None = None) -> SensorState:
        found = self.kept.get(name, SensorState(name=name))
        return known if known is not None and known.revision == found.revision > 0 else found

    async def states(self) -> Sequence[SensorState]:
        return [replace(each, cursor=None) for _, each in sorted(self.kept.items())]

    async def commit(
        self, state: SensorState, look: Look, new: Sequence[NewNoticed], *, now: float
    ) -> Sequence[RunId] | None:
        if (await self.state(state.name)).revision != state.revision:
            return None
        self.kept[state.name] = SensorState(
            name=state.name, cursor=look.cursor, revision=state.revision + 1, looked_at=now, reason=look.reason
        )
        started = []
        for each in new:
            key = (each.noticed.sensor, each.noticed.key)
            if key in self.tables.happenings:
                continue
            self.tables.happenings[key] = each.noticed
            if each.letter is not None:
                self.tables.letters.setdefault(each.letter.id, each.letter)
            if each.noticed.run_id is not None and each.created is not None:
                self.tables.create(each.noticed.run_id, each.created)
                started.append(each.noticed.run_id)
        return started

    async def list_noticed(self, sensor: str, *, limit: int) -> Sequence[Noticed]:
        found = [each for each in self.tables.happenings.values() if each.sensor == sensor]
        return sorted(found, key=lambda each: (-each.at, each.key))[:limit]

    async def depth_of(self, run_id: RunId) -> int:
        return max((each.depth for each in self.tables.happenings.values() if each.run_id == run_id), default=0)


@dataclass
class MemorySubscriptions:
    kept: dict[str, Subscription] = field(default_factory=dict)
    messages: dict[str, OutgoingMessage] = field(default_factory=dict)

    async def save(self, subscription: Subscription, *, new: bool = False) -> None:
        if new and subscription.name in self.kept:
            raise NameTaken(f"There is a subscription {subscription.name!r} already")
        self.kept[subscription.name] = subscription

    async def list(self) -> Sequence[Subscription]:
        return [each for _, each in sorted(self.kept.items())]

    async def remove(self, name: str) -> bool:
        self.messages = {key: each for key, each in self.messages.items() if each.subscription != name}
        return self.kept.pop(name, None) is not None

    async def put(self, messages: Sequence[OutgoingMessage]) -> None:
        for each in messages:
            self.messages.setdefault(each.id, each)

    async def claim(self, subscription: str, now: float, *, until: float) -> OutgoingMessage | None:
        seen: set[str] = set()
        for each in [each for each in self.messages.values() if each.subscription == subscription]:
            line = each.message_id.partition(":")[0]
            if line not in seen and each.next_at <= now:
                self.messages[each.id] = replace(each, next_at=until)
                return each
            seen.add(line)
        return None

    async def settle(self, message: OutgoingMessage, *, next_at: float | None) -> None:
        if next_at is None:
            self.messages.pop(message.id, None)
        elif message.id in self.messages:
            self.messages[message.id] = replace(message, attempts=message.attempts + 1, next_at=next_at)


@dataclass(frozen=True, kw_only=True)
class MemoryAutomation(AutomationStore):
    """AutomationStore that forgets, so that simulated servers live through years in seconds."""

    tables: _Tables

    @classmethod
    def over(cls, runs: MemoryRuns) -> "MemoryAutomation":
        """Return one that creates its runs there."""
        tables, subscriptions = _Tables(runs), MemorySubscriptions()
        return cls(
            tables=tables,
            schedules=MemorySchedules(tables),
            queue=MemoryFiringQueue(tables),
            history=MemoryHistory(tables),
            overview=MemoryOverview(tables),
            backlog=MemoryBacklog(tables),
            heartbeats=MemoryHeartbeats(tables),
            sensors=MemorySensors(tables),
            subscriptions=subscriptions,
            outgoing=subscriptions,
            letters=MemoryLetters(tables),
        )

    def end(self, run_id: RunId, status: RunStatus) -> None:
        """Let a run end."""
        self.tables.runs._statuses[run_id] = status


def _due(firing: Firing) -> float:
    return firing.due_at
