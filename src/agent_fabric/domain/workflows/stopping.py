"""How steps are ended before their time: after a failure, or when they took too long."""

from heapq import heapify

from agent_fabric.domain.workflows.plan import Kind
from agent_fabric.domain.workflows.queues import put, release_agent
from agent_fabric.domain.workflows.state import WorkflowState
from agent_fabric.domain.workflows.step_state import Phase, StepState

CANCELLED = "Cancelled"
"""Error type of a step that was ended because the rest of the workflow does not need it any more."""
MAY_HAVE_HAPPENED = "it was under way when the program was stopped, so it may have happened"

_ONLY_WAITS = frozenset(
    {
        Phase.READY,  # for another attempt
        Phase.HALF_BEGUN,
        Phase.IN_DOUBT,
        Phase.ASKED,
        Phase.CALL_DUE,
        Phase.WAITING,
        Phase.DELAYED,
        Phase.CHILD_WAITS,
    }
)
_AT_WORK = frozenset({Phase.BEGUN, Phase.CALLED, Phase.CHILD, Phase.CHILD_LEFT})


def stop(wf: WorkflowState, reason: str, *, everything: bool) -> None:
    """Begin nothing new. What only waits is ended; what is at work may come to its end, unless `everything` must."""
    wf.halted = reason
    for heap in (wf.ready, wf.queued, *wf.lines.values()):
        heap.clear()
    _end_open(wf, list(wf.open.values()), reason, everything=everything)


def cut(wf: WorkflowState, owner: StepState, error_type: str, error: str) -> None:
    """End everything inside a container."""
    owner.cut = (error_type, error)
    inside = [step for step in wf.open.values() if _is_inside(step, owner)]
    for step in inside:
        if step.node.kind is Kind.CONTAINER:
            step.cut = step.cut or (CANCELLED, error)
    for heap in (wf.ready, wf.queued, *wf.lines.values()):
        heap[:] = [entry for entry in heap if not _is_inside(entry[1], owner)]
        heapify(heap)
    for lane in list(wf.busy_agents.values()):
        if lane not in wf.open and _is_inside(wf.steps[lane], owner):
            release_agent(wf, wf.steps[lane])
    _end_open(wf, [*inside, owner], f"{owner.node.step.id!r} {error}", everything=True)


def is_cut(step: StepState) -> bool:
    """Tell whether something that this step is inside of has been ended."""
    owner = step.block.owner
    while owner is not None:
        if owner.cut is not None:
            return True
        owner = owner.block.owner
    return False


def _is_inside(step: StepState, owner: StepState) -> bool:
    at = step.block.owner
    while at is not None:
        if at is owner:
            return True
        at = at.block.owner
    return False


def _end_open(wf: WorkflowState, steps: list[StepState], reason: str, *, everything: bool) -> None:
    for step in steps:
        if step.phase in _ONLY_WAITS or (everything and step.phase in _AT_WORK):
            step.reason = f"{reason}; {MAY_HAVE_HAPPENED}" if step.phase is Phase.IN_DOUBT else reason
            put(wf, step, Phase.STOPPING)
    for step in reversed(steps):  # inner ones first
        if step.phase is Phase.OPEN and not step.inner_open:
            put(wf, step, Phase.JUDGING)
