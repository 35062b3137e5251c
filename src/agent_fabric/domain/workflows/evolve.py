"""A workflow's state from its events: pure and total. Folding the same log always gives the same state."""

from collections import deque
from collections.abc import Mapping
from heapq import heappop
from typing import Any

from agent_fabric.domain.approvals.answers import Decision, OnDoubt, Question
from agent_fabric.domain.approvals.events import ApprovalDecided, ApprovalRequested
from agent_fabric.domain.events import (
    Event,
    RunCancelled,
    RunCompleted,
    RunFailed,
    RunResumed,
    RunWaited,
    ToolCalled,
    ToolErred,
    ToolReturned,
)
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.workflows.definition import BuiltIn, WorkflowDefinition
from agent_fabric.domain.workflows.events import (
    ChildFinished,
    SignalReceived,
    StepFinished,
    StepRetried,
    StepStarted,
    StepStatus,
    StepWaited,
    TimerFired,
)
from agent_fabric.domain.workflows.plan import Plan, StepKind
from agent_fabric.domain.workflows.scheduling import (
    MAY_HAVE_HAPPENED,
    cancel_container,
    enqueue,
    finish_step,
    halt,
    in_cancelled_container,
    put,
    release_agent,
    set_timer,
    start_block,
    start_items,
)
from agent_fabric.domain.workflows.state import Block, StepPhase, StepState, WorkflowState, timer_counts


def initial_workflow_state(
    definition: WorkflowDefinition,
    inputs: Mapping[str, Any],
    run_id: RunId,
    exclusive: frozenset[str] = frozenset(),
    on_doubt: OnDoubt = OnDoubt.ASK,
) -> WorkflowState:
    """Return the state of a workflow that is about to start; of each agent in `exclusive` only one works at a time."""
    plan = Plan(definition)
    wf = WorkflowState(run_id, plan, inputs, exclusive, Block(plan.root, None, None, {}), on_doubt=on_doubt)
    if not definition.execution.dry_run:
        start_block(wf, wf.root)
    return wf


def evolve_workflow(wf: WorkflowState, event: Event) -> None:
    """Bring a workflow's state forward by one event, in place."""
    _count_time(wf, event)
    step = wf.steps.get(event.lane) if event.lane is not None else None
    if step is not None:
        if step.phase is not StepPhase.DONE:
            _evolve_step(wf, step, event)
    elif event.lane is not None and isinstance(event.body, StepFinished):
        _adopt_result(wf, event.lane, event)
    else:
        _evolve_whole(wf, event)
    _prune_queues(wf)


def _count_time(wf: WorkflowState, event: Event) -> None:
    ts = event.ts
    if wf.first_at is None:
        wf.first_at = ts
    elif not wf.paused and not isinstance(event.body, RunResumed) and ts > wf.last_at:
        wf.driven_s += ts - wf.last_at
    wf.last_at = ts
    wf.paused = isinstance(event.body, RunWaited)


def _evolve_whole(wf: WorkflowState, event: Event) -> None:
    match event.body:
        case RunResumed():
            _mark_in_doubt(wf)
        case SignalReceived() as body:
            _deliver(wf, body)
        case TimerFired(step_id="", purpose="timeout"):
            if not wf.timed_out:
                wf.timed_out = True
                limit = wf.definition.execution.timeout_s or 0.0
                halt(wf, f"the workflow took longer than {limit:g} s", everything=True)
        case RunCancelled() | RunCompleted() | RunFailed():
            wf.ended = True
        case _:
            pass  # the run knows about it


def _evolve_step(wf: WorkflowState, step: StepState, event: Event) -> None:
    match event.body:
        case StepStarted() as body:
            _start(wf, step, body, event.ts)
        case StepFinished() as body:
            finish_step(wf, step, body, event.ts)
        case ToolCalled() as body:
            step.calls += 1
            step.began_with, step.went_to = body.args, body.leaves
            put(wf, step, StepPhase.CALLED)
        case ToolReturned() | ToolErred() | ChildFinished() as body:
            _set_outcome(wf, step, body)
        case ApprovalRequested() as body:
            step.asked, step.decided = body, None
            put(wf, step, StepPhase.ASKED)
        case ApprovalDecided() as body:
            _apply_decision(wf, step, body)
        case StepWaited() as body:
            _wait(wf, step, body, event.ts)
        case StepRetried() as body:
            _retry(wf, step, body, event.ts)
        case TimerFired() as body:
            _fire_timer(wf, step, body)
        case _:
            pass  # for the audit


def _start(wf: WorkflowState, step: StepState, body: StepStarted, ts: float) -> None:
    step.attempt, step.inputs = body.attempt, body.inputs
    step.asked = step.decided = step.outcome = None
    step.calls, step.began_with = 0, {}
    if step.started_at is None:
        step.started_at = ts
    if step.lane not in wf.open:
        wf.open[step.lane] = step
        step.block.open += 1
        if step.block.owner is not None:
            step.block.owner.inner_open += 1
    node = step.node
    limit = node.step.timeout_s
    if node.kind is StepKind.CONTAINER:
        put(wf, step, StepPhase.OPEN)
        _open(wf, step)
    elif body.child_run_id is not None:
        step.child_run_id = body.child_run_id
        wf.children[step.lane] = step
        put(wf, step, StepPhase.CHILD)
    else:
        put(wf, step, StepPhase.BEGUN)
    if limit is not None and node.kind in (StepKind.CONTAINER, StepKind.CHILD, StepKind.PERSON):
        set_timer(wf, step, ts + limit, "timeout")


def _open(wf: WorkflowState, owner: StepState) -> None:
    """Begin what is inside a container."""
    if owner.node.step.action == BuiltIn.FOR_EACH:
        items = owner.inputs.get("items")
        owner.items = list(items) if isinstance(items, list | tuple) else []
        start_items(wf, owner)
        return
    owner.branch = str(owner.inputs.get("branch", "")) if owner.node.step.action == BuiltIn.CONDITIONAL else "steps"
    step_list = owner.node.by_branch.get(owner.branch)
    if step_list is None:
        put(wf, owner, StepPhase.JUDGING)
        return
    block = Block(step_list, owner, None, owner.block.values)
    owner.blocks.append(block)
    start_block(wf, block)


def _set_outcome(wf: WorkflowState, step: StepState, outcome: ToolReturned | ToolErred | ChildFinished) -> None:
    if isinstance(outcome, ChildFinished) and outcome.child_run_id != step.child_run_id:
        return  # of an attempt before
    step.outcome = outcome
    wf.children.pop(step.lane, None)
    put(wf, step, StepPhase.JUDGING)


def _apply_decision(wf: WorkflowState, step: StepState, body: ApprovalDecided) -> None:
    asked = step.asked
    if step.phase is not StepPhase.ASKED or asked is None or asked.approval_id != body.approval_id:
        return  # an answer to something that is settled
    step.decided = body
    if step.node.kind is StepKind.TOOL and body.decision is Decision.APPROVE:
        put(wf, step, StepPhase.CALL_DUE)
    else:
        step.outcome = body
        put(wf, step, StepPhase.JUDGING)


def _wait(wf: WorkflowState, step: StepState, body: StepWaited, ts: float) -> None:
    if step.node.kind is StepKind.CHILD:
        if step.phase in (StepPhase.CHILD, StepPhase.CHILD_DETACHED):
            step.child_asks = body.approvals
            put(wf, step, StepPhase.CHILD_WAITS)
        return
    put(wf, step, StepPhase.WAITING)
    if body.timeout_s is not None:
        set_timer(wf, step, ts + body.timeout_s, "timeout")
    if body.event:
        kept = wf.signals.get(body.event)
        if kept:
            _receive(wf, step, kept.popleft())
        else:
            step.listens_to = body.event
            wf.listeners.setdefault(body.event, {})[step.lane] = step
    else:
        moment = body.until if body.until is not None else ts + (body.seconds or 0.0)
        set_timer(wf, step, moment, "wait")


def _deliver(wf: WorkflowState, body: SignalReceived) -> None:
    """Deliver a signal to the step that has waited longest, or keep it."""
    listeners = wf.listeners.get(body.name)
    if listeners:
        _receive(wf, next(iter(listeners.values())), body)
    else:
        wf.signals.setdefault(body.name, deque()).append(body)


def _receive(wf: WorkflowState, step: StepState, body: SignalReceived) -> None:
    step.outcome = body
    put(wf, step, StepPhase.JUDGING)


def _retry(wf: WorkflowState, step: StepState, body: StepRetried, ts: float) -> None:
    release_agent(wf, step)
    wf.children.pop(step.lane, None)
    step.child_run_id = None
    step.asked = step.decided = None
    step.calls, step.began_with = 0, {}
    step.error, step.error_type = body.error, body.error_type
    put(wf, step, StepPhase.DELAYED)
    if wf.halted or in_cancelled_container(step):
        step.reason = wf.halted or "what it belongs to was ended"
        put(wf, step, StepPhase.STOPPING)
    elif body.delay_s > 0:
        set_timer(wf, step, ts + body.delay_s, "retry")
    else:
        _try_again(wf, step)


def _try_again(wf: WorkflowState, step: StepState) -> None:
    put(wf, step, StepPhase.READY)
    enqueue(wf, step)


def _fire_timer(wf: WorkflowState, step: StepState, body: TimerFired) -> None:
    if not timer_counts(step, step.attempt, body.purpose):
        return
    match body.purpose:
        case "retry":
            _try_again(wf, step)
        case "wait":
            step.outcome = body
            put(wf, step, StepPhase.JUDGING)
        case "timeout":
            _time_out(wf, step, body)


def _time_out(wf: WorkflowState, step: StepState, body: TimerFired) -> None:
    if step.node.kind is StepKind.CONTAINER:
        limit = step.node.step.timeout_s or 0.0
        cancel_container(wf, step, "TimeoutError", f"took longer than {limit:g} s")
        return
    step.outcome = body
    put(wf, step, StepPhase.JUDGING if step.phase is StepPhase.WAITING else StepPhase.STOPPING)


def _mark_in_doubt(wf: WorkflowState) -> None:
    """Mark work that was in flight when the driver changed."""
    for step in list(wf.open.values()):
        match step.phase:
            case StepPhase.BEGUN:
                put(wf, step, StepPhase.START_INTERRUPTED)
            case StepPhase.CALLED:
                _mark_call_in_doubt(wf, step)
            case StepPhase.CHILD | StepPhase.CHILD_WAITS:
                put(wf, step, StepPhase.CHILD_DETACHED)
            case _:
                pass  # still waits for what it has waited for


def _mark_call_in_doubt(wf: WorkflowState, step: StepState) -> None:
    if step.asked is not None and step.asked.question is Question.DID_IT_HAPPEN:
        step.asked = step.decided = None  # that was about the call before
    if wf.halted or in_cancelled_container(step):
        step.reason = f"{wf.halted or 'what it belongs to was ended'}; {MAY_HAVE_HAPPENED}"
        put(wf, step, StepPhase.STOPPING)
    else:
        put(wf, step, StepPhase.IN_DOUBT)


def _adopt_result(wf: WorkflowState, lane: Any, event: Event) -> None:
    """Keep a result of another run until its step is reached."""
    assert isinstance(event.body, StepFinished)
    wf.adopted[lane] = (event.body, event.ts)
    if event.body.status is StepStatus.SUCCESS and lane in wf.plan.nodes:
        wf.root.values[lane] = event.body.outputs


_DUE = frozenset({StepPhase.JUDGING, StepPhase.STOPPING, StepPhase.START_INTERRUPTED, StepPhase.IN_DOUBT})


def _prune_queues(wf: WorkflowState) -> None:
    """Drop stale entries from the front of the queues."""
    for heap in (wf.ready, wf.queued):
        while heap and heap[0][1].phase is not StepPhase.READY and heap[0][1].phase is not StepPhase.CALL_DUE:
            heappop(heap)
    while wf.settling and wf.settling[0].phase not in _DUE:
        wf.settling.popleft()
    for timers in (wf.timers, wf.moves):
        while timers and not timer_counts(*timers[0][2:]):
            heappop(timers)
