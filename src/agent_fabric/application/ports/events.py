"""Who watches runs as they happen."""

from collections.abc import Sequence
from typing import Protocol

from agent_fabric.domain.events import Event
from agent_fabric.domain.ids import LaneId, RunId


class EventSink(Protocol):
    """A live reader of runs in this process. It must not block; what it misses it can read from the log."""

    @property
    def wants_deltas(self) -> bool:
        """Whether answers should be streamed for `delta`; it may change while runs go on."""
        ...

    def publish(self, run_id: RunId, events: Sequence[Event]) -> None:
        """See events that have just become durable."""
        ...

    def delta(self, run_id: RunId, lane: LaneId, text: str) -> None:
        """See a piece of a model's answer; never stored."""
        ...

    def notice(self, run_id: RunId, text: str) -> None:
        """See what is going on between two events (a download, a queue); never stored."""
        ...


class LogMirrors(Protocol):
    """Copies of the logs that people and scripts read, such as log files. The store itself never reads them."""

    async def catch_up(self) -> None:
        """Bring the mirrors of runs up to date whose driver died, or could not write them."""
        ...


class EventsOnly:
    """The part of an EventSink that reads events and lets everything else pass."""

    wants_deltas = False

    def delta(self, run_id: RunId, lane: LaneId, text: str) -> None:
        """Let it pass."""

    def notice(self, run_id: RunId, text: str) -> None:
        """Let it pass."""
