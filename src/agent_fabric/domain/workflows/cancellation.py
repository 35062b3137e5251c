"""Cancels steps: after a failure, or when a time-out has passed."""

from heapq import heapify

from agent_fabric.domain.workflows.plan import StepKind
from agent_fabric.domain.workflows.queues import put, release_agent
from agent_fabric.domain.workflows.state import WorkflowState
from agent_fabric.domain.workflows.step_state import StepPhase, StepState

CANCELLED = "Cancelled"
"""Error type of a step that was cancelled."""
MAY_HAVE_HAPPENED = "it was under way when the program was stopped, so it may have happened"

_IDLE_PHASES = frozenset(
    {
        StepPhase.READY,  # for another attempt
        StepPhase.START_INTERRUPTED,
        StepPhase.IN_DOUBT,
        StepPhase.ASKED,
        StepPhase.CALL_DUE,
        StepPhase.WAITING,
        StepPhase.DELAYED,
        StepPhase.CHILD_WAITS,
    }
)
_BUSY_PHASES = frozenset({StepPhase.BEGUN, StepPhase.CALLED, StepPhase.CHILD, StepPhase.CHILD_DETACHED})


def halt(wf: WorkflowState, reason: str, *, everything: bool) -> None:
    """Start no further step. Cancel steps that wait; with `everything`, also steps whose work is in flight."""
    wf.halted = reason
    for heap in (wf.ready, wf.queued, *wf.lines.values()):
        heap.clear()
    _cancel_open(wf, list(wf.open.values()), reason, everything=everything)


def cancel_container(wf: WorkflowState, owner: StepState, error_type: str, error: str) -> None:
    """Cancel all steps inside a container."""
    owner.cancel_error = (error_type, error)
    inside = [step for step in wf.open.values() if _is_inside(step, owner)]
    for step in inside:
        if step.node.kind is StepKind.CONTAINER:
            step.cancel_error = step.cancel_error or (CANCELLED, error)
    for heap in (wf.ready, wf.queued, *wf.lines.values()):
        heap[:] = [entry for entry in heap if not _is_inside(entry[1], owner)]
        heapify(heap)
    for lane in list(wf.busy_agents.values()):
        if lane not in wf.open and _is_inside(wf.steps[lane], owner):
            release_agent(wf, wf.steps[lane])
    _cancel_open(wf, [*inside, owner], f"{owner.node.step.id!r} {error}", everything=True)


def in_cancelled_container(step: StepState) -> bool:
    """Tell whether a container around this step has been cancelled."""
    return any(owner.cancel_error is not None for owner in step.owners())


def _is_inside(step: StepState, owner: StepState) -> bool:
    return any(each is owner for each in step.owners())


def _cancel_open(wf: WorkflowState, steps: list[StepState], reason: str, *, everything: bool) -> None:
    for step in steps:
        if step.phase in _IDLE_PHASES or (everything and step.phase in _BUSY_PHASES):
            step.reason = f"{reason}; {MAY_HAVE_HAPPENED}" if step.phase is StepPhase.IN_DOUBT else reason
            put(wf, step, StepPhase.STOPPING)
    for step in reversed(steps):  # inner ones first
        if step.phase is StepPhase.OPEN and not step.inner_open:
            put(wf, step, StepPhase.JUDGING)
