"""Effects under way, the wait for the first of them to complete, and what others want of the run meanwhile."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, TypeVar

from agent_fabric.application.ports.runs import CANCEL, InboxRow
from agent_fabric.domain.approvals.answers import Decision, Reach
from agent_fabric.domain.approvals.events import ApprovalDecided
from agent_fabric.domain.errors import LeaseLost
from agent_fabric.domain.events import Body, RunCancelled
from agent_fabric.domain.ids import LaneId
from agent_fabric.domain.workflows.events import SignalReceived

STOP_TIMEOUT_S = 5.0
"""How long effects may take to clean up after being cancelled."""
MAX_WAIT_S = 60.0
"""The clock may be set meanwhile, so it is read now and then."""

_log = logging.getLogger(__name__)

Effect = Callable[[], Coroutine[Any, Any, Sequence[Body]]]
EffectTask = asyncio.Task[Sequence[Body]]
_Watched = TypeVar("_Watched", bound=asyncio.Future[Any])


class InFlightEffects:
    """What a drive has started on tasks of their own, at most one for each lane."""

    def __init__(self) -> None:
        self._lanes: dict[EffectTask, LaneId | None] = {}
        self._ending: set[asyncio.Task[Any]] = set()
        """Effects whose result is not needed any more, and what has to be cleaned up after them."""
        self._stuck: set[asyncio.Task[Any]] = set()
        """Those that were cancelled and went on all the same."""
        self._progress: asyncio.Future[None] | None = None
        """Done when something completes while the drive waits."""

    def __bool__(self) -> bool:
        """Tell whether any effect is under way whose result is needed."""
        return bool(self._lanes)

    @property
    def lanes(self) -> set[LaneId | None]:
        """The lanes that have something under way."""
        return set(self._lanes.values())

    @property
    def unfinished(self) -> set[asyncio.Task[Any]]:
        """Everything that still runs, cancelled or not."""
        return {task for task in (*self._lanes, *self._ending, *self._stuck) if not task.done()}

    def start(self, lane: LaneId | None, effect: Effect) -> None:
        """Start an effect."""
        self._lanes[self.watch(asyncio.create_task(effect()))] = lane

    def take_completed(self) -> list[tuple[LaneId | None, EffectTask]]:
        """Take out the effects that have completed."""
        return [(self._lanes.pop(task), task) for task in [each for each in self._lanes if each.done()]]

    def give_up(self, lane: LaneId) -> list[EffectTask]:
        """Cancel what a lane has under way, without waiting for it."""
        tasks = [task for task, whose in self._lanes.items() if whose == lane]
        for task in tasks:
            del self._lanes[task]
            task.cancel()
        self._ending.update(tasks)
        return tasks

    def clean_up(self, work: Coroutine[Any, Any, None]) -> None:
        """Start cleaning up after what was given up."""
        self._ending.add(asyncio.create_task(work))

    async def cleaned_up(self) -> None:
        """Wait until everything that was given up has ended; each has a limit of its own."""
        if self._ending:
            await asyncio.wait(self._ending)

    async def stop(self) -> None:
        """Cancel every effect and wait a while until it has cleaned up. What goes on stays in `unfinished`."""
        for task in self._lanes:
            task.cancel()
        self._ending.update(self._lanes)
        self._lanes.clear()
        if self._ending:
            await asyncio.wait(self._ending, timeout=STOP_TIMEOUT_S)
        stuck = {task for task in self._ending if not task.done()}
        if stuck:
            _log.warning("%d effects have not stopped within %g s", len(stuck), STOP_TIMEOUT_S)
        self._stuck |= stuck
        self._ending.clear()

    def watch(self, future: _Watched) -> _Watched:
        """Let a future end the wait for progress as well."""
        # One future for all, instead of asyncio.wait for each round: that costs as much as the rest of the loop.
        future.add_done_callback(self._note_progress)
        return future

    def _note_progress(self, _: asyncio.Future[Any]) -> None:
        if self._progress is not None and not self._progress.done():
            self._progress.set_result(None)

    async def wait(self, inbox: asyncio.Future[Any], *, within_s: float | None) -> None:
        """Wait until an effect or `inbox`, which is watched, is done, or so much time has passed; None: no limit."""
        if inbox.done() or any(task.done() for task in self._lanes):
            return
        loop = asyncio.get_running_loop()
        progress = self._progress = loop.create_future()
        timer = None if within_s is None else loop.call_later(min(within_s, MAX_WAIT_S), self._note_progress, progress)
        try:
            await progress
        finally:
            if timer is not None:
                timer.cancel()


async def complete(work: Coroutine[Any, Any, None]) -> None:
    """Finish work even if the caller is cancelled meanwhile; otherwise the run would stay held."""
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError as request:
            cancelled = request
        except Exception:  # noqa: BLE001 - `result` below raises it
            break
    task.result()
    if cancelled is not None:
        raise cancelled


InboxFuture = asyncio.Future[Sequence[InboxRow]]


def ends_effects(inbox: InboxFuture) -> bool:
    """Tell whether nothing may go on that was begun: a row asks the run to end, or others may drive it by now.

    An inbox that just cannot be read asks for nothing.
    """
    if not inbox.done() or inbox.cancelled():
        return False
    if inbox.exception() is not None:
        return isinstance(inbox.exception(), LeaseLost)
    return any(row.kind == CANCEL for row in inbox.result())


def cancelled_from(payload: Mapping[str, Any]) -> RunCancelled:
    """Return the end that an inbox row wants; `CancelRun` puts it there."""
    return RunCancelled(by=str(payload["by"]), reason=str(payload["reason"]))


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


def signal_from(payload: Mapping[str, Any]) -> SignalReceived:
    """Return the signal that an inbox row holds; `SignalWorkflow` puts it there."""
    return SignalReceived(name=str(payload["name"]), data=dict(payload["data"]), by=str(payload["by"]))
