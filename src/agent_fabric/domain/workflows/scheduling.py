"""Schedules steps: which become ready when a workflow, a container or an item starts, and when a step ends."""

from collections.abc import Iterable

from agent_fabric.domain.ids import LaneId
from agent_fabric.domain.workflows.cancellation import halt
from agent_fabric.domain.workflows.definition import Mode
from agent_fabric.domain.workflows.events import StepFinished, StepStatus
from agent_fabric.domain.workflows.queues import broken_by, enqueue, put, release_agent
from agent_fabric.domain.workflows.state import WorkflowState
from agent_fabric.domain.workflows.step_state import Block, StepPhase, StepState


def start_block(wf: WorkflowState, block: Block) -> None:
    """Enqueue the first steps of a list."""
    if block.step_list.nodes:
        _enqueue_all(wf, block, _initial_steps(block))
    elif block.owner is not None:
        _finish_block(wf, block)


def _initial_steps(block: Block) -> list[int]:
    if block.step_list.levels:
        return block.step_list.levels[0]
    return [index for index, count in enumerate(block.counts) if not count]


def _enqueue_all(wf: WorkflowState, block: Block, indexes: Iterable[int]) -> None:
    """Enqueue steps. Steps whose results are reused from another run end at once."""
    waiting = [(block, index) for index in indexes]
    waiting.reverse()
    while waiting:
        at, index = waiting.pop()
        node = at.step_list.nodes[index]
        lane = LaneId(at.prefix + node.step.id)
        if lane in wf.steps:
            continue
        step = wf.steps[lane] = StepState(lane, node, at)
        taken_over = wf.adopted.get(lane)
        if taken_over is None:
            enqueue(wf, step)
        else:
            body, ts = taken_over
            waiting.extend((at, each) for each in reversed(_record_end(wf, step, body, ts)))


def start_items(wf: WorkflowState, owner: StepState) -> None:
    """Start as many items of a `for-each` as may be in progress at once."""
    if owner.filling:
        return  # an item was over as soon as it began
    most = max_open_items(wf, owner)
    step_list = owner.node.by_branch["steps"]
    owner.filling = True
    while owner.items_open < most and owner.next_item < len(owner.items) and not _is_halted(wf, owner):
        block = Block(step_list, owner, owner.next_item, {})
        owner.blocks.append(block)
        owner.next_item += 1
        owner.items_open += 1
        start_block(wf, block)
    owner.filling = False
    if not owner.items_open and owner.phase is StepPhase.OPEN:
        put(wf, owner, StepPhase.JUDGING)


def max_open_items(wf: WorkflowState, owner: StepState) -> int:
    """Return how many items of a `for-each` may be in progress at once."""
    execution = wf.definition.execution
    wanted = owner.inputs.get("parallel")
    if isinstance(wanted, int) and not isinstance(wanted, bool) and wanted > 0:
        return wanted
    return 1 if execution.mode is Mode.SEQUENTIAL else execution.parallel_limit


def _is_halted(wf: WorkflowState, owner: StepState) -> bool:
    return bool(wf.halted) or owner.cancel_error is not None


def finish_step(wf: WorkflowState, step: StepState, body: StepFinished, ts: float) -> None:
    """Record the end of a step and enqueue the steps that it unblocks."""
    _enqueue_all(wf, step.block, _record_end(wf, step, body, ts))


def _record_end(wf: WorkflowState, step: StepState, body: StepFinished, ts: float) -> list[int]:
    """Record the end of a step; return the steps of its list that are now ready."""
    if step.phase is StepPhase.DONE:
        return []
    block, index = step.block, step.node.index
    if wf.open.pop(step.lane, None) is not None:
        block.open -= 1
        if block.owner is not None:
            block.owner.inner_open -= 1
    wf.children.pop(step.lane, None)
    put(wf, step, StepPhase.DONE)
    step.status, step.outputs = body.status, body.outputs
    step.error, step.error_type, step.reused_from = body.error, body.error_type, body.reused_from
    step.attempt = max(step.attempt, body.attempt)
    step.finished_at = ts
    block.left -= 1
    match body.status:
        case StepStatus.SUCCESS:
            wf.succeeded += 1
            block.values[step.node.step.id] = body.outputs
        case StepStatus.FAILED:
            wf.failed.append(step.lane)
            block.broken[index] = step.node.step.id
        case _:
            blamed = broken_by(step) if body.error else ""
            if blamed:
                block.broken[index] = blamed
    if body.status is not StepStatus.SKIPPED and body.reused_from is None:
        wf.executed.append(step.lane)
    release_agent(wf, step)
    if body.status is StepStatus.FAILED and not wf.halted and not wf.definition.execution.continue_on_error:
        halt(wf, f"{step.node.step.id!r} failed", everything=wf.definition.execution.fail_fast)
    return _newly_ready(wf, block, index)


def _newly_ready(wf: WorkflowState, block: Block, index: int) -> list[int]:
    owner = block.owner
    if wf.halted or (owner is not None and owner.cancel_error is not None):
        if owner is not None and owner.phase is StepPhase.OPEN and not owner.inner_open:
            put(wf, owner, StepPhase.JUDGING)
        return []
    if block.left == 0:
        if owner is not None:
            _finish_block(wf, block)
        return []
    if block.step_list.levels:
        block.level_left -= 1
        if block.level_left or block.level + 1 >= len(block.step_list.levels):
            return []
        block.level += 1
        following = block.step_list.levels[block.level]
        block.level_left = len(following)
        return following
    ready = []
    for follower in block.step_list.followers[index]:
        block.counts[follower] -= 1
        if not block.counts[follower]:
            ready.append(follower)
    return ready


def _finish_block(wf: WorkflowState, block: Block) -> None:
    """End the container of a finished list, or start its next item."""
    owner = block.owner
    assert owner is not None
    if owner.phase is not StepPhase.OPEN:
        return
    if block.index is None:
        put(wf, owner, StepPhase.JUDGING)
    else:
        owner.items_open -= 1
        start_items(wf, owner)


def is_over(wf: WorkflowState) -> bool:
    """Tell whether all steps have ended."""
    return wf.root.left == 0 or (bool(wf.halted) and wf.root.open == 0)
