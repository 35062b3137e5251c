"""Tells those who follow a log elsewhere that it has grown."""

from collections.abc import Sequence

from agent_fabric.application.ports.events import EventsOnly
from agent_fabric.application.ports.wake_ups import WakeUps, log_topic
from agent_fabric.domain.events import Event
from agent_fabric.domain.ids import RunId


class LogPokes(EventsOnly):
    """EventSink that pokes after each append; the events themselves are read from the store."""

    def __init__(self, wake_ups: WakeUps) -> None:
        self._wake_ups = wake_ups

    def publish(self, run_id: RunId, events: Sequence[Event]) -> None:
        if events:
            self._wake_ups.poke(log_topic(run_id), {"seq": events[-1].seq})
