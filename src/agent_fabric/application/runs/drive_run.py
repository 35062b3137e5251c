"""The loop: decide, make it durable, do it, take in what came of it. There is no other one."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, assert_never

from agent_fabric.application.ports.clock import Clock
from agent_fabric.application.ports.events import EventSink
from agent_fabric.application.ports.runs import HeldRun, InboxRow
from agent_fabric.application.runs.perform import OpenPacks, Perform
from agent_fabric.domain.events import Body, Event, RunCancelled, RunFailed, RunInterrupted
from agent_fabric.domain.ids import LaneId, SpecialistId
from agent_fabric.domain.runs.actions import Action, CallModel, CallTool, Compact, OpenLane, Record, Recruit
from agent_fabric.domain.runs.decide import decide, given_up
from agent_fabric.domain.runs.evolve import evolve
from agent_fabric.domain.runs.state import RunState
from agent_fabric.domain.runs.task import RunStatus

CANCEL = "cancel"
"""Kind of the inbox row that ends a run."""
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

    async def __call__(self, held: HeldRun, state: RunState, opening: Sequence[Body] = ()) -> None:
        """Drive the run. `state` is brought forward in place; `opening` is recorded first.

        When this is cancelled, the run can be resumed; `marks_interruption` tells by whom.

        Raises:
            DriverConflict, StoreFull, StoreUnavailable: the log cannot be written; the run can be resumed later.
        """
        drive = _Drive(self.perform, self.clock, self.sink, held, state)
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
            await held.release()


class _Drive:
    """One drive of one run."""

    def __init__(self, perform: Perform, clock: Clock, sink: EventSink | None, held: HeldRun, state: RunState) -> None:
        self.perform = perform
        self.clock = clock
        self.sink = sink
        self.held = held
        self.state = state
        self.packs = OpenPacks()
        self.batch: list[Event] = []
        """Recorded, but not durable yet."""
        self.flights: dict[asyncio.Task[Sequence[Body]], LaneId | None] = {}
        """Effects under way, and the lane that each belongs to."""
        self._wake: asyncio.Future[None] | None = None
        """Done when an effect or mail lands while the drive waits."""

    async def run(self) -> None:
        """Go round until nothing moves any more."""
        mail = self._watched(self.held.receive())
        try:
            await self._commit()  # a takeover counts from here on, even if opening a pack kills the process
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
                    mail = self._watched(self.held.receive())
        finally:
            mail.cancel()

    def record(self, lane: LaneId | None, bodies: Sequence[Body]) -> None:
        """Put facts into their place and let the state follow."""
        state = self.state
        known = state.lanes.get(lane) if lane is not None else None
        step = f"step_{known.current_step}" if known is not None else ""
        for body in bodies:
            event = Event(state.next_seq, self.clock.now(), lane, step, body)
            evolve(state, event)
            self.batch.append(event)

    def _plan(self) -> tuple[list[_Start], bool]:
        """Follow decisions as far as they need nothing from outside.

        Return the effects that may start next, and whether any of them must not start before what was recorded is
        durable. Opening a pack, which a crash only makes necessary again, need not wait.
        """
        starts: list[_Start] = []
        promised = False
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
        if not batch:
            return
        await self.held.append(batch, consumed=consumed)
        if self.sink is not None:
            self.sink.publish(self.held.run_id, batch)

    async def _fly_here(self, lane: LaneId | None, effect: _Effect, mail: _Mail) -> None:
        """Let the only effect run here, not on a task of its own: the usual case, at half the price.

        Mail that wants the run to end cancels it, as a time-out would; other mail is read when it has landed.
        """
        task = asyncio.current_task()
        assert task is not None
        flying = True

        def interrupt(arrived: _Mail) -> None:
            if flying and not arrived.cancelled() and any(row.kind == CANCEL for row in arrived.result()):
                task.cancel()

        mail.add_done_callback(interrupt)
        try:
            bodies = await effect()
        except asyncio.CancelledError:
            if not mail.done() or task.uncancel():
                raise  # somebody else wants us to stop
            return
        except Exception as problem:  # noqa: BLE001 - an effect tells its failures as events, so this is our own bug
            bodies = (self._bug(lane, problem),)
        finally:
            flying = False
            mail.remove_done_callback(interrupt)
        self.record(lane, bodies)

    async def _fly(self, starts: Sequence[_Start], mail: _Mail) -> None:
        """Let effects of several lanes run side by side, until one of them or mail lands."""
        for lane, effect in starts:
            self.flights[self._watched(asyncio.create_task(effect()))] = lane
        await self._news(mail)
        for flight in [task for task in self.flights if task.done()]:
            lane, problem = self.flights.pop(flight), flight.exception()
            self.record(lane, flight.result() if problem is None else (self._bug(lane, problem),))

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
        cancels = [row for row in rows if row.kind == CANCEL]
        if cancels and not self.state.status.settled:
            await self.stop()
            payload = cancels[0].payload
            self.record(None, (RunCancelled(by=str(payload["by"]), reason=str(payload["reason"])),))
            await self._commit(consumed=rows)

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


def _lane_of(action: Action) -> LaneId | None:
    match action:
        case Recruit():
            return None
        case OpenLane():
            return LaneId(action.specialist_id)
        case Record() | CallModel() | CallTool() | Compact():
            return action.lane
        case unknown:
            assert_never(unknown)
