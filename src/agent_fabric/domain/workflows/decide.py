"""Decides what a workflow does next. Pure: the same state always gives the same actions.

Only the front of each queue is read, never all steps: the cost grows linearly with the number of steps.
"""

from itertools import islice

from agent_fabric.domain.approvals.answers import OnDoubt
from agent_fabric.domain.runs.actions import Record
from agent_fabric.domain.workflows.actions import AskAboutStep, CallStepTool, StepAction, StopStep, Wait
from agent_fabric.domain.workflows.attempt_events import (
    EXPRESSION_ERROR,
    AttemptResult,
    end_event,
    failure,
    settled_event,
)
from agent_fabric.domain.workflows.events import StepStatus
from agent_fabric.domain.workflows.plan import StepKind
from agent_fabric.domain.workflows.result import end_of_workflow
from agent_fabric.domain.workflows.scheduling import is_over
from agent_fabric.domain.workflows.scope import ExpressionError, describe_error
from agent_fabric.domain.workflows.state import StepPhase, StepState, WorkflowState
from agent_fabric.domain.workflows.step_start import child_action, continue_step, start_step, tool_call

_MAX_OFFERED = 8
"""Steps to be settled that are offered at once: some lanes may still be busy."""
LEFT_IN_DOUBT = "the program was stopped during it, so it may have happened; skipped, as on_doubt says"


def decide_workflow(wf: WorkflowState) -> tuple[Record | StepAction, ...]:
    """Return what may be done now, the most urgent first; ask again after each.

    Nothing: it is over, or what is under way has to come to its end first.
    """
    if wf.ended:
        return ()
    if is_over(wf) or wf.definition.execution.dry_run:
        return (Record(None, (end_of_workflow(wf),)),)
    actions: list[Record | StepAction] = []
    for step in islice(wf.settling, _MAX_OFFERED):
        action = _settle(wf, step)
        if action is not None:
            actions.append(action)
            if isinstance(action, Record):
                break  # nothing is in its way
    if actions:
        return tuple(actions)
    if wf.ready:
        actions.append(_start_next(wf, wf.ready[0][1]))
    room = wf.definition.execution.parallel_limit - wf.under_way
    if wf.detached_children:
        left = list(islice(wf.detached_children.values(), max(room, 0)))
        actions.extend(child_action(wf, step, step.inputs, step.attempt, None) for step in left)
        room -= len(left)
    if wf.queued and room > 0:
        actions.append(_start_next(wf, wf.queued[0][1]))
    if actions or wf.under_way:
        return tuple(actions)
    return (_wait(wf),)


def _start_next(wf: WorkflowState, step: StepState) -> Record | StepAction:
    return _call_again(wf, step) if step.phase is StepPhase.CALL_DUE else start_step(wf, step)


def _settle(wf: WorkflowState, step: StepState) -> Record | StepAction | None:
    match step.phase:
        case StepPhase.JUDGING:
            return Record(step.lane, (settled_event(wf, step),))
        case StepPhase.STOPPING:
            return _stop(wf, step)
        case StepPhase.START_INTERRUPTED:
            return continue_step(wf, step)
        case StepPhase.IN_DOUBT:
            again = _call_again(wf, step)
            if step.node.is_idempotent or isinstance(again, Record):
                return again
            if wf.on_doubt is OnDoubt.SKIP:
                return Record(step.lane, (end_event(wf, step, AttemptResult(StepStatus.SKIPPED, error=LEFT_IN_DOUBT)),))
            return AskAboutStep(step.lane, step.node.step, again.call)
        case _:
            return None  # settled since


def _stop(wf: WorkflowState, step: StepState) -> Record | StopStep:
    body = settled_event(wf, step)
    if step.node.kind is StepKind.WAIT:
        return Record(step.lane, (body,))  # nothing has to be ended
    return StopStep(step.lane, body.error, body)


def _call_again(wf: WorkflowState, step: StepState) -> Record | CallStepTool:
    try:
        call = tool_call(step, step.inputs, step.attempt)
    except ExpressionError as problem:
        return Record(step.lane, (end_event(wf, step, failure(EXPRESSION_ERROR, describe_error(problem))),))
    return CallStepTool(step.lane, step.node.step, call, step.attempt, None)


def _wait(wf: WorkflowState) -> Wait | Record:
    approvals = (
        *(asked.approval_id for asked in wf.asked),
        *(approval for step in wf.children.values() for approval in step.child_asks),
    )
    heard = [name for name, steps in wf.listeners.items() if steps]
    if approvals:
        reason = "a person has to answer"
    elif heard:
        reason = f"waits for the signal {heard[0]!r}"
    elif wf.children:
        reason = "waits for another run"
    elif wf.next_timer is not None:
        reason = "waits for a moment to come"
    else:
        return Record(None, (end_of_workflow(wf),))  # steps that wait for each other; a checked definition has none
    return Wait(None, reason, wf.next_timer, approvals, wf.moves_at)
