"""Schedules steps: their queues, which of them become ready when a list starts or a step ends, and cancellation."""

from collections.abc import Iterable
from heapq import heapify, heappop, heappush
from typing import Literal

from agent_fabric.domain.ids import LaneId
from agent_fabric.domain.workflows.definition import BuiltIn, Mode
from agent_fabric.domain.workflows.events import StepFinished, StepStatus
from agent_fabric.domain.workflows.plan import StepKind
from agent_fabric.domain.workflows.state import Block, StepPhase, StepState, WorkflowState

_Purpose = Literal["wait", "retry", "timeout"]


def put(wf: WorkflowState, step: StepState, phase: StepPhase) -> None:
    """Set the phase of a step and update the queues and counters."""
    before = step.phase
    if step.node.takes_slot:
        wf.under_way += _at_work(phase) - _at_work(before)
    if before is StepPhase.ASKED:
        wf.questions.pop(step.lane, None)
    elif before is StepPhase.CHILD_DETACHED:
        wf.detached_children.pop(step.lane, None)
    elif before is StepPhase.WAITING and step.listens_to:
        wf.listeners[step.listens_to].pop(step.lane, None)
        step.listens_to = ""
    step.phase = phase
    match phase:
        case StepPhase.ASKED:
            wf.questions[step.lane] = step
        case StepPhase.CHILD_DETACHED:
            wf.detached_children[step.lane] = step
        case StepPhase.JUDGING | StepPhase.STOPPING | StepPhase.START_INTERRUPTED | StepPhase.IN_DOUBT:
            wf.settling.append(step)
        case StepPhase.CALL_DUE:
            heappush(wf.queued, (step.order, step))
        case _:
            pass


def _at_work(phase: StepPhase) -> bool:
    return phase is StepPhase.BEGUN or phase is StepPhase.CALLED or phase is StepPhase.CHILD


def enqueue(wf: WorkflowState, step: StepState) -> None:
    """Enqueue a step that is ready."""
    if wf.halted:
        return
    node = step.node
    if not node.takes_slot or broken_by(step):
        heappush(wf.ready, (step.order, step))
        return
    agent = node.step.agent
    if (
        agent in wf.exclusive
        and node.step.action == BuiltIn.INVOKE_AGENT
        and wf.busy_agents.setdefault(agent, step.lane) != step.lane
    ):
        heappush(wf.lines.setdefault(agent, []), (step.order, step))
    else:
        heappush(wf.queued, (step.order, step))


def release_agent(wf: WorkflowState, step: StepState) -> None:
    """Release the agent of a step to the next step in line."""
    agent = step.node.step.agent
    if wf.busy_agents.get(agent) == step.lane:
        del wf.busy_agents[agent]
        line = wf.lines.get(agent)
        if line:
            enqueue(wf, heappop(line)[1])


def broken_by(step: StepState) -> str:
    """Return the failed dependency of a step, or an empty text."""
    broken = step.block.broken
    if broken:
        for need in step.block.step_list.needs[step.node.index]:
            if need in broken:
                return broken[need]
    return ""


def set_timer(wf: WorkflowState, step: StepState, moment: float, purpose: _Purpose) -> None:
    """Set a timer for a step."""
    wf.timers_made += 1
    timer = (moment, wf.timers_made, step, step.attempt, purpose)
    heappush(wf.timers, timer)
    if purpose != "timeout":
        heappush(wf.moves, timer)


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


# Cancels steps: after a failure, or when a time-out has passed.
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
