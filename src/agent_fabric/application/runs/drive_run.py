"""The loop: decide, make it durable, do it, take in what came of it. There is no other one."""

import asyncio
import math
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import field, replace
from typing import Any, NamedTuple

from agent_fabric.application.ports.clock import Clock
from agent_fabric.application.ports.events import EventSink
from agent_fabric.application.ports.runs import APPROVAL, CANCEL, CHILD, SIGNAL, HeldRun, InboxRow, NewRun
from agent_fabric.application.ports.sandbox import Sandboxes
from agent_fabric.application.ports.workspace_archive import WorkspaceArchive
from agent_fabric.application.runs.in_flight_effects import (
    Effect,
    EffectTask,
    InboxFuture,
    InFlightEffects,
    cancelled_from,
    complete,
    decision_from,
    ends_effects,
    signal_from,
)
from agent_fabric.application.runs.open_packs import OpenPacks
from agent_fabric.application.runs.perform import Perform
from agent_fabric.domain.approvals.answers import Decision, Question
from agent_fabric.domain.approvals.events import ApprovalDecided
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import FabricError
from agent_fabric.domain.events import (
    Body,
    Event,
    RunFailed,
    RunInterrupted,
    RunWaited,
    ToolErred,
    ToolReturned,
    WorkspaceSaved,
)
from agent_fabric.domain.ids import LaneId, RunId, SpecialistId
from agent_fabric.domain.models.live_text import LiveText
from agent_fabric.domain.runs.actions import Action, CallModel, lane_of
from agent_fabric.domain.runs.decide import decide, given_up
from agent_fabric.domain.runs.evolve import evolve
from agent_fabric.domain.runs.state import RunState
from agent_fabric.domain.runs.task import RunStatus
from agent_fabric.domain.secrets.references import KnownSecrets
from agent_fabric.domain.secrets.shapes import hide_shapes
from agent_fabric.domain.workflows.actions import StopStep, Wait
from agent_fabric.domain.workflows.events import StepWaited

MAX_AT_ONCE = 256
"""Facts that are recorded before they are made durable, where nothing else asks for it."""

_Start = tuple[LaneId | None, Effect]


@dataclass(frozen=True, slots=True)
class DriveRun:
    """Use case: move a held run on until it settles, waits or is interrupted."""

    perform: Perform
    clock: Clock
    sink: EventSink | None = None
    marks_interruption: bool = True
    """Whether a run that is stopped is left for a person to resume. A server leaves its runs for its successor."""
    sandboxes: Sandboxes | None = None
    """Whose boxes end with the drive."""
    secrets: KnownSecrets | None = None
    """Values that must not stand in the log."""
    patience_s: float = math.inf
    """A run that goes on by itself within this time stays in memory. A server has something better to do."""
    asks_here: bool = False
    """Whether someone sits here who answers at once, so that a run which needs a person does not stay for its
    timers."""
    archive: WorkspaceArchive | None = None
    """Where files are saved with the results of calls that may have changed them."""
    on_settled: Callable[[RunState], None] | None = None
    """Told of each run that has come to its end here. It must neither raise nor block."""
    _releasing: set[asyncio.Future[None]] = field(default_factory=set)
    """Runs whose effects outlast their drive."""

    async def __call__(self, held: HeldRun, state: RunState, opening: Sequence[Body] = ()) -> None:
        """Drive the run. `state` is brought forward in place; `opening` is recorded first.

        When this is cancelled, the run can be resumed; `marks_interruption` tells by whom.

        Raises:
            DriverConflict, StoreFull, StoreUnavailable: the log cannot be written; the run can be resumed later.
        """
        drive = _Drive(self, held, state)
        try:
            drive.record(None, opening)
            await drive.run()
            if self.on_settled is not None and state.status.settled:
                self.on_settled(state)
        except asyncio.CancelledError:
            await drive.stop()
            if self.marks_interruption:
                await asyncio.shield(drive.interrupt("stopped by the person or the system"))
            raise
        finally:
            await complete(self._let_go(drive, held))

    async def _let_go(self, drive: "_Drive", held: HeldRun) -> None:
        try:
            await drive.stop()
            await drive.packs.close()
            if self.sandboxes is not None:
                await self.sandboxes.close(held.run_id)
            if self.archive is not None:
                self.archive.forget(held.run_id)
        finally:
            unfinished = drive.in_flight.unfinished
            if unfinished:  # no other driver may begin while an effect of this one goes on
                releasing = asyncio.ensure_future(_release_after(unfinished, held))
                self._releasing.add(releasing)
                releasing.add_done_callback(self._releasing.discard)
            else:
                await held.release()


async def _release_after(unfinished: Collection[asyncio.Task[Any]], held: HeldRun) -> None:
    await asyncio.wait(unfinished)
    await held.release()


class _Plan(NamedTuple):
    """What comes next, as far as it can be told without anything from outside."""

    starts: list[_Start]
    """The effects that may start."""
    promised: bool
    """Whether any of them must not start before what was recorded is durable. Opening a pack, which a crash only makes
    necessary again, need not wait."""
    wait: Wait | None = None
    """Nothing moves before something happens."""
    unfinished: bool = False
    """There is more to decide, but what was recorded should be made durable first."""


class _Drive:
    """One drive of one run."""

    def __init__(self, use_case: DriveRun, held: HeldRun, state: RunState) -> None:
        self.perform = use_case.perform
        self.clock = use_case.clock
        self.sink = use_case.sink
        self.secrets = use_case.secrets
        self.held = held
        self.state = state
        self.packs = OpenPacks()
        self.patience_s = use_case.patience_s
        self.asks_here = use_case.asks_here
        self.archive = use_case.archive
        self.batch: list[Event] = []
        """Recorded, but not durable yet."""
        self.live: dict[LaneId, LiveText] = {}
        """Answers that are being written, as far as they are not shown yet."""
        self.said: dict[LaneId, list[str]] = {}
        """The same answers as far as they are shown; kept in a session if they are never completed."""
        self.children: list[NewRun] = []
        """Runs that come into being with it."""
        self.in_flight = InFlightEffects()
        self.told: set[LaneId] = set()
        """Steps whose child has ended elsewhere while it was still being looked after here."""
        self._task: asyncio.Task[Any] | None = None
        """What drives the run."""
        self._here: asyncio.Task[Any] | None = None
        """The same, while an effect runs on it."""

    async def run(self) -> None:
        """Go round until nothing moves any more."""
        self._task = asyncio.current_task()
        await self._commit()  # a takeover counts from here on, even if opening a pack kills the process
        if self.state.workflow is not None:
            await self.perform.invoke_tool.remember_secrets(self.state.workflow.secret_names)
        goes_on = self.state.workflow is not None and self.state.next_seq > 1  # no one knows a run that is new
        if self.state.asked or goes_on or self._has_parent:
            # What was said while no one drove the run; first of all, or it would wait again, or begin in vain.
            await self._read(await self.held.unread())
        inbox = self._receive()
        try:
            while True:
                plan = self._plan()
                if plan.promised or not plan.starts or self.state.status is not RunStatus.RUNNING:
                    await self._commit()
                if self.state.status is not RunStatus.RUNNING:
                    break
                if len(plan.starts) == 1 and not self.in_flight and (self.state.workflow is None or self._is_alone()):
                    await self._run_inline(*plan.starts[0], inbox)
                elif plan.starts or self.in_flight:
                    await self._run_concurrently(plan.starts, inbox)
                elif plan.wait is not None:
                    await self._wait(plan.wait, inbox)
                elif not plan.unfinished:
                    break
                if inbox.done() and self.state.status is RunStatus.RUNNING:
                    # What comes while it is laid aside stays unread: that wakes it, and once read it would not.
                    await self._read(inbox.result())
                    inbox = self._receive()
        finally:
            inbox.cancel()
        await self._clean_up()

    @property
    def _has_parent(self) -> bool:
        return self.state.task is not None and self.state.task.parent is not None

    def _is_alone(self) -> bool:
        """Tell whether nothing but the one effect that starts now can move the run on, the inbox aside."""
        workflow = self.state.workflow
        return workflow is None or (len(workflow.open) <= 1 and workflow.next_due is None)

    def record(self, lane: LaneId | None, bodies: Sequence[Body]) -> None:
        """Put facts into their place and let the state follow."""
        state = self.state
        known = state.lanes.get(lane) if lane is not None else None
        step = f"step_{known.current_step}" if known is not None else ""
        now = self.clock.now()
        if self.secrets:  # it may learn some while the run goes on
            bodies = [self.secrets.hide(body) for body in bodies]
        if lane is not None and self.live:
            self._end_live_text(lane)
            self.said.pop(lane, None)
        for body in bodies:
            event = Event(state.next_seq, now, lane, step, body)
            evolve(state, event)
            self.batch.append(event)

    def _plan(self) -> "_Plan":
        """Follow decisions as far as they need nothing from outside."""
        starts: list[_Start] = []
        promised = False
        if self.state.status is not RunStatus.RUNNING:
            return _Plan(starts, promised)  # a moment that comes behind the last word would not wake anyone
        if self.state.asked:
            self._expire()
        if self.state.workflow is not None:
            for lane, fired in self.state.workflow.due(self.clock.now()):
                self.record(lane, (fired,))
        busy = self.in_flight.lanes
        while (action := self._next_action(busy)) is not None:
            if isinstance(action, Wait):
                return _Plan(starts, promised, wait=action)
            if isinstance(action, StopStep):
                starts[:] = [each for each in starts if each[0] != action.lane]  # what has not begun never does
                self._stop_step(action)
                continue
            lane = lane_of(action)
            on_delta = self._delta if isinstance(action, CallModel) and self._wants_deltas else None
            prepared = self.perform(action, self.state, self.packs, notice=self._notify, on_delta=on_delta)
            self.record(lane, prepared.bodies)
            self.children += prepared.children
            if prepared.effect is not None:
                starts.append((lane, prepared.effect))
                promised = promised or bool(prepared.bodies)
                busy.add(lane)
                if len(self.state.specialist_ids) == 1:
                    break  # the only lane is busy: there is nothing else to decide
            elif len(self.batch) >= MAX_AT_ONCE and not starts:
                return _Plan(starts, promised, unfinished=True)
        return _Plan(starts, promised)

    def _next_action(self, busy: set[LaneId | None]) -> Action | None:
        # Asked anew after every action: what one lane records may have ended the whole run.
        for action in decide(self.state):
            if not busy or isinstance(action, StopStep) or lane_of(action) not in busy:
                return action
        return None

    @property
    def _wants_deltas(self) -> bool:
        return self.state.talks or (self.sink is not None and self.sink.wants_deltas)

    def _stop_step(self, action: StopStep) -> None:
        """End what a step has under way, without waiting for it."""
        workflow = self.state.workflow
        assert workflow is not None
        tasks = self.in_flight.give_up(action.lane)
        child = workflow.open_children.get(action.lane)
        if child is not None:
            self.in_flight.clean_up(self._end_child(child, action.reason, tasks))
        self.record(action.lane, (action.ended,))

    async def _end_child(self, child: RunId, reason: str, tasks: Sequence[EffectTask] = ()) -> None:
        if tasks:
            await asyncio.wait(tasks)
        with suppress(FabricError):  # it has been asked to end, in the very transaction that gave it up
            await self.perform.end_child(child, by=f"run {self.held.run_id}", reason=reason)

    async def _clean_up(self) -> None:
        """End the runs that worked for this one, if it has ended, and wait for everything that is being stopped."""
        workflow = self.state.workflow
        if workflow is not None and self.state.status.settled:
            for child in workflow.open_children.values():
                self.in_flight.clean_up(self._end_child(child, "the workflow has ended"))
        await self.in_flight.cleaned_up()

    async def _wait(self, wait: Wait, inbox: InboxFuture) -> None:
        """Stay until something happens, if that is soon enough; otherwise leave the run to itself."""
        if inbox.done():
            return
        leaves = wait.moves_at is None or (self.asks_here and bool(wait.approvals))
        if leaves or (wait.moves_at or 0.0) - self.clock.now() > self.patience_s:
            self.record(None, (RunWaited(reason=wait.reason, approvals=wait.approvals, until=wait.until),))
            await self._commit()
        else:
            await self._wait_for_progress(inbox)

    async def _commit(self, consumed: Sequence[InboxRow] = ()) -> None:
        """Make what was recorded durable, then let readers see it."""
        if self.archive is not None and any(isinstance(each.body, ToolReturned | ToolErred) for each in self.batch):
            await self._save_workspace(self.archive)
        # Folders first: a driver that is cancelled meanwhile must still have the batch.
        made = [child for child in self.children if await child.prepare()] if self.children else []
        batch, self.batch = self.batch, []
        children, self.children = self.children, []
        if not batch and not consumed:
            return
        try:
            await self.held.append(batch, consumed=consumed, children=children)
        except FabricError:
            for child in made:
                await child.discard()
            raise
        if self.sink is not None and batch:
            for child in children:
                self.sink.publish(child.run_id, (child.created,))
            self.sink.publish(self.held.run_id, batch)

    async def _save_workspace(self, archive: WorkspaceArchive) -> None:
        """Save the files before the results of calls are durable: a reader of the log finds the files to it."""
        if archive.covers(self.state):
            saved = await archive.save(self.held.run_id)
            if saved.manifest != self.state.saved:
                self.record(None, (WorkspaceSaved(**saved._asdict()),))

    async def _run_inline(self, lane: LaneId | None, effect: Effect, inbox: InboxFuture) -> None:
        """Let the only effect run here, not on a task of its own: the usual case, at half the price.

        A row that ends the run, or a lost lease, cancels it, as a time-out would; other rows are read when the effect
        has completed.
        """
        if inbox.done() and ends_effects(inbox):
            return  # before anything has begun
        task = self._here = self._task
        assert task is not None
        try:
            bodies = await effect()
        except asyncio.CancelledError:
            if self._here is not None or task.uncancel():
                raise  # someone else wants us to stop
            return
        except Exception as problem:  # noqa: BLE001 - an effect tells its failures as events, so this is our own bug
            bodies = (self._bug(lane, problem),)
        finally:
            self._here = None
        self.record(lane, bodies)

    async def _run_concurrently(self, starts: Sequence[_Start], inbox: InboxFuture) -> None:
        """Let effects of several lanes run side by side, until one of them completes or the inbox has rows."""
        for lane, effect in starts:
            self.in_flight.start(lane, effect)
        await self._wait_for_progress(inbox)
        for lane, task in self.in_flight.take_completed():
            problem = task.exception()
            bodies = task.result() if problem is None else (self._bug(lane, problem),)
            if lane in self.told:
                self.told.discard(lane)
                bodies = await self._not_waiting(lane, bodies)
            self.record(lane, bodies)

    def _receive(self) -> InboxFuture:
        inbox = self.in_flight.watch(self.held.receive())
        inbox.add_done_callback(self._interrupt)
        return inbox

    def _interrupt(self, inbox: InboxFuture) -> None:
        """Cancel the effect that runs here if a row asks the run to end, or others may drive it by now."""
        if self._here is not None and ends_effects(inbox):
            self._here.cancel()
            self._here = None  # so that it is known whose wish it was

    async def _wait_for_progress(self, inbox: InboxFuture) -> None:
        """Wait until an effect completes, the inbox has rows, or a moment comes that the run waits for."""
        moments: list[float] = []
        if (workflow := self.state.workflow) is not None:
            moments = [asked.expires_at for asked in self.state.asked]
            moments += [] if workflow.next_due is None else [workflow.next_due]
        await self.in_flight.wait(inbox, within_s=max(min(moments) - self.clock.now(), 0.0) if moments else None)

    async def _read(self, rows: Sequence[InboxRow]) -> None:
        """Take in what others want of the run."""
        if self.state.status.settled:
            return
        cancels = [row for row in rows if row.kind == CANCEL]
        if cancels:
            await self.stop()
            self.record(None, (replace(cancelled_from(cancels[0].payload), said=self._said_so_far()),))
        else:
            for row in rows:
                if row.kind == APPROVAL:
                    self._take_answer(decision_from(row.payload))
                elif row.kind == SIGNAL and self.state.workflow is not None:
                    self.record(None, (signal_from(row.payload),))
                elif row.kind == CHILD:
                    await self._take_child(RunId(str(row.payload["run_id"])))
        await self._commit(consumed=rows)

    async def _take_child(self, child: RunId) -> None:
        """Learn that a run which works for this one has ended; one whose driver is here tells it in person."""
        workflow = self.state.workflow
        lane = workflow.lane_of_child(child) if workflow is not None else None
        if workflow is None or lane is None:
            return
        if lane in self.in_flight.lanes:
            self.told.add(lane)  # its supervisor may only have seen that another process holds it
        else:
            self.record(lane, await self.perform.child_outcome(child, workflow.steps[lane].step.id))

    async def _not_waiting(self, lane: LaneId, bodies: Sequence[Body]) -> Sequence[Body]:
        """Say how a child ended whose end was told before it could be said that it waits."""
        assert self.state.workflow is not None
        child = self.state.workflow.open_children.get(lane)
        if child is None or not any(isinstance(body, StepWaited) for body in bodies):
            return bodies
        return await self.perform.child_outcome(child, self.state.workflow.steps[lane].step.id) or bodies

    def _take_answer(self, decided: ApprovalDecided) -> None:
        """Record an answer with the lane that asked; one that comes too late changes nothing.

        A call that was agreed to in time does not run once that time is over.
        """
        lane = self.state.lane_that_asked(decided.approval_id)
        if lane is None:
            return
        asked = next((each for each in self.state.asked if each.approval_id == decided.approval_id), None)
        runs_call = decided.decision is Decision.APPROVE and asked is not None and asked.question is not Question.ANSWER
        if asked is not None and runs_call and asked.expires_at <= self.clock.now():
            decided = replace(decided, decision=Decision.EXPIRED, by="the clock", via="clock", args=None)
        self.record(lane, (decided,))

    def _expire(self) -> None:
        """Record that no one has answered in time."""
        now = self.clock.now()
        for asked in self.state.asked:
            if asked.expires_at <= now:
                self._take_answer(
                    ApprovalDecided(
                        approval_id=asked.approval_id, decision=Decision.EXPIRED, by="the clock", via="clock"
                    )
                )

    async def stop(self) -> None:
        """End every effect that is under way, and wait until it has cleaned up."""
        await self.in_flight.stop()

    async def interrupt(self, reason: str) -> None:
        """Leave a mark that the run was stopped on purpose."""
        if not self.state.status.settled and self.state.next_seq:
            self.record(None, (RunInterrupted(reason=reason),))
            await self._commit()

    def _bug(self, lane: LaneId | None, problem: BaseException) -> Body:
        code, message = "internal_error", f"agent-fabric itself failed: {type(problem).__name__}: {problem}"
        hint = "This is a bug. Please report it with the output of `fabric logs show RUN_ID`."
        if lane is None:
            return RunFailed(code=code, message=message, hint=hint)
        if self.state.workflow is not None:
            return self.state.workflow.internal_failure(lane, f"{message} {hint}")
        return given_up(self.state, SpecialistId(lane), code=code, message=message, hint=hint)

    def _said_so_far(self) -> str:
        """Return the answers that are being written; what may be the beginning of a secret is left out."""
        return "\n\n".join("".join(pieces) for pieces in self.said.values()).strip()

    def _show(self, lane: LaneId, text: str) -> None:
        if self.state.talks:
            self.said.setdefault(lane, []).append(text)
        if self.sink is not None:
            self.sink.delta(self.held.run_id, lane, text)

    def _delta(self, lane: LaneId, text: str) -> None:
        live = self.live.get(lane)
        if live is None:
            live = self.live[lane] = LiveText(self.secrets)
        if shown := live.add(text):
            self._show(lane, shown)

    def _end_live_text(self, lane: LaneId) -> None:
        """Show the rest of an answer that is complete, or was given up."""
        live = self.live.pop(lane, None)
        if live is not None and (rest := live.end()):
            self._show(lane, rest)

    def _notify(self, text: str) -> None:
        if self.sink is not None:
            self.sink.notice(self.held.run_id, hide_shapes(self.secrets.hide(text) if self.secrets else text))
