"""A run as it was right behind one of its events."""

from collections.abc import Iterable

from agent_fabric.domain.events import Event
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.evolve import evolve
from agent_fabric.domain.runs.state import RunState


def run_as_of(run_id: RunId, events: Iterable[Event], seq: int) -> RunState:
    """Return the state of a run with everything up to an event, and nothing behind it."""
    state = RunState(run_id)
    for event in events:
        if event.seq > seq:
            break
        evolve(state, event)
    return state
