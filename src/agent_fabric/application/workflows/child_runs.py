"""Runs that do the work of a step: agents and other workflows."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, Literal, Protocol

from agent_fabric.application.ports.runs import NewRun, RunRepository, Workspaces
from agent_fabric.application.runs.cancel_run import CancelRun
from agent_fabric.application.runs.claimed_run import ClaimedRun
from agent_fabric.application.runs.execute_task import discard_uncreated
from agent_fabric.application.runs.fold_log import fold_log
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import FabricError, RunHeld, RunNotFound
from agent_fabric.domain.events import Body, Event
from agent_fabric.domain.evidence.proofs import RESULT_UNPROVEN
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.labelling import addresses_handed_on
from agent_fabric.domain.runs.state import RunState, result_of
from agent_fabric.domain.runs.task import Parent, RunResult, RunStatus, Task, lower_of, root_of
from agent_fabric.domain.secrets.references import defuse
from agent_fabric.domain.workflows.actions import RunChild
from agent_fabric.domain.workflows.events import ChildFinished, StepWaited

_TELL_HOW_TO_GO_ON = frozenset({"workflow_failed", "TimeoutError", RESULT_UNPROVEN})
"""Errors of workflows that advise to resume them, which is no advice about a child: people go on with its caller."""
MAX_LEVELS = 8
"""Workflows that call workflows; deeper ones most likely call themselves."""

TaskFor = Callable[[Literal["agent", "workflow"], str, Mapping[str, Any], Task, Mapping[str, Any]], Task]
"""Makes the task of a child, given what kind it is, its name, its inputs, the task of its parent and its state.

Raises:
    FabricError: there is no such agent or workflow, or the inputs do not fit.
"""


class Take(Protocol):
    """Holds a run; see `ResumeRun.take`."""

    def __call__(
        self, run_id: RunId, *, by: Literal["person", "server"], new: bool = False
    ) -> Awaitable[ClaimedRun | RunResult]: ...


@dataclass(frozen=True, slots=True)
class ChildRuns:
    """Use case: create a child together with its step, and see it through."""

    runs: RunRepository
    workspaces: Workspaces
    task_for: TaskFor
    first_event: Callable[[RunId, Task], Event]
    take: Take
    drive: Callable[[ClaimedRun], Awaitable[None]]
    cancel_run: CancelRun

    def new(self, action: RunChild, state: RunState) -> NewRun:
        """Return the run that shall do a step's work, in the workspace of the workflow.

        Raises:
            FabricError: it cannot be made.
        """
        assert state.task is not None
        run_id = action.started.child_run_id
        assert run_id is not None
        parent = Parent(
            run_id=state.run_id,
            lane=action.lane,
            level=_level(state.task) + 1,
            untrusted=tuple(state.untrusted),
            private=tuple(state.private),
            root=root_of(state.task.parent) or state.run_id,
        )
        if parent.level > MAX_LEVELS:
            raise FabricError(
                f"Workflows call each other {MAX_LEVELS} deep", hint="One of them may call itself. Break the cycle."
            )
        task = self.task_for(action.kind, action.name, action.inputs, state.task, action.state)
        given = task.prompt if task.workflow is None else task.workflow.inputs
        parent = replace(parent, addresses=addresses_handed_on(state, given))
        task = _within_cost(task.below(parent, state.task, workspace=state.workspace), state)
        return NewRun(
            run_id=run_id,
            created=self.first_event(run_id, task),
            prepare=partial(self.workspaces.prepare, run_id, at=state.workspace),
            discard=partial(discard_uncreated, run_id, self.runs, self.workspaces),
        )

    async def see_through(self, action: RunChild, *, by: Literal["person", "server"]) -> Sequence[Body]:
        """Drive the child as far as it goes, and say how it stands; `by` tells who goes on with the workflow."""
        run_id = action.started.child_run_id
        assert run_id is not None
        try:
            taken = await self.take(run_id, by=by, new=not action.begun)
            if isinstance(taken, RunResult):
                return await self.outcome(run_id, action.step.id)
            await self.drive(taken)
        except RunHeld:  # a server has been faster; the end of the child is told in the inbox
            return (StepWaited(step_id=action.step.id, attempt=action.started.attempt),)
        except FabricError as problem:
            return (_child_failure(action.step.id, run_id, problem),)
        result = result_of(taken.state)
        if result.status.settled:
            return (_child_end(action.step.id, taken.state),)
        return (
            StepWaited(step_id=action.step.id, attempt=action.started.attempt, approvals=tuple(result.waiting_for)),
        )

    async def outcome(self, run_id: RunId, step_id: str) -> Sequence[Body]:
        """Return how a child ended that another process drove; nothing if it has not ended."""
        state = await fold_log(run_id, await self.runs.read(run_id))
        return (_child_end(step_id, state),) if state.status.settled else ()

    async def end(self, run_id: RunId, *, by: str, reason: str) -> None:
        """End a child that is no longer needed."""
        with suppress(RunHeld, RunNotFound):  # the request stays in its inbox; or it never came to be
            await self.cancel_run(run_id, by=by, reason=reason)


def _within_cost(task: Task, state: RunState) -> Task:
    """Return the task of a child with no more than what its workflow has left to spend."""
    limit = None if state.task is None else state.task.budget.max_cost
    if limit is None:
        return task
    left = max(limit - (state.cost or 0.0), 0.0)
    return replace(task, budget=replace(task.budget, max_cost=lower_of(task.budget.max_cost, left)))


def _level(task: Task) -> int:
    return task.parent.level if task.parent is not None else 0


def _child_end(step_id: str, state: RunState) -> ChildFinished:
    result = result_of(state)
    failed = result.status is not RunStatus.COMPLETED
    return ChildFinished(
        step_id=step_id,
        child_run_id=result.run_id,
        run_status=result.status.value,
        payload=defuse(result.payload),
        error=_problem_of(result) if failed else "",
        error_type=(result.error.code if result.error else result.status.value) if failed else "",
        prompt_tokens=result.usage.prompt_tokens,
        completion_tokens=result.usage.completion_tokens,
        cost=result.cost,
        untrusted=result.untrusted,
        private=result.private,
        addresses=addresses_handed_on(state, result.payload),
        effects=result.effects or None,
    )


def problem_text(message: str, hint: str) -> str:
    """Return a problem and what to do about it as one text, as errors of steps are told."""
    return f"{message} ({hint.rstrip('.')})" if hint else message


def _problem_of(result: RunResult) -> str:
    if result.error is None:
        return result.status.value
    return problem_text(result.error.message, "" if result.error.code in _TELL_HOW_TO_GO_ON else result.error.hint)


def _child_failure(step_id: str, run_id: RunId, problem: FabricError) -> ChildFinished:
    return ChildFinished(
        step_id=step_id, child_run_id=run_id, run_status="failed", error=problem.message, error_type=problem.code
    )
