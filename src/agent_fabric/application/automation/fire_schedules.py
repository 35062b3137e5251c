"""Fires what is due: decides, records the firing and creates its run in one transaction, hands the run over."""

import asyncio
import logging
import uuid
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import field, replace
from datetime import datetime

from agent_fabric.application.automation.backfill_schedule import runs_at_once
from agent_fabric.application.ports.automation import (
    AutomationStore,
    Begin,
    DeadLetter,
    DueSchedule,
    FirstEvent,
    LetterKind,
    MakeTask,
    NewFiring,
    OpenRun,
    ReadCron,
    Say,
    Turn,
)
from agent_fabric.application.ports.bus import Bus
from agent_fabric.application.ports.clock import Clock
from agent_fabric.application.ports.operations import OperationsLog
from agent_fabric.application.runs.cancel_run import CancelRun
from agent_fabric.domain.automation.firing import (
    Firing,
    FiringStatus,
    Missed,
    Placement,
    Reason,
    due_now,
    jitter,
    place_firings,
    run_of_firing,
)
from agent_fabric.domain.automation.schedule import Overlap, Schedule, zone_of
from agent_fabric.domain.automation.timing import iso_utc
from agent_fabric.domain.automation.why import HEARTBEAT_S
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import FabricError, ScheduleNotFound, StoreUnavailable, TooManyRequests
from agent_fabric.domain.events import Event
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.task import RunStatus

LOOK_EVERY_S = 0.5
"""How often firings that wait are looked at, and a store that failed is tried again."""
MIN_PAUSE_S = 0.01
BATCH = 200
"""Schedules that are decided about in one transaction."""
OFF_CADENCE = 3
"""Instants in a row that were not fired, after which someone is told."""
OFF_CADENCE_EVENT = "schedule_off_cadence"
SUBJECT = "agent33.schedule"
UNLIMITED = 1_000_000
PACE = 25
"""Firings after which other work of the process gets its turn."""

_log = logging.getLogger(__name__)

ModelIsFree = Callable[[str], bool]
"""Tells whether a run that needs a model would have it at once."""


@dataclass(slots=True)
class FireSchedules:
    """Use case: start what schedules ask for, once, on one of any number of servers."""

    store: AutomationStore
    read_cron: ReadCron
    make_task: MakeTask
    first_event: FirstEvent
    begin: Begin
    cancel_run: CancelRun
    clock: Clock
    bus: Bus
    log: OperationsLog
    server: str
    """Who we are, for people."""
    count_start: Callable[[Schedule], Awaitable[None]] | None = None
    """Counts a start against the limits of a schedule's owner; raises TooManyRequests."""
    model_is_free: ModelIsFree = lambda _: True
    say: Say | None = None
    """Says what schedules for chats are to say."""
    alert: Callable[[str], None] = lambda _: None
    """Hears of events that alerts may be about, by their kind."""
    rearm: Callable[[], Awaitable[float]] | None = None
    """Lets intervals go on after the clock was set back; returns by how much it was."""
    tell_waiting: Callable[[], Awaitable[None]] | None = None
    """Tells people of runs that wait for one of them; with each sign of life."""
    pause: Callable[[float], Awaitable[bool | None]] = asyncio.sleep
    """Ends early when schedules were changed, and then returns True."""
    look_every_s: float = LOOK_EVERY_S
    """How often firings that wait are looked at, and what others may have changed; seldom, where `pause` ends when
    there is something to do."""
    _next_at: float | None = None
    """When the next look is due, as far as is known."""
    _has_queued: bool = False
    _life: str = field(default_factory=lambda: str(uuid.uuid4()))
    _since: float | None = None
    _beaten_at: float = 0.0
    _looked_at: float = float("-inf")

    async def __call__(self) -> None:
        """Fire until cancelled. Between two instants it sleeps, but for a sign of life now and then."""
        woken: bool | None = True
        while True:
            try:
                if self.rearm is not None and (back_s := await self.rearm()):
                    self._begin_life(back_s)
                    woken = True
                if await self.beat() and self.tell_waiting is not None:
                    await self.tell_waiting()
                if woken or self._is_due():
                    await self.tick()
                    self._looked_at = self.clock.monotonic()
            except StoreUnavailable as problem:
                self._next_at = self.clock.now() + LOOK_EVERY_S
                _log.warning("Schedules could not be looked at: %s", problem.message)
            except Exception:  # noqa: BLE001 - one schedule that cannot be handled must not stop all others for ever
                self._next_at = self.clock.now() + LOOK_EVERY_S
                _log.exception("Schedules could not be looked at")
            woken = await self.pause(self._pause_s())

    def _begin_life(self, back_s: float) -> None:
        """Begin to be alive anew, by a clock that was set back: what was noted before lies ahead of it."""
        self._life, self._since = str(uuid.uuid4()), None
        self.log.warning("clock_set_back", seconds=round(back_s))
        self.bus.publish(f"{SUBJECT}.clock_set_back", {"seconds": round(back_s), "server": self.server})

    def _is_due(self) -> bool:
        """Tell whether it is time for a look, although no one has woken us."""
        if self._next_at is not None and self.clock.now() >= self._next_at:
            return True
        return self.clock.monotonic() - self._looked_at >= self.look_every_s

    def _pause_s(self) -> float:
        """Return how long there is nothing to do: a clock that is set meanwhile costs one sign of life at most."""
        waits = [HEARTBEAT_S - (self.clock.monotonic() - self._beaten_at)]
        if self._next_at is not None:
            waits.append(self._next_at - self.clock.now())
        if self._has_queued:
            waits.append(self.look_every_s)
        return max(MIN_PAUSE_S, min(waits))

    async def beat(self) -> bool:
        """Note that this process is alive, now and then; tell whether that was due."""
        now, passed = self.clock.now(), self.clock.monotonic()
        if self._since is None:
            self._since = now
        elif passed - self._beaten_at < HEARTBEAT_S:
            return False
        self._beaten_at = passed
        await self.store.heartbeats.beat(self._life, self.server, self._since, now)
        return True

    async def tick(self) -> Sequence[RunId]:
        """Fire everything that is due now; return the runs that were created."""
        now = self.clock.now()
        started: list[RunId] = []
        while True:
            look = await self.store.queue.due(now, limit=BATCH)
            self._next_at, self._has_queued = look.next_at, look.has_queued
            if not look.schedules:
                break
            ours = await self._fire_all(look.schedules, now)
            for turn, due in ours:
                started += await self._after(turn, due)
            if not ours:
                break  # other processes are at it
        if self._has_queued:
            started += await self._start_waiting(now)
        return started

    async def _fire_all(self, found: Sequence[DueSchedule], now: float) -> list[tuple[Turn, DueSchedule]]:
        """Decide and write; return what was ours to do.

        One after the other: threads that do both at the same time wait for each other most of the time.
        """
        turns: list[Turn] = []
        for nth, due in enumerate(found):
            turns.append(await self._decide(due, now))
            if nth % PACE == PACE - 1:
                await asyncio.sleep(0)
        done = await self.store.queue.commit(turns)
        return [(turn, due) for turn, due, ours in zip(turns, found, done, strict=True) if ours]

    async def _decide(self, due: DueSchedule, now: float) -> Turn:
        """Decide about one schedule; one that cannot be handled skips its instants, and stops no other."""
        try:
            return await self._turn(due, now)
        except StoreUnavailable:
            raise
        except Exception as problem:  # noqa: BLE001 - as in `__call__`
            _log.exception("Schedule %s could not be handled", due.schedule.name)
            return self._failed_turn(due, now, f"{type(problem).__name__}: {problem}")

    def _failed_turn(self, due: DueSchedule, now: float, why: str) -> Turn:
        schedule = due.schedule
        assert schedule.next_at is not None
        try:
            instants = due_now(schedule, schedule.rule.timing(self.read_cron), now)
        except Exception:  # noqa: BLE001 - a rule that cannot be read is not read again and again
            return self._paused_turn(due, now, (), due.failures, f"server: {why}")
        firing = self._firing(schedule, schedule.next_at, FiringStatus.SKIPPED, Reason.FAILED, now, about=why)
        count = len(instants.fire) + sum(each.count for each in instants.missed)
        last = max([firing.due_at, *instants.fire, *(each.last for each in instants.missed)])
        return Turn(
            schedule=schedule,
            next_at=instants.next_at,
            look_at=self._look_at(schedule, instants.next_at),
            firings=[NewFiring(firing=replace(firing, until_at=last, count=max(1, count)))],
            failures=due.failures,
            letters=[_letter(schedule, last, why, now)],
        )

    def _look_at(self, schedule: Schedule, next_at: float | None) -> float | None:
        return None if next_at is None else next_at + jitter(schedule.name, next_at, schedule.jitter_s)

    async def _turn(self, due: DueSchedule, now: float) -> Turn:
        schedule = due.schedule
        over = [run for run in due.open_runs if run.is_over]
        failures = failures_after(due.failures, over)
        try:
            timing = schedule.rule.timing(self.read_cron)
        except FabricError as problem:
            return self._paused_turn(due, now, over, failures, f"server: {problem.message}")
        instants = due_now(schedule, timing, now)
        if 0 < schedule.pause_after_failures <= failures:
            return self._paused_turn(due, now, over, failures, f"server: {failures} failures in a row")
        active = [run for run in due.open_runs if not run.is_over]
        placements = place_firings(schedule, instants.fire, active=len(active), queued=due.queued, now=now)
        firings = [NewFiring(firing=self._missed_firing(schedule, each, now)) for each in instants.missed]
        letters = []
        if instants.over_limit:
            more = "" if instants.counted else "more than "
            reason = f"{more}{instants.over_limit} instants were missed beyond max_catch_up ({schedule.max_catch_up})"
            letters.append(_letter(schedule, instants.missed[0].first, reason, now))
        room = await self._room_today(schedule, now)
        for instant, placed in zip(instants.fire, placements, strict=True):
            new, letter = await self._fire(schedule, instant, placed, active, now, room)
            room -= new.firing.status is FiringStatus.FIRED
            firings.append(new)
            letters += [letter] if letter is not None else []
        return Turn(
            schedule=schedule,
            next_at=instants.next_at,
            look_at=self._look_at(schedule, instants.next_at),
            firings=firings,
            over=over,
            failures=failures,
            letters=letters,
        )

    def _paused_turn(self, due: DueSchedule, now: float, over: Sequence[OpenRun], failures: int, why: str) -> Turn:
        schedule = due.schedule
        assert schedule.next_at is not None
        firing = self._firing(schedule, schedule.next_at, FiringStatus.SKIPPED, Reason.PAUSED, now, about=why)
        skipped = NewFiring(firing=replace(firing, until_at=max(now, firing.due_at)))
        turn = Turn(schedule=schedule, next_at=None, look_at=None, firings=[skipped], paused_by=why)
        return replace(turn, over=over, failures=failures)

    async def _fire(
        self, schedule: Schedule, instant: float, placed: Placement, active: Sequence[OpenRun], now: float, room: int
    ) -> tuple[NewFiring, DeadLetter | None]:
        """Return what is recorded for one instant, with the run that it starts."""
        status, reason, about = placed.status, placed.reason, ""
        if status is not FiringStatus.FIRED:
            about = active[0].run_id if active else ""
        elif room <= 0:
            status, reason = FiringStatus.SKIPPED, Reason.BUDGET
        elif schedule.required_model and not self.model_is_free(schedule.required_model):
            status, reason = FiringStatus.QUEUED, Reason.MODEL_BUSY
        if status is not FiringStatus.FIRED:
            return NewFiring(firing=self._firing(schedule, instant, status, reason, now, about=about)), None
        run_id = run_of_firing(schedule.name, instant)
        try:
            created = await self._first_event(schedule, run_id)
        except FabricError as problem:
            is_quota = isinstance(problem, TooManyRequests)
            reason, why = Reason.QUOTA if is_quota else Reason.FAILED, problem.message
            skipped = self._firing(schedule, instant, FiringStatus.SKIPPED, reason, now, about=why)
            return NewFiring(firing=skipped), None if is_quota else _letter(schedule, instant, why, now)
        fired = self._firing(schedule, instant, FiringStatus.FIRED, reason, now, about=about)
        return NewFiring(firing=replace(fired, run_id=run_id), created=created), None

    async def _first_event(self, schedule: Schedule, run_id: RunId) -> Event | None:
        """Return the first event of the run; None: it is a turn of a session, which makes its own run.

        What is said is said before the firing is recorded, under an id that follows from it: so it is said once.
        """
        if self.count_start is not None:
            await self.count_start(schedule)
        if schedule.is_said and self.say is not None:
            await self.say(schedule, run_id)
            return None
        return self.first_event(run_id, await self.make_task(schedule))

    def _firing(
        self, schedule: Schedule, due: float, status: FiringStatus, reason: Reason, now: float, *, about: str = ""
    ) -> Firing:
        return replace(Firing.of(schedule, due, status, reason, at=now, server=self.server), about=about)

    def _missed_firing(self, schedule: Schedule, missed: Missed, now: float) -> Firing:
        firing = self._firing(schedule, missed.first, FiringStatus.SKIPPED, missed.reason, now)
        return replace(firing, until_at=missed.last, count=missed.count)

    async def _room_today(self, schedule: Schedule, now: float) -> int:
        """Return how many runs a schedule may still start today."""
        if schedule.daily_runs is None:
            return UNLIMITED
        local = datetime.fromtimestamp(now, zone_of(schedule.rule.timezone))
        midnight = local.replace(hour=0, minute=0, second=0, microsecond=0).timestamp()
        return schedule.daily_runs - len(await self.store.history.fired_within(schedule.name, midnight, now))

    async def _after(self, turn: Turn, due: DueSchedule) -> list[RunId]:
        """Do what follows from a turn that is durable."""
        schedule = turn.schedule
        started = [new.firing.run_id for new in turn.firings if new.created is not None and new.firing.run_id]
        await self._tell_cadence(turn)
        if turn.paused_by:
            self.log.warning("schedule_paused", schedule=schedule.name, by=turn.paused_by)
            self.bus.publish(f"{SUBJECT}.paused", {"schedule": schedule.name, "by": turn.paused_by})
        for letter in turn.letters:
            self.log.warning("schedule_not_fired", schedule=schedule.name, reason=letter.reason, letter=letter.id)
        if started and schedule.overlap is Overlap.CANCEL:
            for run in due.open_runs:
                if not run.is_over:
                    await self._cancel(run.run_id, schedule.name)
        if started:
            self.begin(started)
        for run_id in started:
            self.bus.publish(f"{SUBJECT}.fired", {"schedule": schedule.name, "run_id": run_id})
        return started

    async def _tell_cadence(self, turn: Turn) -> None:
        """Tell that a schedule is off its cadence: three instants in a row were not fired, for whatever reason."""
        firings = [new.firing for new in turn.firings]
        missed = sum(each.count for each in firings if each.status is FiringStatus.SKIPPED)
        if not missed or turn.paused_by:
            return
        name, before = turn.schedule.name, 0
        if all(each.status is FiringStatus.SKIPPED for each in firings):
            oldest = min(each.due_at for each in firings)
            for each in await self.store.history.firings(name, limit=OFF_CADENCE, before=oldest):
                if each.status is not FiringStatus.SKIPPED or each.reason in _MEANT:
                    break
                before += each.count
        if before + missed < OFF_CADENCE:
            return
        self.alert(OFF_CADENCE_EVENT)
        if before < OFF_CADENCE:  # once for each time that it leaves its cadence
            reason = firings[0].reason.value
            self.log.warning(OFF_CADENCE_EVENT, schedule=name, missed=before + missed, reason=reason)
            message = {"schedule": name, "missed": before + missed, "reason": reason}
            self.bus.publish(f"{SUBJECT}.off_cadence", message)

    async def _cancel(self, run_id: RunId, name: str) -> None:
        try:
            await self.cancel_run(run_id, by=f"schedule {name}", reason="the next firing is due")
        except FabricError as problem:
            _log.warning("Run %s was not cancelled for the next firing: %s", run_id, problem.message)

    async def _start_waiting(self, now: float) -> list[RunId]:
        started: list[RunId] = []
        for firing, runs in await self.store.queue.waiting(limit=BATCH):
            if sum(not run.is_over for run in runs) >= runs_at_once(firing):
                continue
            fired, created = await self._from_queue(firing, now)
            over = [run for run in runs if run.is_over]
            if fired is not None and await self.store.queue.start(fired, created, over) and fired.run_id is not None:
                started.append(fired.run_id)
        if started:
            self.begin(started)
        return started

    async def _from_queue(self, firing: Firing, now: float) -> tuple[Firing | None, Event | None]:
        """Return what becomes of a firing that waited; None: it goes on waiting."""
        settled = replace(firing, fired_at=now, server=self.server, about="")
        try:
            schedule = await self.store.schedules.find(firing.trigger)
        except ScheduleNotFound:
            return replace(settled, status=FiringStatus.SKIPPED, reason=Reason.CHANGED), None
        if not schedule.is_active and firing.reason is not Reason.BACKFILL:  # that was asked for by hand
            paused = replace(settled, status=FiringStatus.SKIPPED, reason=Reason.PAUSED, about=schedule.paused_by)
            return paused, None
        if schedule.required_model and not self.model_is_free(schedule.required_model):
            if now - firing.due_at <= schedule.max_late_s:
                return None, None
            return replace(settled, status=FiringStatus.SKIPPED, reason=Reason.MODEL_BUSY), None
        run_id = run_of_firing(schedule.name, firing.due_at)
        try:
            created = await self._first_event(schedule, run_id)
        except TooManyRequests:
            return None, None
        except FabricError as problem:
            await self.store.letters.add(_letter(schedule, firing.due_at, problem.message, now))
            return replace(settled, status=FiringStatus.SKIPPED, reason=Reason.FAILED, about=problem.message), None
        return replace(settled, status=FiringStatus.FIRED, run_id=run_id), created


_MEANT = frozenset({Reason.PAUSED, Reason.CHANGED})
"""What a person has decided is no loss of cadence."""


def _letter(schedule: Schedule, due: float, reason: str, now: float) -> DeadLetter:
    """Return the dead letter of an instant that was not fired."""
    letter_id = str(uuid.uuid5(uuid.NAMESPACE_URL, f"firing:{schedule.name}:{iso_utc(due)}"))
    payload = {"schedule": schedule.name, "due_at": due}
    return DeadLetter(
        id=letter_id, kind=LetterKind.TRIGGER, source=schedule.name, reason=reason, payload=payload, created_at=now
    )


def failures_after(failures: int, over: Sequence[OpenRun]) -> int:
    """Return how many runs have failed in a row, after those that have ended since."""
    for run in sorted(over, key=lambda each: each.due_at):
        if run.status is RunStatus.FAILED:
            failures += 1
        elif run.status is RunStatus.COMPLETED:
            failures = 0
    return failures
