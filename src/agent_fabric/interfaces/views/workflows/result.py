"""A workflow's result as one JSON object: the same for the command line and for HTTP."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any

from agent_fabric.domain.errors import RunNotFound
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.state import RunState, result_of
from agent_fabric.domain.runs.task import FrozenWorkflow, RunResult, RunStatus
from agent_fabric.domain.workflows.result import result_of_workflow
from agent_fabric.domain.workflows.state import StepPhase, StepState, WorkflowState
from agent_fabric.wire.results import result_object

PENDING = "pending"
"""Status of a step whose turn has not come, as long as the workflow goes on."""

ReadState = Callable[[RunId], Awaitable[RunState]]
"""Sums a run up."""


async def workflow_object(
    read: ReadState, state: RunState, run_dir: str, *, status: RunStatus | None = None
) -> dict[str, Any]:
    """Return what a workflow has come to, or how far it has come, with `_meta`; `status` is how it stands right now.

    Raises:
        RunNotFound: the run is no workflow.
    """
    shown = _render(state, run_dir, status)
    meta = shown["_meta"]
    for each in meta["waiting_for"]:
        if each["kind"] == "run":
            each["approvals"] = await questions_of(read, each["run_id"])
            meta["approvals"] = list(dict.fromkeys([*meta["approvals"], *each["approvals"]]))
    return shown


def settled_object(result: RunResult, run_dir: str, frozen: FrozenWorkflow) -> dict[str, Any] | None:
    """Return what a workflow has come to, if it has come to an end by itself; it need not be read again for that."""
    if not result.status.settled or "step_results" not in result.payload:
        return None
    return _with_meta(dict(result.payload), result, run_dir, frozen)


async def questions_of(read: ReadState, run_id: RunId) -> list[str]:
    """Return the approvals that a run waits for, its own and those of runs that work for it."""
    state = await read(run_id)
    found = [asked.approval_id for asked in state.asked]
    if state.workflow is not None and not state.status.settled:
        for each in waits_of(state):
            if each["kind"] == "run":
                found += await questions_of(read, each["run_id"])
    return list(dict.fromkeys(found))


def _render(state: RunState, run_dir: str, status: RunStatus | None) -> dict[str, Any]:
    workflow = workflow_of(state)
    assert state.task is not None  # it has begun
    assert state.task.workflow is not None
    result = replace(result_of(state), status=status or state.status)
    shown = dict(result.payload) if "step_results" in result.payload else result_of_workflow(workflow)
    if not result.status.settled:
        shown["status"] = result.status.value
        _mark_pending(workflow, shown["step_results"])
    elif result.status is RunStatus.CANCELLED:
        shown["status"] = "failed"
        _mark_cancelled(workflow, shown["step_results"])
    waits = [] if result.status.settled else waits_of(state)
    return _with_meta(shown, result, run_dir, state.task.workflow, waits)


def _with_meta(
    shown: dict[str, Any], result: RunResult, run_dir: str, frozen: FrozenWorkflow, waits: Sequence[dict[str, Any]] = ()
) -> dict[str, Any]:
    usual = result_object(result, run_dir)
    definition = frozen.definition
    shown["_meta"] = {
        **usual["_meta"],
        "workflow": {"name": definition["name"], "version": str(definition.get("version", ""))},
        "forked_from": frozen.forked_from,
        "waiting_for": list(waits),
    }
    if "error" in usual:
        shown["error"] = usual["error"]
    return shown


def workflow_of(state: RunState) -> WorkflowState:
    """Return a run's workflow.

    Raises:
        RunNotFound: it is none.
    """
    if state.workflow is None:
        raise RunNotFound(
            f"Run {state.run_id} is not a workflow", hint=f"See it with `fabric logs show {state.run_id}`."
        )
    return state.workflow


def waits_of(state: RunState) -> list[dict[str, Any]]:
    """Return what a workflow waits for: answers, signals, moments, and runs that wait themselves."""
    workflow = workflow_of(state)
    found: list[dict[str, Any]] = [
        {"kind": "approval", "step_id": lane, "approval_id": step.asked.approval_id, "until": step.asked.expires_at}
        for lane, step in workflow.questions.items()
        if step.asked is not None
    ]
    found += [
        {"kind": "signal", "step_id": lane, "name": name}
        for name, steps in workflow.listeners.items()
        for lane, step in steps.items()
        if step.phase is StepPhase.WAITING
    ]
    found += [
        {"kind": "time", "step_id": step.lane, "until": at}
        for at, _, step, attempt, purpose in sorted(workflow.timers, key=lambda each: each[:2])
        if purpose != "timeout" and _still_counts(step, attempt, purpose)
    ]
    found += [
        {"kind": "run", "step_id": lane, "run_id": step.child_run_id}
        for lane, step in workflow.children.items()
        if step.phase is StepPhase.CHILD_WAITS
    ]
    return found


def _still_counts(step: StepState, attempt: int, purpose: str) -> bool:
    wanted = StepPhase.WAITING if purpose == "wait" else StepPhase.DELAYED
    return step.attempt == attempt and step.phase is wanted


def _mark_pending(workflow: WorkflowState, step_results: list[dict[str, Any]]) -> None:
    """Tell steps whose turn has not come from those that were skipped."""
    for entry in step_results:
        step = workflow.steps.get(entry["step_id"])
        if entry["status"] == "skipped" and (step is None or step.status is None) and not entry["error"]:
            entry["status"] = PENDING
        elif entry["status"] == "running" and step is not None and step.phase in _WAITING:
            entry["status"] = "waiting"


def _mark_cancelled(workflow: WorkflowState, step_results: list[dict[str, Any]]) -> None:
    """Say of steps that were under way when everything was ended, or had not begun, that they do not go on."""
    for entry in step_results:
        step = workflow.steps.get(entry["step_id"])
        if entry["status"] == "running":
            entry["status"], entry["error"] = "failed", "was cancelled"
        elif entry["status"] == "skipped" and (step is None or step.status is None) and not entry["error"]:
            entry["error"] = "not started, because the run was cancelled"


_WAITING = frozenset({StepPhase.ASKED, StepPhase.WAITING, StepPhase.DELAYED, StepPhase.CHILD_WAITS})
