"""Fold a log without stalling the event loop."""

import asyncio
from collections.abc import Sequence

from agent_fabric.domain.events import Event
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.evolve import evolve
from agent_fabric.domain.runs.state import RunState

MAX_AT_ONCE = 200
"""Events that are folded before other tasks have their turn: a few milliseconds."""


async def fold_log(run_id: RunId, events: Sequence[Event]) -> RunState:
    """Return the state after `events`, as `fold` does, in slices."""
    state = RunState(run_id=run_id)
    for first in range(0, len(events), MAX_AT_ONCE):
        if first:
            await asyncio.sleep(0)
        for event in events[first : first + MAX_AT_ONCE]:
            evolve(state, event)
    return state
