"""Tells processes elsewhere what happens to a run: its log has grown, an answer is written, its inbox has a row."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Container, Mapping, Sequence
from typing import Any, Final

from agent_fabric.application.ports.approvals import Answer, ApprovalCard, ApprovalRepository
from agent_fabric.application.ports.events import EventsOnly
from agent_fabric.application.ports.llm import ProgressText
from agent_fabric.application.ports.runs import HeldLog, HeldRun, RunRepository
from agent_fabric.application.ports.wake_ups import FOLLOW, FOLLOWED_FOR_S, INBOX, WakeUps, delta_topic, log_topic
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.events import Event
from agent_fabric.domain.identity.ownership import EVERYTHING, Viewer
from agent_fabric.domain.ids import LaneId, RunId
from agent_fabric.domain.runs.task import RunStatus

MAX_KNOWN: Final = 1_000
"""Runs of which the newest event is remembered; those that are not driven here any more are then forgotten."""


class DeltaPokes:
    """EventSink that pokes with pieces of answers, as long as someone elsewhere asks for them. Best effort.

    A piece says behind which event it belongs, and how many characters of its answer came before, so that a reader
    leaves out what came twice and stops where something is missing. Nothing of an encrypted run is sent.
    """

    def __init__(self, wake_ups: WakeUps) -> None:
        self._wake_ups = wake_ups
        self._followed: dict[RunId, float] = {}
        """Until when someone elsewhere wants to see answers."""
        self._places: dict[RunId, int] = {}
        """The newest event of each run that is driven here."""
        self._offsets: defaultdict[tuple[RunId, LaneId], int] = defaultdict(int)
        self.drives: Callable[[RunId], bool] = lambda _: False
        """Tells whether a run is driven here."""
        self.encrypted: Container[RunId] = ()

    def listen(self) -> None:
        """Hear who follows runs elsewhere. Needs a running event loop."""
        self._wake_ups.listen(FOLLOW, self._hear)

    @property
    def wants_deltas(self) -> bool:
        return bool(self._followed) and any(self._is_followed(run_id) for run_id in tuple(self._followed))

    def publish(self, run_id: RunId, events: Sequence[Event]) -> None:
        if not events:
            return
        self._places[run_id] = events[-1].seq
        for event in events:
            if event.lane is not None:
                self._offsets.pop((run_id, event.lane), None)
        if len(self._places) > MAX_KNOWN:
            self._places = {known: seq for known, seq in self._places.items() if self.drives(known)}

    def delta(self, run_id: RunId, lane: LaneId, text: str) -> None:
        offset = self._offsets[run_id, lane]
        self._offsets[run_id, lane] = offset + len(text)
        self._send(run_id, {"lane": lane, "text": text, "offset": offset})

    def notice(self, run_id: RunId, text: str) -> None:
        self._send(run_id, {"notice": str(text), "progress": isinstance(text, ProgressText)})

    def _send(self, run_id: RunId, piece: Mapping[str, Any]) -> None:
        if self._followed and self._is_followed(run_id):
            self._wake_ups.poke(delta_topic(run_id), {"after": self._places.get(run_id, -1), **piece})

    def _is_followed(self, run_id: RunId) -> bool:
        until = self._followed.get(run_id, 0.0)
        if until < asyncio.get_running_loop().time():
            self._followed.pop(run_id, None)
            return False
        return self.drives(run_id) and run_id not in self.encrypted

    def _hear(self, hint: Mapping[str, Any]) -> None:
        now = asyncio.get_running_loop().time()
        self._followed = {run_id: until for run_id, until in self._followed.items() if until >= now}
        self._followed[RunId(str(hint.get("run", "")))] = now + FOLLOWED_FOR_S


class LogPokes(EventsOnly):
    """EventSink that pokes after each append; the events themselves are read from the store."""

    def __init__(self, wake_ups: WakeUps) -> None:
        self._wake_ups = wake_ups

    def publish(self, run_id: RunId, events: Sequence[Event]) -> None:
        if events:
            self._wake_ups.poke(log_topic(run_id), {"seq": events[-1].seq})


@dataclass(frozen=True, slots=True)
class PokingRuns:
    """RunRepository that pokes after each row that it puts into an inbox."""

    inner: RunRepository
    wake_ups: WakeUps

    async def create(self, run_id: RunId, events: Sequence[Event]) -> HeldRun:
        return await self.inner.create(run_id, events)

    async def take(self, run_id: RunId) -> HeldLog:
        return await self.inner.take(run_id)

    async def read(self, run_id: RunId, *, after: int = -1) -> Sequence[Event]:
        return await self.inner.read(run_id, after=after)

    async def status(self, run_id: RunId) -> RunStatus:
        return await self.inner.status(run_id)

    async def post(self, run_id: RunId, kind: str, payload: Mapping[str, Any]) -> None:
        await self.inner.post(run_id, kind, payload)
        self.wake_ups.poke(INBOX, {"run": run_id})


@dataclass(frozen=True, slots=True)
class PokingApprovals:
    """ApprovalRepository that pokes after each answer, which is a row of an inbox, too."""

    inner: ApprovalRepository
    wake_ups: WakeUps

    async def list(
        self, *, run_id: RunId | None = None, pending_only: bool = True, viewer: Viewer = EVERYTHING
    ) -> Sequence[ApprovalCard]:
        return await self.inner.list(run_id=run_id, pending_only=pending_only, viewer=viewer)

    async def find(self, prefix: str, *, viewer: Viewer = EVERYTHING) -> ApprovalCard:
        return await self.inner.find(prefix, viewer=viewer)

    async def agreed_before(self, card: ApprovalCard, *, viewer: Viewer = EVERYTHING) -> int:
        return await self.inner.agreed_before(card, viewer=viewer)

    async def answer(self, approval_id: str, answer: Answer) -> None:
        await self.inner.answer(approval_id, answer)
        self.wake_ups.poke(INBOX, {"approval": approval_id})
