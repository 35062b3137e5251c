"""How a workflow moves on when a step comes to its end: what may start next, and what is over."""

from collections.abc import Iterable

from agent_fabric.domain.ids import LaneId
from agent_fabric.domain.workflow_events import StepFinished, StepStatus
from agent_fabric.domain.workflows.definition import Mode
from agent_fabric.domain.workflows.queues import broken_by, enqueue, put, release_agent
from agent_fabric.domain.workflows.state import WorkflowState
from agent_fabric.domain.workflows.step_state import Block, Phase, StepState
from agent_fabric.domain.workflows.stopping import stop


def begin_block(wf: WorkflowState, block: Block) -> None:
    """Let the first steps of a list become ready."""
    if block.row.nodes:
        _ready_all(wf, block, _first(block))
    elif block.owner is not None:
        _block_over(wf, block)


def _first(block: Block) -> list[int]:
    if block.row.levels:
        return block.row.levels[0]
    return [index for index, count in enumerate(block.counts) if not count]


def _ready_all(wf: WorkflowState, block: Block, indexes: Iterable[int]) -> None:
    """Let steps become ready; those that were taken over from another run come to their end at once."""
    waiting = [(block, index) for index in indexes]
    waiting.reverse()
    while waiting:
        at, index = waiting.pop()
        node = at.row.nodes[index]
        lane = LaneId(at.prefix + node.step.id)
        if lane in wf.steps:
            continue
        step = wf.steps[lane] = StepState(lane, node, at)
        taken_over = wf.early.get(lane)
        if taken_over is None:
            enqueue(wf, step)
        else:
            body, ts = taken_over
            waiting.extend((at, each) for each in reversed(_settled(wf, step, body, ts)))


def begin_items(wf: WorkflowState, owner: StepState) -> None:
    """Let a `for-each` begin as many items as may be under way at once."""
    if owner.filling:
        return  # an item was over as soon as it began
    most = items_at_once(wf, owner)
    row = owner.node.by_branch["steps"]
    owner.filling = True
    while owner.items_open < most and owner.next_item < len(owner.items) and not _must_not_begin(wf, owner):
        block = Block(row, owner, owner.next_item, {})
        owner.blocks.append(block)
        owner.next_item += 1
        owner.items_open += 1
        begin_block(wf, block)
    owner.filling = False
    if not owner.items_open and owner.phase is Phase.OPEN:
        put(wf, owner, Phase.JUDGING)


def items_at_once(wf: WorkflowState, owner: StepState) -> int:
    """Return how many items of a `for-each` may be under way together."""
    execution = wf.definition.execution
    wanted = owner.inputs.get("parallel")
    if isinstance(wanted, int) and not isinstance(wanted, bool) and wanted > 0:
        return wanted
    return 1 if execution.mode is Mode.SEQUENTIAL else execution.parallel_limit


def _must_not_begin(wf: WorkflowState, owner: StepState) -> bool:
    return bool(wf.halted) or owner.cut is not None


def settle(wf: WorkflowState, step: StepState, body: StepFinished, ts: float) -> None:
    """Take in that a step has come to its end, and let follow what follows."""
    _ready_all(wf, step.block, _settled(wf, step, body, ts))


def _settled(wf: WorkflowState, step: StepState, body: StepFinished, ts: float) -> list[int]:
    """Note a step's end; return which steps of its list may start now."""
    if step.phase is Phase.DONE:
        return []
    block, index = step.block, step.node.index
    if wf.open.pop(step.lane, None) is not None:
        block.open -= 1
        if block.owner is not None:
            block.owner.inner_open -= 1
    wf.children.pop(step.lane, None)
    put(wf, step, Phase.DONE)
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
        stop(wf, f"{step.node.step.id!r} failed", everything=wf.definition.execution.fail_fast)
    return _followers(wf, block, index)


def _followers(wf: WorkflowState, block: Block, index: int) -> list[int]:
    owner = block.owner
    if wf.halted or (owner is not None and owner.cut is not None):
        if owner is not None and owner.phase is Phase.OPEN and not owner.inner_open:
            put(wf, owner, Phase.JUDGING)
        return []
    if block.left == 0:
        if owner is not None:
            _block_over(wf, block)
        return []
    if block.row.levels:
        block.level_left -= 1
        if block.level_left or block.level + 1 >= len(block.row.levels):
            return []
        block.level += 1
        following = block.row.levels[block.level]
        block.level_left = len(following)
        return following
    ready = []
    for follower in block.row.followers[index]:
        block.counts[follower] -= 1
        if not block.counts[follower]:
            ready.append(follower)
    return ready


def _block_over(wf: WorkflowState, block: Block) -> None:
    """Let a container come to its end, or go on with its next item, when nothing in a list of it goes on."""
    owner = block.owner
    assert owner is not None
    if owner.phase is not Phase.OPEN:
        return
    if block.index is None:
        put(wf, owner, Phase.JUDGING)
    else:
        owner.items_open -= 1
        begin_items(wf, owner)


def root_over(wf: WorkflowState) -> bool:
    """Tell whether nothing goes on any more."""
    return wf.root.left == 0 or (bool(wf.halted) and wf.root.open == 0)
