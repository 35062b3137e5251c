"""What a new run of a workflow can take over from an earlier one, instead of doing it again."""

from agent_fabric.domain.errors import InvalidInputs
from agent_fabric.domain.ids import LaneId
from agent_fabric.domain.workflow_events import StepFinished, StepStatus
from agent_fabric.domain.workflows.plan import Node
from agent_fabric.domain.workflows.problems import did_you_mean
from agent_fabric.domain.workflows.state import StepState, WorkflowState


def results_to_keep(wf: WorkflowState, from_step: str = "") -> list[tuple[LaneId, StepFinished]]:
    """Return the ends of steps that need not be repeated, each with its lane.

    Only what succeeded is kept. With `from_step`, that step and everything that may have seen its outputs is done
    again, whatever came of it.

    Raises:
        InvalidInputs: there is no such step.
    """
    again = _done_again(wf, from_step) if from_step else frozenset()
    kept = [
        (lane, _end_of(wf, step))
        for lane, step in wf.steps.items()
        if step.status is StepStatus.SUCCESS and _top(step.node).step.id not in again
    ]
    # What is inside a container that was itself taken over has never had its turn here.
    inside = [(lane, body) for lane, (body, _) in wf.early.items() if lane not in wf.steps]
    nodes = wf.plan.nodes
    return kept + [(lane, body) for lane, body in inside if _top(nodes[body.step_id]).step.id not in again]


def _done_again(wf: WorkflowState, from_step: str) -> frozenset[str]:
    node = wf.plan.nodes.get(from_step)
    if node is None:
        raise InvalidInputs(f"There is no step {from_step!r}", hint=did_you_mean(from_step, wf.plan.nodes))
    first, row = _top(node), wf.plan.root
    return frozenset(each.step.id for each in row.nodes if each is first or row.sees(each.index, first.index))


def _top(node: Node) -> Node:
    while node.parent is not None:
        node = node.parent
    return node


def _end_of(wf: WorkflowState, step: StepState) -> StepFinished:
    return StepFinished(
        step_id=step.step.id,
        attempt=step.attempt,
        status=StepStatus.SUCCESS,
        outputs=step.outputs,
        reused_from=step.reused_from or wf.run_id,
    )
