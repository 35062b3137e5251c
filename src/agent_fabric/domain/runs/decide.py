"""What happens next: pure. Given the same state, always the same actions."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, assert_never

from agent_fabric.domain.approvals.answers import Decision, OnDoubt, Question
from agent_fabric.domain.approvals.events import ApprovalDecided
from agent_fabric.domain.events import (
    Body,
    BudgetExhausted,
    GuidanceGiven,
    PackFailed,
    RunCompleted,
    RunFailed,
    RunInterrupted,
    RunWaited,
    ToolCalled,
    ToolErred,
    ToolReturned,
)
from agent_fabric.domain.evidence.proofs import RESULT_UNPROVEN
from agent_fabric.domain.ids import LaneId, SpecialistId
from agent_fabric.domain.models.events import PlainAnswerAccepted
from agent_fabric.domain.models.messages import ToolCallRequest
from agent_fabric.domain.plural import count_of
from agent_fabric.domain.runs.actions import (
    Action,
    AskWhatHappened,
    CallModel,
    CallTool,
    Compact,
    LookAtChanges,
    OpenLane,
    Record,
    Recruit,
)
from agent_fabric.domain.runs.context_window import compactable, near_window
from agent_fabric.domain.runs.effects import Effects, Outcome
from agent_fabric.domain.runs.evolve import TOO_MANY_CALLS
from agent_fabric.domain.runs.finish import (
    SentBack,
    doubts_about,
    judge_finish,
    must_be_compared,
    plain_payload,
    said_in_words,
    spoken_payload,
)
from agent_fabric.domain.runs.ledger import APPROVAL_EXPIRED, DENIED, IN_DOUBT
from agent_fabric.domain.runs.merge import merged_payload
from agent_fabric.domain.runs.state import Lane, LanePhase, RunState, effects_of, outcome_of, why_unproven
from agent_fabric.domain.runs.task import RunStatus, TaskForceMode
from agent_fabric.domain.tools.json_schema import problems_with
from agent_fabric.domain.tools.specs import FINISH_TASK, BadArguments, Effect, arguments_from

if TYPE_CHECKING:  # most runs have none
    from agent_fabric.domain.workflows.state import WorkflowState
from collections.abc import Mapping
from zlib import crc32

MAX_TAKEOVERS = 3
"""Times a server may take a run over without achieving anything; then a person must resume it."""
MAX_ASKED_AGAIN = 2
MAX_REPEATS = 2
"""Exact repeats of a call that are answered from memory before the model must finish."""


def decide(state: RunState) -> tuple[Action, ...]:
    """Return what may start now, at most one action for each lane; nothing when the run has settled or must wait."""
    if state.status is not RunStatus.RUNNING or state.task is None or state.unknown_kind:
        return ()
    if state.takeovers >= MAX_TAKEOVERS and not (state.workflow is not None and state.workflow.is_left_to_children):
        reason = f"taken over {count_of(state.takeovers, 'time')} without any progress"
        return (Record(None, (RunInterrupted(reason=reason),)),)
    if state.workflow is not None:
        return _with_effects(state, _workflow_decision()(state.workflow))
    if not state.specialist_ids:
        return (Recruit(),)
    left: list[SpecialistId] = []
    for who in state.specialist_ids:  # a loop calls nothing, and this is asked several times a turn
        lane = state.lanes.get(LaneId(who))
        if who not in state.failed and (lane is None or lane.phase is not LanePhase.DONE):
            left.append(who)
    if not left:
        return _with_effects(state, (Record(None, (_ending(state),)),))
    spent = _spent_budget(state)
    if spent is not None:
        return _with_effects(state, (_out_of_budget(state, spent),))
    if state.task.budget.max_seconds is not None and _out_of_time(state):
        return ()  # nothing more is begun while what is under way comes to its end
    return _actions(state, left) or _wait(state)


def _with_effects(state: RunState, actions: tuple[Action, ...]) -> tuple[Action, ...]:
    """Let the event that ends a run say what it did to the world: who reads no other event is not misled."""
    if not any(isinstance(each, Record) and isinstance(each.bodies[-1], RunCompleted | RunFailed) for each in actions):
        return actions
    effects = effects_of(state)
    outcome = outcome_of(state, effects)
    return tuple(_telling(each, effects, outcome) if isinstance(each, Record) else each for each in actions)


def _telling(record: Record, effects: Effects, outcome: Outcome) -> Record:
    *before, last = record.bodies
    match last:
        case RunCompleted():
            return Record(record.lane, (*before, replace(last, effects=effects or None, outcome=outcome)))
        case RunFailed():
            return Record(record.lane, (*before, replace(last, effects=effects or None)))
        case _:
            return record


@cache
def _workflow_decision() -> "Callable[[WorkflowState], tuple[Action, ...]]":
    # Kept: an import inside a function takes microseconds, and this is asked several times for each step.
    from agent_fabric.domain.workflows.decide import decide_workflow  # noqa: PLC0415 - most runs have none

    return decide_workflow


def _wait(state: RunState) -> tuple[Action, ...]:
    """Leave the run to itself when nothing moves until a person answers."""
    asked = state.asked
    if not asked or _any_in(state, _IN_FLIGHT):
        return ()
    approvals = tuple(each.approval_id for each in asked)
    return (Record(None, (RunWaited(reason="a person has to agree", approvals=approvals),)),)


def _out_of_budget(state: RunState, spent: BudgetExhausted) -> Record:
    limit = f"a cost of {spent.limit:g}," if spent.resource == "cost" else f"{spent.limit:g} {spent.resource}"
    failed = RunFailed(
        code=BUDGET_EXHAUSTED,
        message=f"The run has used its budget of {limit} without finishing",
        hint=_BUDGET_HINTS[spent.resource],
        payload=merged_payload(state) if state.is_task_force else {},
    )
    return Record(None, (spent, failed))


def _ending(state: RunState) -> RunCompleted | RunFailed:
    """Return how a run ends whose specialists are all done; who failed must not go unnoticed, nor hide the others."""
    unproven = {who: why for who in state.specialist_ids if (why := _why_unproven(state, who))}
    if unproven and not state.failed:
        return RunFailed(
            code=RESULT_UNPROVEN,
            message=f"Proof was required, and the result is not proven: {_of_each(state, unproven)}",
            hint="What was done is in the result and in the workspace. Say in the task how it can be checked, or do "
            "not require proof.",
            payload=merged_payload(state),
        )
    if not state.failed:
        return RunCompleted(
            run_id=state.run_id,
            specialist_ids=state.specialist_ids,
            task_force_mode=state.task_force_mode,
            payload=merged_payload(state),
        )
    first = next(state.failed[who] for who in state.specialist_ids if who in state.failed)
    if len(state.failed) == len(state.specialist_ids):
        return RunFailed(code=first.code, message=first.message, hint=first.hint)
    names = ", ".join(who for who in state.specialist_ids if who in state.failed)
    return RunFailed(
        code="task_force_incomplete",
        message=f"Not all specialists finished; {names} failed: {first.message}",
        hint=f"What the others did is in the result and in the workspace. {first.hint}".rstrip(),
        payload=merged_payload(state),
    )


def _why_unproven(state: RunState, who: SpecialistId) -> str:
    lane = state.lanes.get(LaneId(who))
    return "" if lane is None else why_unproven(state, lane)


def _of_each(state: RunState, why: Mapping[SpecialistId, str]) -> str:
    """Return reasons as one text, each with its specialist where there are several."""
    return "; ".join(f"{who}: {each}" if state.is_task_force else each for who, each in why.items())


BUDGET_EXHAUSTED = "budget_exhausted"
_BUDGET_HINTS = {
    "steps": "Allow more with --max-steps, or make the task smaller.",
    "tokens": "Allow more with budget.max_tokens in the configuration, or make the task smaller.",
    "seconds": "Allow more with budget.max_seconds in the configuration, or use a faster model.",
    "cost": "Allow more with --max-cost or budget.max_cost in the configuration, or use a cheaper model.",
}


def _spent_budget(state: RunState) -> BudgetExhausted | None:
    assert state.task is not None
    budget = state.task.budget
    if budget.max_seconds is not None and _out_of_time(state) and not _any_in(state, _IN_FLIGHT):
        return BudgetExhausted(resource="seconds", limit=budget.max_seconds, used=round(state.seconds, 3))
    if not _any_in(state, _MODEL_NEXT):
        return None  # tokens and steps are spent by asking a model; tools that it asked for may still run
    if not state.is_task_force and state.steps >= budget.max_steps:
        return BudgetExhausted(resource="steps", limit=budget.max_steps, used=state.steps)
    if budget.max_tokens is not None and state.tokens >= budget.max_tokens:
        return BudgetExhausted(resource="tokens", limit=budget.max_tokens, used=state.tokens)
    if budget.max_cost is not None and (state.cost or 0.0) >= budget.max_cost:
        return BudgetExhausted(resource="cost", limit=budget.max_cost, used=round(state.cost or 0.0, 6))
    return None


def _out_of_time(state: RunState) -> bool:
    assert state.task is not None
    limit = state.task.budget.max_seconds
    return limit is not None and state.seconds >= limit


_MODEL_NEXT = frozenset({LanePhase.MODEL_DUE, LanePhase.MODEL_IN_DOUBT})
_IN_FLIGHT = frozenset({LanePhase.MODEL_CALLED, LanePhase.TOOL_CALLED})


def _any_in(state: RunState, phases: frozenset[LanePhase]) -> bool:
    for lane in state.lanes.values():  # noqa: SIM110 - a generator costs more, and this is asked several times a round
        if lane.phase in phases:
            return True
    return False


def _actions(state: RunState, left: Sequence[SpecialistId]) -> tuple[Action, ...]:
    actions: list[Action] = []
    for who in left:
        lane = state.lanes.get(LaneId(who))
        action = OpenLane(who, state.specialist_ids.index(who)) if lane is None else _lane_action(state, lane)
        if action is not None:
            actions.append(action)
        if state.task_force_mode is TaskForceMode.SEQUENTIAL:
            break  # the others come after this one
    return tuple(actions)


def given_up(state: RunState, who: SpecialistId, *, code: str, message: str, hint: str) -> RunFailed | PackFailed:
    """Return what it means that a specialist cannot go on: the end of its run, or only of its part in a task force."""
    if state.is_task_force:
        return PackFailed(specialist_id=who, code=code, message=message, hint=hint)
    return RunFailed(code=code, message=message, hint=hint)


def _give_up(state: RunState, lane: Lane, *before: Body, code: str, message: str, hint: str) -> Record:
    failed = given_up(state, lane.specialist_id, code=code, message=message, hint=hint)
    return Record(lane.lane_id if state.is_task_force else None, (*before, failed))


def _lane_action(state: RunState, lane: Lane) -> Action | None:
    match lane.phase:
        case LanePhase.MODEL_DUE | LanePhase.MODEL_IN_DOUBT:
            return _ask_model(state, lane)
        case LanePhase.ANSWERED:
            return _judge_answer(state, lane)
        case LanePhase.TOOLS_DUE:
            return _next_call(state, lane, lane.pending[0])
        case LanePhase.TOOL_IN_DOUBT:
            return _resolve_doubt(lane, lane.pending[0], OnDoubt.ASK if state.task is None else state.task.on_doubt)
        case LanePhase.MODEL_CALLED | LanePhase.TOOL_CALLED | LanePhase.APPROVAL_DUE | LanePhase.DONE:
            return None
        case unknown:
            assert_never(unknown)


def _ask_model(state: RunState, lane: Lane) -> Action:
    assert state.task is not None
    most_steps = state.task.budget.max_steps
    if state.is_task_force and lane.answers >= most_steps:
        spent = BudgetExhausted(resource="steps", limit=most_steps, used=lane.answers)
        message = f"{lane.specialist_id} has used its budget of {count_of(most_steps, 'step')} without finishing"
        return _give_up(state, lane, spent, code=BUDGET_EXHAUSTED, message=message, hint=_BUDGET_HINTS["steps"])
    if lane.must_compact or near_window(lane):
        span = compactable(lane)
        if span is not None:
            return Compact(lane.lane_id, *span)
    delay_s = 0.0
    if lane.last_failure is not None and lane.phase is LanePhase.MODEL_DUE:
        code, message, hint, retry_after_s = lane.last_failure
        spread = f"{state.run_id}/{lane.lane_id}/{lane.current_step}"
        wait_s = delay_before_retry(code, lane.failures, retry_after_s, spread=spread)
        if wait_s is None:
            return _give_up(state, lane, code=code, message=message, hint=hint)
        delay_s = wait_s
    must_finish = lane.repeats >= MAX_REPEATS and not state.talks
    return CallModel(lane.lane_id, lane.attempt + 1, delay_s, must_finish=must_finish)


def _judge_answer(state: RunState, lane: Lane) -> Action:
    """Decide about text without a tool call."""
    assert state.task is not None
    if lane.answer_cut:
        return _ask_for_less(state, lane)
    if lane.answer_problem:
        if not lane.repaired:
            return Record(lane.lane_id, (GuidanceGiven(reason="tool_call_unusable", message=lane.answer_problem),))
        return _give_up(
            state,
            lane,
            code="tool_call_unusable",
            message=f"No call that {lane.model.model!r} tried to make is usable: {lane.answer_problem}",
            hint="`fabric models probe` finds out how this model calls tools; or try another one with --model-key.",
        )
    if not lane.answer.strip():
        if lane.asked_again < MAX_ASKED_AGAIN:
            ending = "answer in words" if state.talks else f"{FINISH_TASK} when the task is done"
            message = f"Your answer was empty. Call one of the tools, or {ending}."
            return Record(lane.lane_id, (GuidanceGiven(reason="empty_answer", message=message),))
        return _give_up(
            state,
            lane,
            code="model_answer_empty",
            message=f"The model {lane.model.model!r} gave an empty answer {lane.asked_again + 1} times in a row",
            hint="Try another model with --model-key, or look at the last answers with `fabric logs show`.",
        )
    if state.talks:
        return Record(lane.lane_id, (PlainAnswerAccepted(payload=spoken_payload(lane, lane.answer.strip())),))
    if lane.idle and lane.asked_again < MAX_ASKED_AGAIN:
        message = f"Do the task with the tools; do not only describe it. When it is done, call {FINISH_TASK}."
        return Record(lane.lane_id, (GuidanceGiven(reason="no_tool_use", message=message),))
    payload = {"summary": lane.answer.strip()} if state.task.agent is None else said_in_words(lane)
    missing = problems_with(payload, lane.finish.parameters) if state.task.agent is not None else ()
    if missing:
        return _ask_for_outputs(state, lane, missing)
    if must_be_compared(state, lane):
        return LookAtChanges(lane.lane_id)
    doubts = doubts_about(state, lane, payload)
    if doubts.ask_for and not lane.sent_back_unproven:
        return Record(lane.lane_id, (GuidanceGiven(reason="unproven", message=doubts.ask_for),))
    return Record(lane.lane_id, (PlainAnswerAccepted(payload=plain_payload(state, lane, payload, doubts)),))


def _ask_for_less(state: RunState, lane: Lane) -> Record:
    """Tell a model that its answer was cut; one that goes on and on is given up."""
    if lane.asked_again < MAX_ASKED_AGAIN:
        return Record(lane.lane_id, (GuidanceGiven(reason="answer_cut", message=lane.answer_problem),))
    most = lane.model.answer_chars
    return _give_up(
        state,
        lane,
        code="model_answer_too_long",
        message=f"The model {lane.model.model!r} gave {count_of(lane.asked_again + 1, 'answer')} in a row that had "
        f"more than {most:,} characters",
        hint="Try another model with --model-key, or allow longer answers with `max_answer_chars` of the model; "
        "`fabric logs show` has how these began.",
    )


def _ask_for_outputs(state: RunState, lane: Lane, missing: Sequence[str]) -> Record:
    """An agent has promised outputs, which others count on: words alone are no result."""
    if lane.asked_again < MAX_ASKED_AGAIN:
        message = f"Give your result by calling {FINISH_TASK}: {'; '.join(missing)}."
        return Record(lane.lane_id, (GuidanceGiven(reason="no_tool_use", message=message),))
    return _give_up(
        state,
        lane,
        code="outputs_missing",
        message=f"The agent {lane.specialist_id!r} gave no result of the declared form: {'; '.join(missing)}",
        hint="Say in its prompts what to give, declare fewer outputs, or try a stronger model with --model-key.",
    )


def _next_call(state: RunState, lane: Lane, call: ToolCallRequest) -> Action:
    if call.tool == FINISH_TASK:
        return LookAtChanges(lane.lane_id) if must_be_compared(state, lane) else _answer_finish(state, lane, call)
    assert state.task is not None
    if lane.calls_answered >= state.task.budget.max_calls_per_turn:
        return _refuse_rest(lane, state.task.budget.max_calls_per_turn)
    if lane.decided is not None and lane.decided.decision is not Decision.APPROVE:
        return _answer_refusal(lane, call, lane.decided)
    if lane.last_call is not None and lane.last_call.is_same(call):
        return _answer_repeat(state, lane, call, lane.last_call.shown, _JUST_NOW)
    if lane.last_changing_call is not None and lane.last_changing_call.is_same(call):
        return _answer_repeat(state, lane, call, lane.last_changing_call.shown, _NOTHING_CHANGED_SINCE)
    return CallTool(lane.lane_id, call, lane.attempt + 1)


def _refuse_rest(lane: Lane, most: int) -> Record:
    """Answer the calls of a turn that are more than it may have, all at once; none of them is run."""
    message = (
        f"Not run: only the first {most} tool calls of an answer are (budget.max_calls_per_turn = {most}). "
        "Look at their results, then make the calls that are still needed."
    )
    bodies: list[Body] = []
    for call in lane.pending:
        if call.tool != FINISH_TASK:
            bodies.append(ToolCalled(tool=call.tool, args=_shown_arguments(call), call_id=call.call_id))
            bodies.append(
                ToolErred(tool=call.tool, error_type=TOO_MANY_CALLS, error_message=message, call_id=call.call_id)
            )
    return Record(lane.lane_id, tuple(bodies))


def _answer_finish(state: RunState, lane: Lane, call: ToolCallRequest) -> Record:
    called = ToolCalled(tool=FINISH_TASK, args=_shown_arguments(call), call_id=call.call_id)
    verdict = judge_finish(state, lane, call)
    if isinstance(verdict, SentBack):
        erred = ToolErred(
            tool=FINISH_TASK, error_type=verdict.error_type, error_message=verdict.message, call_id=call.call_id
        )
        return Record(lane.lane_id, (called, erred))
    returned = ToolReturned(tool=FINISH_TASK, result=verdict.payload, call_id=call.call_id, proved=verdict.proved)
    return Record(lane.lane_id, (called, returned))


_JUST_NOW = "You made exactly this call just now; it was not run again. This is what it gave."
_NOTHING_CHANGED_SINCE = (
    "This is done: you made exactly this call before, and no file has changed since; it was not run again, since that "
    "would change the files once more. This is what it gave."
)


def _answer_repeat(state: RunState, lane: Lane, call: ToolCallRequest, shown: str, note: str) -> Record:
    """Answer an exact repeat with what happened the first time; a model that only repeats itself is stuck."""
    if lane.repeats > MAX_REPEATS:
        return _give_up(
            state,
            lane,
            code="model_repeats_itself",
            message=f"The model {lane.model.model!r} made the same {call.tool} call {lane.repeats + 2} times in a row",
            hint="Try a stronger model with --model-key, or word the task differently.",
        )
    if lane.repeats + 1 >= MAX_REPEATS:
        note += f" Do something else, or {'answer' if state.talks else f'call {FINISH_TASK}'} now."
    called = ToolCalled(tool=call.tool, args=_shown_arguments(call), call_id=call.call_id)
    returned = ToolReturned(tool=call.tool, result={"note": note, "result": shown}, call_id=call.call_id, repeated=True)
    return Record(lane.lane_id, (called, returned))


def _answer_refusal(lane: Lane, call: ToolCallRequest, decided: ApprovalDecided) -> Record:
    """Tell the model that a call was not made, and why."""
    called = ToolCalled(tool=call.tool, args=_shown_arguments(call), call_id=call.call_id)
    if decided.decision is Decision.EXPIRED:
        message = "Nobody agreed to this call in time, so it was not made. Go on without it."
        proposal = lane.asked.subject if lane.asked else call.tool
        kind = APPROVAL_EXPIRED
    else:
        because = f": {decided.reason}" if decided.reason else "."
        message, proposal, kind = f"A person has refused this call{because}", "", DENIED
    erred = ToolErred(tool=call.tool, error_type=kind, error_message=message, call_id=call.call_id, proposal=proposal)
    return Record(lane.lane_id, (called, erred))


def _resolve_doubt(lane: Lane, call: ToolCallRequest, on_doubt: OnDoubt) -> Action:
    """Go on after a crash in the middle of a call: look again, but never change anything twice by ourselves."""
    if lane.began_outside:
        return _resolve_outside_doubt(lane, call, on_doubt)
    spec = lane.tools.get(call.tool)
    if spec is None or spec.effect in (Effect.READS, Effect.IDEMPOTENT):
        return CallTool(lane.lane_id, call, lane.attempt + 1)
    if spec.effect is Effect.LEAVES_SANDBOX:
        return _resolve_outside_doubt(lane, call, on_doubt)
    message = (
        "The program was stopped while this call ran, so it may have happened, wholly or in part. "
        "Check what is there before you repeat it."
    )
    return _leave_in_doubt(lane, call, message, changed=True)


def _leave_in_doubt(lane: Lane, call: ToolCallRequest, message: str, *, changed: bool = False) -> Record:
    erred = ToolErred(tool=call.tool, error_type=IN_DOUBT, error_message=message, call_id=call.call_id, changed=changed)
    return Record(lane.lane_id, (erred,))


def _resolve_outside_doubt(lane: Lane, call: ToolCallRequest, on_doubt: OnDoubt) -> Action:
    """What may have reached the world outside is for a person to judge, or is left as it is if the task says so."""
    decided = lane.decided if lane.asked and lane.asked.question is Question.DID_IT_HAPPEN else None
    if decided is None and on_doubt is OnDoubt.SKIP:
        message = "The program was stopped during it, so it may have happened. It is left as it is: on_doubt is skip."
        return _leave_in_doubt(lane, call, message)
    if decided is None:
        return AskWhatHappened(lane.lane_id, call)
    match decided.decision:
        case Decision.APPROVE:
            return CallTool(lane.lane_id, call, lane.attempt + 1)
        case Decision.DONE:
            note = "The program was stopped during this call. A person has looked: it did happen."
            result = {"note": note, "said_by_person": decided.reason} if decided.reason else {"note": note}
            return Record(lane.lane_id, (ToolReturned(tool=call.tool, result=result, call_id=call.call_id),))
        case Decision.DENY | Decision.EXPIRED:
            message = f"The program was stopped during it. It is left as it is. {decided.reason}".strip()
            return _leave_in_doubt(lane, call, message)
        case unknown:
            assert_never(unknown)


def _shown_arguments(call: ToolCallRequest) -> dict[str, object]:
    try:
        return arguments_from(call.arguments)
    except BadArguments:
        return {"unparsed": call.arguments}


MAX_RETRY_AFTER_S = 60.0
"""A server that asks for more patience than this is treated as out of service."""
_SHORTEST_SHARE = 0.5
"""Of a delay of ours, what is waited at least; never more than all of it, so that the longest wait stays known."""
_LONGER_SHARE = 0.2
"""Of a delay that a server asked for, what is waited at most in addition; never less than it asked for."""

_DELAYS_S: Mapping[str, tuple[float, ...]] = {
    # Together with the time to connect, an unreachable server is reported within 15 seconds.
    "model_unreachable": (0.5, 1.0, 2.0),
    "model_busy": (1.0, 2.0, 4.0, 8.0),
    "model_timed_out": (0.0,),
    "model_answer_unusable": (0.2, 0.5),
    # Tried again once the conversation has been made shorter.
    "context_exceeded": (),
}


def delay_before_retry(code: str, failures: int, retry_after_s: float | None, *, spread: str) -> float | None:
    """Return how long to wait after `failures` failed attempts, or None to give up.

    `spread` names the call. Calls that failed together come back at different moments, yet the same call always gets
    the same delay, so that a run which is decided again is decided alike.
    """
    delays = _DELAYS_S.get(code, ())
    if failures > len(delays):
        return None
    share = _between_0_and_1(f"{spread}/{failures}")
    if retry_after_s is None:
        return round(delays[failures - 1] * (1 - (1 - _SHORTEST_SHARE) * share), 3)
    if retry_after_s > MAX_RETRY_AFTER_S:
        return None
    return max(retry_after_s, round(retry_after_s * (1 + _LONGER_SHARE * share), 3), 0.0)


def _between_0_and_1(text: str) -> float:
    return crc32(text.encode("utf-8", "replace")) / 0xFFFF_FFFF
