"""Runs as HTTP shows them: the command line's result, and where a run stands at this moment."""

from dataclasses import replace
from functools import cached_property
from typing import Any

from agent_fabric.bootstrap.server import ServedRuns
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.evolve import evolve
from agent_fabric.domain.runs.state import RunState, result_of
from agent_fabric.domain.runs.task import RunResult, RunStatus, Task
from agent_fabric.wire.results import result_object

PAGE = 256
"""Events read from the store at once."""


@dataclass(frozen=True)
class RunView:
    """A run as its log and its row tell it at one moment."""

    state: RunState
    status: RunStatus
    created_at: float
    updated_at: float

    @cached_property
    def result(self) -> RunResult:
        """What has come of it."""
        return replace(result_of(self.state), status=self.status)

    @property
    def task(self) -> Task:
        """What was asked for."""
        assert self.state.task is not None  # a run is created together with its first event
        return self.state.task


async def look_at(runs: ServedRuns, run_id: RunId) -> RunView:
    """Sum a run up, whichever process drives it.

    Raises:
        RunNotFound: there is no such run.
    """
    view = await _look(runs, run_id)
    if view.status.settled and not view.state.status.settled:  # it has ended since its log was read
        view = await _look(runs, run_id)
    return view


async def state_of(runs: ServedRuns, run_id: RunId) -> RunState:
    """Return where a run stands, whichever process drives it.

    Raises:
        RunNotFound: there is no such run.
    """
    return (await _fold(runs, run_id))[0]


async def _fold(runs: ServedRuns, run_id: RunId) -> tuple[RunState, float, float]:
    """Return where a run stands, when it was created, and when anything last happened to it."""
    state = RunState(run_id)
    created_at = updated_at = 0.0
    while events := await runs.reader.page(run_id, after=state.next_seq - 1, limit=PAGE):
        created_at, updated_at = created_at or events[0].ts, events[-1].ts
        for event in events:
            evolve(state, event)
    return state, created_at, updated_at


async def _look(runs: ServedRuns, run_id: RunId) -> RunView:
    state, created_at, updated_at = await _fold(runs, run_id)
    status = state.status if state.status.settled else await status_of(runs, run_id)
    return RunView(state, status, created_at, updated_at)


async def status_of(runs: ServedRuns, run_id: RunId) -> RunStatus:
    """Tell where a run stands; one that waits here for its turn is running.

    Raises:
        RunNotFound: there is no such run.
    """
    status = await runs.reader.status(run_id)
    return RunStatus.RUNNING if status is RunStatus.INTERRUPTED and run_id in runs.dispatch else status


def answer(runs: ServedRuns, result: RunResult) -> dict[str, Any]:
    """Return a run's result as the command line prints it."""
    return result_object(result, runs.run_dir(result.run_id))


def details_object(runs: ServedRuns, view: RunView) -> dict[str, Any]:
    """Return the same with what was asked for, and when."""
    shown = answer(runs, view.result)
    shown["_meta"] |= {
        "prompt": view.task.prompt,
        "created_at": view.created_at,
        "updated_at": view.updated_at,
        "queued": runs.dispatch.is_queued(view.result.run_id),
        "events": view.state.next_seq,
        "owner": view.task.owner,
        "visibility": view.task.visibility,
    }
    return shown
