"""What happens next: pure. Given the same state, always the same actions."""

from collections.abc import Iterator
from typing import assert_never

from agent_fabric.domain.events import (
    BudgetExhausted,
    GuidanceGiven,
    PlainAnswerAccepted,
    RunCompleted,
    RunFailed,
    RunInterrupted,
    ToolCalled,
    ToolErred,
    ToolReturned,
)
from agent_fabric.domain.messages import ToolCallRequest
from agent_fabric.domain.runs.actions import Action, CallModel, CallTool, Compact, OpenLane, Record, Recruit
from agent_fabric.domain.runs.compaction import compactable, near_window
from agent_fabric.domain.runs.evolve import IN_DOUBT
from agent_fabric.domain.runs.finish import HOW_TO_PROVE, SentBack, judge_finish, lacks_proof, plain_payload
from agent_fabric.domain.runs.retries import delay_before_retry
from agent_fabric.domain.runs.state import Lane, Phase, RunState
from agent_fabric.domain.runs.task import Profile, RunStatus
from agent_fabric.domain.tools import FINISH_TASK, BadArguments, Effect, arguments_from

MOST_TAKEOVERS = 3
"""Times a server may take a run over without achieving anything; then a person must resume it."""
MOST_ASKED_AGAIN = 2
MOST_REPEATS = 2
"""Exact repeats of a call that are answered from memory before the model must finish."""


def decide(state: RunState) -> tuple[Action, ...]:
    """Return what may start now, at most one action for each lane; nothing when the run has settled or must wait."""
    if state.status is not RunStatus.RUNNING or state.task is None or state.unknown_kind:
        return ()
    if state.takeovers >= MOST_TAKEOVERS:
        return (Record(None, (RunInterrupted(reason=f"taken over {state.takeovers} times without any progress"),)),)
    if not state.specialist_ids:
        return (Recruit(),)
    return _settle(state) or tuple(_actions(state))


def _settle(state: RunState) -> tuple[Action, ...]:
    """End the run when all specialists are done or the budget is spent."""
    lanes = state.lanes.values()
    if len(lanes) == len(state.specialist_ids) and _all_done(state):
        return (
            Record(
                None,
                (
                    RunCompleted(
                        run_id=state.run_id,
                        specialist_ids=state.specialist_ids,
                        task_force_mode=state.task_force_mode,
                        payload=list(lanes)[-1].payload or {},
                    ),
                ),
            ),
        )
    spent = _spent_budget(state)
    if spent is None:
        return ()
    failed = RunFailed(
        code="budget_exhausted",
        message=f"The run has used its budget of {spent.limit:g} {spent.resource} without finishing",
        hint=_BUDGET_HINTS[spent.resource],
    )
    return (Record(None, (spent, failed)),)


_BUDGET_HINTS = {
    "steps": "Allow more with --max-steps, or make the task smaller.",
    "tokens": "Allow more with budget.max_tokens in the configuration, or make the task smaller.",
    "seconds": "Allow more with budget.max_seconds in the configuration, or use a faster model.",
}


def _spent_budget(state: RunState) -> BudgetExhausted | None:
    assert state.task is not None
    budget = state.task.budget
    if budget.max_seconds is not None and state.seconds >= budget.max_seconds and not _any_in(state, _IN_FLIGHT):
        return BudgetExhausted(resource="seconds", limit=budget.max_seconds, used=round(state.seconds, 3))
    if not _any_in(state, _MODEL_NEXT):
        return None  # steps and tokens are spent by asking a model; tools that it asked for may still run
    if state.steps >= budget.max_steps:
        return BudgetExhausted(resource="steps", limit=budget.max_steps, used=state.steps)
    if budget.max_tokens is not None and state.tokens >= budget.max_tokens:
        return BudgetExhausted(resource="tokens", limit=budget.max_tokens, used=state.tokens)
    return None


_MODEL_NEXT = frozenset({Phase.MODEL_DUE, Phase.MODEL_IN_DOUBT})
_IN_FLIGHT = frozenset({Phase.MODEL_CALLED, Phase.TOOL_CALLED})


def _any_in(state: RunState, phases: frozenset[Phase]) -> bool:
    return any(lane.phase in phases for lane in state.lanes.values())


def _all_done(state: RunState) -> bool:
    return all(lane.phase is Phase.DONE for lane in state.lanes.values())


def _actions(state: RunState) -> Iterator[Action]:
    lanes = state.lanes.values()
    for lane in lanes:
        action = _lane_action(state, lane)
        if action is not None:
            yield action
    if len(lanes) < len(state.specialist_ids) and _all_done(state):
        yield OpenLane(state.specialist_ids[len(lanes)], len(lanes))


def _lane_action(state: RunState, lane: Lane) -> Action | None:
    match lane.phase:
        case Phase.MODEL_DUE | Phase.MODEL_IN_DOUBT:
            return _ask_model(lane)
        case Phase.ANSWERED:
            return _judge_answer(state, lane)
        case Phase.TOOLS_DUE:
            return _next_call(lane, lane.pending[0])
        case Phase.TOOL_IN_DOUBT:
            return _resolve_doubt(lane, lane.pending[0])
        case Phase.MODEL_CALLED | Phase.TOOL_CALLED | Phase.DONE:
            return None
        case unknown:
            assert_never(unknown)


def _ask_model(lane: Lane) -> Action:
    if lane.must_compact or near_window(lane):
        span = compactable(lane)
        if span is not None:
            return Compact(lane.lane_id, *span)
    delay_s = 0.0
    if lane.last_failure is not None and lane.phase is Phase.MODEL_DUE:
        code, message, hint, retry_after_s = lane.last_failure
        wait_s = delay_before_retry(code, lane.failures, retry_after_s)
        if wait_s is None:
            return Record(None, (RunFailed(code=code, message=message, hint=hint),))
        delay_s = wait_s
    return CallModel(lane.lane_id, lane.attempt + 1, delay_s, must_finish=lane.repeats >= MOST_REPEATS)


def _judge_answer(state: RunState, lane: Lane) -> Record:
    """Decide about text without a tool call."""
    assert state.task is not None
    if not lane.answer.strip():
        if lane.asked_again < MOST_ASKED_AGAIN:
            message = f"Your answer was empty. Call one of the tools, or {FINISH_TASK} when the task is done."
            return Record(lane.lane_id, (GuidanceGiven(reason="empty_answer", message=message),))
        failed = RunFailed(
            code="model_answer_empty",
            message=f"The model {lane.model.model!r} gave an empty answer {lane.asked_again + 1} times in a row",
            hint="Try another model with --model-key, or look at the last answers with `fabric logs show`.",
        )
        return Record(None, (failed,))
    if state.task.profile is Profile.CHAT:
        return Record(lane.lane_id, (PlainAnswerAccepted(payload={"summary": lane.answer.strip()}),))
    if not lane.worked and lane.asked_again < MOST_ASKED_AGAIN:
        message = f"Do the task with the tools; do not only describe it. When it is done, call {FINISH_TASK}."
        return Record(lane.lane_id, (GuidanceGiven(reason="no_tool_use", message=message),))
    if lacks_proof(lane) and not lane.sent_back_unproven:
        message = f"You changed files but nothing shows that they work. {HOW_TO_PROVE}"
        return Record(lane.lane_id, (GuidanceGiven(reason="unproven", message=message),))
    return Record(lane.lane_id, (PlainAnswerAccepted(payload=plain_payload(lane)),))


def _next_call(lane: Lane, call: ToolCallRequest) -> Action:
    if call.tool == FINISH_TASK:
        return _answer_finish(lane, call)
    last = lane.last_call
    if last is not None and (last.tool, last.arguments) == (call.tool, call.arguments):
        return _answer_repeat(lane, call, last.shown)
    return CallTool(lane.lane_id, call, lane.attempt + 1)


def _answer_finish(lane: Lane, call: ToolCallRequest) -> Record:
    called = ToolCalled(tool=FINISH_TASK, args=_shown_arguments(call), call_id=call.call_id)
    verdict = judge_finish(lane, call)
    if isinstance(verdict, SentBack):
        erred = ToolErred(
            tool=FINISH_TASK, error_type=verdict.error_type, error_message=verdict.message, call_id=call.call_id
        )
        return Record(lane.lane_id, (called, erred))
    returned = ToolReturned(tool=FINISH_TASK, result=verdict.payload, call_id=call.call_id)
    return Record(lane.lane_id, (called, returned))


def _answer_repeat(lane: Lane, call: ToolCallRequest, shown: str) -> Record:
    """Answer an exact repeat with what happened the first time; a model that only repeats itself is stuck."""
    if lane.repeats > MOST_REPEATS:
        failed = RunFailed(
            code="model_repeats_itself",
            message=f"The model {lane.model.model!r} made the same {call.tool} call {lane.repeats + 2} times in a row",
            hint="Try a stronger model with --model-key, or word the task differently.",
        )
        return Record(None, (failed,))
    note = "You made exactly this call just now; it was not run again. This is what it gave."
    if lane.repeats + 1 >= MOST_REPEATS:
        note += f" Do something else, or call {FINISH_TASK} now."
    called = ToolCalled(tool=call.tool, args=_shown_arguments(call), call_id=call.call_id)
    returned = ToolReturned(tool=call.tool, result={"note": note, "result": shown}, call_id=call.call_id, repeated=True)
    return Record(lane.lane_id, (called, returned))


def _resolve_doubt(lane: Lane, call: ToolCallRequest) -> Action:
    """Go on after a crash in the middle of a call: look again, but never change anything twice by ourselves."""
    spec = lane.tools.get(call.tool)
    if spec is None or spec.effect in (Effect.READS, Effect.IDEMPOTENT):
        return CallTool(lane.lane_id, call, lane.attempt + 1)
    erred = ToolErred(
        tool=call.tool,
        error_type=IN_DOUBT,
        error_message=(
            "The program was stopped while this call ran, so it may have happened, wholly or in part. "
            "Check what is there before you repeat it."
        ),
        call_id=call.call_id,
        changed=True,
    )
    return Record(lane.lane_id, (erred,))


def _shown_arguments(call: ToolCallRequest) -> dict[str, object]:
    try:
        return arguments_from(call.arguments)
    except BadArguments:
        return {"unparsed": call.arguments}
