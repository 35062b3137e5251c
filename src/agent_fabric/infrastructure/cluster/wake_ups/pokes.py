"""Tells processes that follow a run elsewhere that its log has grown, and sends them answers while they are written."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Container, Mapping, Sequence
from typing import Any, Final

from agent_fabric.application.ports.events import EventsOnly
from agent_fabric.application.ports.llm import ProgressText
from agent_fabric.application.ports.wake_ups import FOLLOW, FOLLOWED_FOR_S, WakeUps, delta_topic, log_topic
from agent_fabric.domain.events import Event
from agent_fabric.domain.ids import LaneId, RunId

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
