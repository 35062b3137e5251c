"""What a workflow does next: pure. Given the same state, always the same actions.

Only the front of each queue is looked at, never all steps: a workflow of a thousand steps costs a thousand times one.
"""

from itertools import islice

from agent_fabric.domain.runs.actions import Record
from agent_fabric.domain.workflows.actions import AskAboutStep, CallStepTool, StepAction, StopStep, Wait
from agent_fabric.domain.workflows.judging import ending, settled
from agent_fabric.domain.workflows.moving import root_over
from agent_fabric.domain.workflows.plan import Kind
from agent_fabric.domain.workflows.result import ending_of
from agent_fabric.domain.workflows.scope import ExpressionError, said
from agent_fabric.domain.workflows.starting import call_for, child_of, go_on, start
from agent_fabric.domain.workflows.state import WorkflowState
from agent_fabric.domain.workflows.step_state import Phase, StepState
from agent_fabric.domain.workflows.verdicts import EXPRESSION_ERROR, failure

_LOOKED_AT = 8
"""Steps to be settled that are offered at once: some lanes may still be busy."""


def decide_workflow(wf: WorkflowState) -> tuple[Record | StepAction, ...]:
    """Return what may be done now, the most urgent first; ask again after each.

    Nothing: it is over, or what is under way has to come to its end first.
    """
    if wf.ended:
        return ()
    if root_over(wf) or wf.definition.execution.dry_run:
        return (Record(None, (ending_of(wf),)),)
    actions: list[Record | StepAction] = []
    for step in islice(wf.settling, _LOOKED_AT):
        action = _settle(wf, step)
        if action is not None:
            actions.append(action)
            if isinstance(action, Record):
                break  # nothing is in its way
    if actions:
        return tuple(actions)
    if wf.ready:
        actions.append(_go(wf, wf.ready[0][1]))
    room = wf.definition.execution.parallel_limit - wf.under_way
    if wf.left_children:
        left = list(islice(wf.left_children.values(), max(room, 0)))
        actions.extend(child_of(wf, step, step.inputs, step.attempt, None) for step in left)
        room -= len(left)
    if wf.queued and room > 0:
        actions.append(_go(wf, wf.queued[0][1]))
    if actions or wf.under_way:
        return tuple(actions)
    return (_wait(wf),)


def _go(wf: WorkflowState, step: StepState) -> Record | StepAction:
    return _call_again(wf, step) if step.phase is Phase.CALL_DUE else start(wf, step)


def _settle(wf: WorkflowState, step: StepState) -> Record | StepAction | None:
    match step.phase:
        case Phase.JUDGING:
            return Record(step.lane, (settled(wf, step),))
        case Phase.STOPPING:
            return _stop(wf, step)
        case Phase.HALF_BEGUN:
            return go_on(wf, step)
        case Phase.IN_DOUBT:
            again = _call_again(wf, step)
            if step.node.twice_is_once or isinstance(again, Record):
                return again
            return AskAboutStep(step.lane, step.node.step, again.call)
        case _:
            return None  # settled since


def _stop(wf: WorkflowState, step: StepState) -> Record | StopStep:
    body = settled(wf, step)
    if step.node.kind is Kind.WAIT:
        return Record(step.lane, (body,))  # nothing has to be ended
    return StopStep(step.lane, body.error, body)


def _call_again(wf: WorkflowState, step: StepState) -> Record | CallStepTool:
    try:
        call = call_for(step, step.inputs, step.attempt)
    except ExpressionError as problem:
        return Record(step.lane, (ending(wf, step, failure(EXPRESSION_ERROR, said(problem))),))
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
        return Record(None, (ending_of(wf),))  # steps that wait for each other; a checked definition has none
    return Wait(None, reason, wf.next_timer, approvals, wf.moves_at)
