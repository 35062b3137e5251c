"""The loop: decide, make it durable, do it, take in what came of it. There is no other one."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, assert_never

from agent_fabric.application.ports.clock import Clock
from agent_fabric.application.ports.events import EventSink
from agent_fabric.application.ports.runs import APPROVAL, CANCEL, HeldRun, InboxRow
from agent_fabric.application.ports.sandbox import Sandboxes
from agent_fabric.application.runs.perform import OpenPacks, Perform
from agent_fabric.domain.approval_events import ApprovalDecided
from agent_fabric.domain.approvals import Decision, Reach
from agent_fabric.domain.events import Body, Event, RunCancelled, RunFailed, RunInterrupted
from agent_fabric.domain.ids import LaneId, SpecialistId
from agent_fabric.domain.runs.actions import (
    Action,
    AskWhatHappened,
    CallModel,
    CallTool,
    Compact,
    OpenLane,
    Record,
    Recruit,
)
from agent_fabric.domain.runs.decide import decide, given_up
from agent_fabric.domain.runs.evolve import evolve
from agent_fabric.domain.runs.state import Phase, RunState
from agent_fabric.domain.runs.task import RunStatus
from agent_fabric.domain.secrets import KnownSecrets

STOP_TIMEOUT_S = 5.0
"""How long effects may take to clean up after being told to stop."""

_News = TypeVar("_News", bound=asyncio.Future[Any])
_Effect = Callable[[], Coroutine[Any, Any, Sequence[Body]]]
_Start = tuple[LaneId | None, _Effect]
_Mail = asyncio.Future[Sequence[InboxRow]]


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
        except asyncio.CancelledError:
            await drive.stop()
            if self.marks_interruption:
                await asyncio.shield(drive.interrupt("stopped by the person or the system"))
            raise
        finally:
            await drive.stop()
            await drive.packs.close()
            if self.sandboxes is not None:
                await self.sandboxes.close(held.run_id)
            await held.release()


class _Drive:
    """One drive of one run."""

    def __init__(self, use_case: DriveRun, held: HeldRun, state: RunState) -> None:
        self.perform = use_case.perform
        self.clock = use_case.clock
        self.sink = use_case.sink
        self.secrets = use_case.secrets or None
        self.held = held
        self.state = state
        self.packs = OpenPacks()
        self.batch: list[Event] = []
        """Recorded, but not durable yet."""
        self.flights: dict[asyncio.Task[Sequence[Body]], LaneId | None] = {}
        """Effects under way, and the lane that each belongs to."""
        self._here: asyncio.Task[Any] | None = None
        """This very task, while an effect runs on it."""
        self._wake: asyncio.Future[None] | None = None
        """Done when an effect or mail lands while the drive waits."""

    async def run(self) -> None:
        """Go round until nothing moves any more."""
        await self._commit()  # a takeover counts from here on, even if opening a pack kills the process
        if self.state.asked:  # what was answered while nobody drove the run; first of all, or it would wait again
            await self._read(await self.held.unread())
        mail = self._mail()
        try:
            while True:
                starts, promised = self._plan()
                if promised or not starts:
                    await self._commit()
                if self.state.status is not RunStatus.RUNNING:
                    return
                if len(starts) == 1 and not self.flights:
                    await self._fly_here(*starts[0], mail)
                elif starts or self.flights:
                    await self._fly(starts, mail)
                else:
                    return
                if mail.done():
                    await self._read(mail.result())
                    mail = self._mail()
        finally:
            mail.cancel()

    def record(self, lane: LaneId | None, bodies: Sequence[Body]) -> None:
        """Put facts into their place and let the state follow."""
        state = self.state
        known = state.lanes.get(lane) if lane is not None else None
        step = f"step_{known.current_step}" if known is not None else ""
        now = self.clock.now()
        if self.secrets is not None:
            bodies = [self.secrets.hide(body) for body in bodies]
        for body in bodies:
            event = Event(state.next_seq, now, lane, step, body)
            evolve(state, event)
            self.batch.append(event)

    def _plan(self) -> tuple[list[_Start], bool]:
        """Follow decisions as far as they need nothing from outside.

        Return the effects that may start next, and whether any of them must not start before what was recorded is
        durable. Opening a pack, which a crash only makes necessary again, need not wait.
        """
        starts: list[_Start] = []
        promised = False
        if self.state.asked:
            self._expire()
        on_delta = self._delta if self.sink is not None and self.sink.wants_deltas else None
        busy = set(self.flights.values())
        while (action := self._next_action(busy)) is not None:
            lane = _lane_of(action)
            prepared = self.perform(action, self.state, self.packs, notice=self._notify, on_delta=on_delta)
            self.record(lane, prepared.bodies)
            if prepared.effect is not None:
                starts.append((lane, prepared.effect))
                promised = promised or bool(prepared.bodies)
                busy.add(lane)
                if len(self.state.specialist_ids) == 1:
                    break  # the only lane is busy: there is nothing else to decide
        return starts, promised

    def _next_action(self, busy: set[LaneId | None]) -> Action | None:
        # Asked anew after every action: what one lane records may have ended the whole run.
        for action in decide(self.state):
            if _lane_of(action) not in busy:
                return action
        return None

    async def _commit(self, consumed: Sequence[InboxRow] = ()) -> None:
        """Make what was recorded durable, then let readers see it."""
        batch, self.batch = self.batch, []
        if not batch and not consumed:
            return
        await self.held.append(batch, consumed=consumed)
        if self.sink is not None and batch:
            self.sink.publish(self.held.run_id, batch)

    async def _fly_here(self, lane: LaneId | None, effect: _Effect, mail: _Mail) -> None:
        """Let the only effect run here, not on a task of its own: the usual case, at half the price.

        Mail that wants the run to end cancels it, as a time-out would; other mail is read when it has landed.
        """
        if _ends_run(mail):
            return  # before anything has begun
        task = self._here = asyncio.current_task()
        assert task is not None
        try:
            bodies = await effect()
        except asyncio.CancelledError:
            if self._here is not None or task.uncancel():
                raise  # somebody else wants us to stop
            return
        except Exception as problem:  # noqa: BLE001 - an effect tells its failures as events, so this is our own bug
            bodies = (self._bug(lane, problem),)
        finally:
            self._here = None
        self.record(lane, bodies)

    async def _fly(self, starts: Sequence[_Start], mail: _Mail) -> None:
        """Let effects of several lanes run side by side, until one of them or mail lands."""
        for lane, effect in starts:
            self.flights[self._watched(asyncio.create_task(effect()))] = lane
        await self._news(mail)
        for flight in [task for task in self.flights if task.done()]:
            lane, problem = self.flights.pop(flight), flight.exception()
            self.record(lane, flight.result() if problem is None else (self._bug(lane, problem),))

    def _mail(self) -> _Mail:
        mail = self._watched(self.held.receive())
        mail.add_done_callback(self._interrupt)
        return mail

    def _interrupt(self, mail: _Mail) -> None:
        """End the effect that runs here if mail wants the run to end."""
        if self._here is not None and _ends_run(mail):
            self._here.cancel()
            self._here = None  # so that it is known whose wish it was

    def _watched(self, news: _News) -> _News:
        # One future for all, instead of asyncio.wait for each round: that costs as much as the rest of the loop.
        news.add_done_callback(self._notice)
        return news

    def _notice(self, _: asyncio.Future[Any]) -> None:
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    async def _news(self, mail: _Mail) -> None:
        """Wait until an effect or mail lands."""
        if not mail.done() and not any(flight.done() for flight in self.flights):
            self._wake = asyncio.get_running_loop().create_future()
            await self._wake

    async def _read(self, rows: Sequence[InboxRow]) -> None:
        """Take in what others want of the run."""
        if self.state.status.settled:
            return
        cancels = [row for row in rows if row.kind == CANCEL]
        if cancels:
            await self.stop()
            payload = cancels[0].payload
            self.record(None, (RunCancelled(by=str(payload["by"]), reason=str(payload["reason"])),))
        else:
            for row in rows:
                if row.kind == APPROVAL:
                    self._take_answer(decision_from(row.payload))
        await self._commit(consumed=rows)

    def _take_answer(self, decided: ApprovalDecided) -> None:
        """Record an answer with the lane that asked; one that comes too late changes nothing."""
        for lane in self.state.lanes.values():
            if lane.phase is Phase.APPROVAL_DUE and lane.asked and lane.asked.approval_id == decided.approval_id:
                self.record(lane.lane_id, (decided,))

    def _expire(self) -> None:
        """Record that nobody has answered in time."""
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
        for flight in self.flights:
            flight.cancel()
        if self.flights:
            await asyncio.wait(self.flights, timeout=STOP_TIMEOUT_S)
        self.flights.clear()

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
        return given_up(self.state, SpecialistId(lane), code=code, message=message, hint=hint)

    def _delta(self, lane: LaneId, text: str) -> None:
        assert self.sink is not None
        self.sink.delta(self.held.run_id, lane, text)

    def _notify(self, text: str) -> None:
        if self.sink is not None:
            self.sink.notice(self.held.run_id, text)


def decision_from(payload: Mapping[str, Any]) -> ApprovalDecided:
    """Return the answer that an inbox row holds; `DecideApproval` puts it there."""
    args = payload.get("args")
    return ApprovalDecided(
        approval_id=str(payload["approval_id"]),
        decision=Decision(payload["decision"]),
        by=str(payload["by"]),
        reason=str(payload.get("reason", "")),
        reach=Reach(payload.get("reach", Reach.ONCE)),
        args=args if isinstance(args, Mapping) else None,
        via=str(payload.get("via", "")),
    )


def _ends_run(mail: _Mail) -> bool:
    return mail.done() and not mail.cancelled() and any(row.kind == CANCEL for row in mail.result())


def _lane_of(action: Action) -> LaneId | None:
    match action:
        case Recruit():
            return None
        case OpenLane():
            return LaneId(action.specialist_id)
        case Record() | CallModel() | CallTool() | AskWhatHappened() | Compact():
            return action.lane
        case unknown:
            assert_never(unknown)
