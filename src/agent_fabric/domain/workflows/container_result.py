"""The result of a container: the outputs of its steps, or the failure of one of them."""

from collections.abc import Mapping
from typing import Any

from agent_fabric.domain.ids import LaneId
from agent_fabric.domain.workflows.attempt_result import AttemptResult, failure, success
from agent_fabric.domain.workflows.cancellation import CANCELLED
from agent_fabric.domain.workflows.definition import BuiltIn
from agent_fabric.domain.workflows.state import WorkflowState
from agent_fabric.domain.workflows.step_state import Block, StepState


def result_of_container(wf: WorkflowState, owner: StepState) -> AttemptResult:
    """Return the result of a container whose steps have ended."""
    outputs = _outputs_inside(owner)
    if owner.cancel_error is not None:
        return failure(*owner.cancel_error, outputs)
    for block in owner.blocks:
        culprit = _failed_in(wf, block)
        if culprit is not None:
            where = f"step {culprit.node.step.id!r} failed: {culprit.error}"
            return failure("StepFailed", where if block.index is None else f"item {block.index}: {where}", outputs)
    if any(block.left for block in owner.blocks) or owner.next_item < len(owner.items):
        return failure(CANCELLED, f"was ended because {wf.halted}", outputs)
    return success(outputs)


def _failed_in(wf: WorkflowState, block: Block) -> StepState | None:
    """Return the first step of a list that failed, in the order of the definition."""
    failed = [index for index, name in block.broken.items() if name == block.step_list.nodes[index].step.id]
    return wf.steps[LaneId(block.prefix + block.step_list.nodes[min(failed)].step.id)] if failed else None


def _outputs_inside(owner: StepState) -> dict[str, Any]:
    if owner.node.repeats:
        results: list[Any] = [None] * len(owner.items)
        for block in owner.blocks:
            assert block.index is not None
            if not block.left and not block.broken:
                results[block.index] = dict(_of_block(block))
        return {"results": results, "count": len(owner.items)}
    inside = {name: outputs for block in owner.blocks for name, outputs in _of_block(block)}
    return {"branch": owner.branch, **inside} if owner.node.step.action == BuiltIn.CONDITIONAL else inside


def _of_block(block: Block) -> list[tuple[str, Mapping[str, Any]]]:
    return [
        (node.step.id, block.values[node.step.id]) for node in block.step_list.nodes if node.step.id in block.values
    ]
