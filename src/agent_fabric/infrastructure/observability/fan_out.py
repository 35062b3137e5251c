"""One emission, many readers."""

from collections.abc import Sequence

from agent_fabric.application.ports.events import EventSink
from agent_fabric.domain.events import Event
from agent_fabric.domain.ids import LaneId, RunId
from agent_fabric.infrastructure.observability.operations_log import operations_log

_LOG = operations_log("events")


class FanOut:
    """EventSink that hands everything on to several. One that fails disturbs neither the run nor the others."""

    def __init__(self, sinks: Sequence[EventSink]) -> None:
        self._sinks = tuple(sinks)
        self._failed: set[int] = set()
        """Those whose failure has been told."""

    @property
    def wants_deltas(self) -> bool:
        return any(sink.wants_deltas for sink in self._sinks)

    def publish(self, run_id: RunId, events: Sequence[Event]) -> None:
        for sink in self._sinks:
            try:
                sink.publish(run_id, events)
            except Exception as problem:  # noqa: BLE001 - a reader's fault; the events are durable
                self._tell(sink, run_id, problem)

    def delta(self, run_id: RunId, lane: LaneId, text: str) -> None:
        for sink in self._sinks:
            if sink.wants_deltas:
                try:
                    sink.delta(run_id, lane, text)
                except Exception as problem:  # noqa: BLE001 - as above
                    self._tell(sink, run_id, problem)

    def notice(self, run_id: RunId, text: str) -> None:
        for sink in self._sinks:
            try:
                sink.notice(run_id, text)
            except Exception as problem:  # noqa: BLE001 - as above
                self._tell(sink, run_id, problem)

    def _tell(self, sink: EventSink, run_id: RunId, problem: Exception) -> None:
        if id(sink) not in self._failed:
            self._failed.add(id(sink))
            _LOG.error("reader_failed", reader=type(sink).__name__, run_id=run_id, exc_info=problem)
