"""Selects the step results that a new run of a workflow reuses from an earlier run."""

from agent_fabric.domain.definitions.problems import did_you_mean
from agent_fabric.domain.errors import InvalidInputs
from agent_fabric.domain.ids import LaneId
from agent_fabric.domain.workflows.definition import WorkflowDefinition
from agent_fabric.domain.workflows.events import StepFinished, StepStatus
from agent_fabric.domain.workflows.plan import Plan, PlanNode
from agent_fabric.domain.workflows.state import StepState, WorkflowState


def results_to_keep(
    wf: WorkflowState, from_step: str = "", *, now: WorkflowDefinition | None = None
) -> list[tuple[LaneId, StepFinished]]:
    """Return the results to reuse, each with its lane.

    Only what succeeded is kept. With `from_step`, that step and everything that may have seen its outputs is done
    again, whatever came of it. With `now`, which is how the workflow is defined by now, so are steps that have changed.

    Raises:
        InvalidInputs: there is no such step.
    """
    plan = wf.plan if now is None else Plan(now)
    again = _done_again(plan, _changed_nodes(wf, plan) + ([_node_of(plan, from_step)] if from_step else []))
    known = {node.step.id for node in plan.root.nodes} - again
    kept = [
        (lane, _end_of(wf, step))
        for lane, step in wf.steps.items()
        if step.status is StepStatus.SUCCESS and _top(step.node).step.id in known
    ]
    # What is inside a container that was itself taken over has never had its turn here.
    inside = [(lane, body) for lane, (body, _) in wf.adopted.items() if lane not in wf.steps]
    nodes = wf.plan.nodes
    return kept + [(lane, body) for lane, body in inside if _top(nodes[body.step_id]).step.id in known]


def _node_of(plan: Plan, step: str) -> PlanNode:
    node = plan.nodes.get(step)
    if node is None:
        raise InvalidInputs(f"There is no step {step!r}", hint=did_you_mean(step, plan.nodes))
    return _top(node)


def _changed_nodes(wf: WorkflowState, plan: Plan) -> list[PlanNode]:
    before = {step.id: step for step in wf.definition.steps}
    return [node for node in plan.root.nodes if before.get(node.step.id) != node.step]


def _done_again(plan: Plan, first: list[PlanNode]) -> set[str]:
    """Return these steps and all that may see their outputs."""
    step_list = plan.root
    return {
        node.step.id
        for node in step_list.nodes
        if any(node is each or step_list.sees(node.index, each.index) for each in first)
    }


def _top(node: PlanNode) -> PlanNode:
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
