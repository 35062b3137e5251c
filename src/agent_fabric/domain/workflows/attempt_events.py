"""The result of an attempt at a step, and the event that it becomes: finished, or retried."""

import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from agent_fabric.domain.approvals.answers import Decision, Question
from agent_fabric.domain.approvals.events import ApprovalDecided
from agent_fabric.domain.events import ToolErred, ToolReturned
from agent_fabric.domain.ids import LaneId
from agent_fabric.domain.tools.json_schema import problems_with
from agent_fabric.domain.workflows.definition import BuiltIn
from agent_fabric.domain.workflows.events import (
    ChildFinished,
    SignalReceived,
    StepFinished,
    StepRetried,
    StepStatus,
    TimerFired,
)
from agent_fabric.domain.workflows.plan import StepKind
from agent_fabric.domain.workflows.scheduling import CANCELLED, in_cancelled_container
from agent_fabric.domain.workflows.scope import ExpressionError, StepScope, describe_error, reads_of, resolve
from agent_fabric.domain.workflows.state import Block, StepPhase, StepState, WorkflowState

DENIED: Final = "Denied"
APPROVAL_EXPIRED: Final = "ApprovalExpired"
EXPRESSION_ERROR: Final = "ExpressionError"
NOT_RETRIED: Final = frozenset(
    {DENIED, APPROVAL_EXPIRED, EXPRESSION_ERROR, CANCELLED, "PermissionError", "InvalidForm", "ValidationError"}
)
"""Error types that are not retried."""


class AttemptResult(NamedTuple):
    """The result of one attempt at a step."""

    status: StepStatus
    outputs: Mapping[str, Any] = {}
    error: str = ""
    error_type: str = ""
    whole: bool = False
    """The step's declared `outputs` are not computed: there is no tool result."""


def failure(error_type: str, error: str, outputs: Mapping[str, Any] | None = None) -> AttemptResult:
    """Return the result of a failed attempt."""
    return AttemptResult(StepStatus.FAILED, outputs or {}, error, error_type)


def success(outputs: Mapping[str, Any]) -> AttemptResult:
    """Return the result of a successful attempt."""
    return AttemptResult(StepStatus.SUCCESS, outputs)


_MAX_SHOWN = 500
_FIRST_ERROR_STATUS = 400


def end_event(
    wf: WorkflowState, step: StepState, verdict: AttemptResult, attempt: int | None = None
) -> StepFinished | StepRetried:
    """Return the event that ends an attempt: the step finished, or it is retried."""
    attempt = step.attempt if attempt is None else attempt
    declared = step.node.step
    reads: Mapping[str, tuple[str, ...]] = {}
    if verdict.status is StepStatus.SUCCESS and declared.outputs and not verdict.whole:
        scope = StepScope(wf, step, {"result": verdict.outputs})
        try:
            more = {name: resolve(each, scope) for name, each in declared.outputs.items()}
        except ExpressionError as problem:
            verdict = failure(EXPRESSION_ERROR, f"outputs: {describe_error(problem)}", verdict.outputs)
        else:
            verdict = success({**verdict.outputs, **more})
            reads = reads_of(declared.outputs)
    if verdict.status is StepStatus.FAILED and _may_retry(wf, step, verdict.error_type, attempt):
        return StepRetried(
            step_id=declared.id,
            attempt=attempt,
            error=verdict.error,
            error_type=verdict.error_type,
            delay_s=declared.retry.delay_after(attempt),
        )
    return StepFinished(
        step_id=declared.id,
        attempt=attempt,
        status=verdict.status,
        outputs=verdict.outputs,
        error=verdict.error,
        error_type=verdict.error_type,
        reads=reads,
    )


def _may_retry(wf: WorkflowState, step: StepState, error_type: str, attempt: int) -> bool:
    retry = step.node.step.retry
    if attempt >= retry.max_attempts or error_type in NOT_RETRIED or not step.node.takes_slot:
        return False
    if wf.halted or (retry.on and error_type not in retry.on):
        return False
    return not in_cancelled_container(step)


def result_of_attempt(wf: WorkflowState, step: StepState) -> AttemptResult:
    """Return the result of an attempt whose outcome is known."""
    if step.node.kind is StepKind.CONTAINER:
        return result_of_container(wf, step)
    match step.outcome:
        case ToolReturned() as body:
            return _tool_result(step, body)
        case ToolErred() as body:
            return failure(body.error_type, body.error_message)
        case ChildFinished() as body:
            return _child_result(step, body)
        case ApprovalDecided() as body:
            return _answer_result(step, body)
        case SignalReceived() as body:
            return success({"waited_for": "event", "data": dict(body.data), "by": body.by})
        case TimerFired(purpose="wait"):
            return success({"waited_for": "until" if "until" in step.inputs else "seconds"})
        case TimerFired():
            return failure("TimeoutError", _timeout_message(step))
        case None:
            return _cancelled_result(step)


def _cancelled_result(step: StepState) -> AttemptResult:
    return failure(CANCELLED, f"was ended because {step.reason}" if step.reason else "was ended")


def _timeout_message(step: StepState) -> str:
    limit = step.inputs.get("timeout") if step.node.kind in (StepKind.WAIT, StepKind.PERSON) else None
    limit = step.node.step.timeout_s if limit is None else limit
    return f"took longer than {limit:g} s" if isinstance(limit, int | float) else "took too long"


def _tool_result(step: StepState, body: ToolReturned) -> AttemptResult:
    result = _whole_result(body)
    match step.node.step.action:
        case BuiltIn.RUN_COMMAND:
            return _command_result(step, result)
        case BuiltIn.HTTP_REQUEST:
            return _http_result(step, result)
        case _:
            return success(result)


def _whole_result(body: ToolReturned) -> Mapping[str, Any]:
    """Return the whole result of a tool, of which the conversation may hold only a part."""
    if body.whole:
        try:
            whole = json.loads(body.whole)
        except ValueError:
            return body.result
        if isinstance(whole, dict):
            return whole
    return body.result


def _command_result(step: StepState, result: Mapping[str, Any]) -> AttemptResult:
    code = result.get("exit_code", 0)
    outputs = {"exit_code": code, "stdout": result.get("stdout", ""), "stderr": result.get("stderr", "")}
    if result.get("stdout_dropped") or result.get("stderr_dropped"):
        outputs["truncated"] = True
    if result.get("timed_out"):
        return failure("TimeoutError", f"the command took too long. {result.get('hint', '')}".rstrip(), outputs)
    accepted = step.inputs.get("accept_exit_codes")
    if code != 0 and not (isinstance(accepted, list | tuple) and code in accepted):
        describe_error = str(outputs["stderr"] or outputs["stdout"]).strip()[-_MAX_SHOWN:]
        return failure("CommandFailed", f"exit code {code}{': ' if describe_error else ''}{describe_error}", outputs)
    return success(outputs)


def _http_result(step: StepState, result: Mapping[str, Any]) -> AttemptResult:
    status = result.get("status", 0)
    accepted = step.inputs.get("accept_status")
    accepted = accepted if isinstance(accepted, list | tuple) else [accepted]
    if isinstance(status, int) and status >= _FIRST_ERROR_STATUS and status not in accepted:
        where = step.inputs.get("url", "the server")
        return failure("HttpError", f"{where} answered {status}", result)
    return success(result)


def _child_result(step: StepState, body: ChildFinished) -> AttemptResult:
    if body.run_status != "completed":
        kind = body.error_type or (CANCELLED if body.run_status == "cancelled" else "ChildFailed")
        return failure(kind, body.error or f"its run {body.child_run_id} ended as {body.run_status}", body.payload)
    payload = body.payload
    if step.node.step.action == BuiltIn.WORKFLOW and "step_results" in payload and "steps_executed" in payload:
        given = payload["result"] if "result" in payload else payload.get("outputs")
        return success(given if isinstance(given, Mapping) else {})
    return success(payload)


def _answer_result(step: StepState, body: ApprovalDecided) -> AttemptResult:
    if step.node.kind is StepKind.PERSON:
        return _form_result(step, body)
    in_doubt = step.asked is not None and step.asked.question is Question.DID_IT_HAPPEN
    because = f": {body.reason}" if body.reason else ""
    match body.decision:
        case Decision.EXPIRED:
            return failure(APPROVAL_EXPIRED, "no answer came in time")
        case Decision.DONE if in_doubt:
            counted = {"counted_as_done": True, "by": body.by, "reason": body.reason}
            return AttemptResult(StepStatus.SUCCESS, counted, whole=True)
        case _ if in_doubt:
            return AttemptResult(
                StepStatus.SKIPPED, error=f"skipped by {body.by} after the program was stopped{because}"
            )
        case _:
            return failure(DENIED, f"refused by {body.by}{because}")


def _form_result(step: StepState, body: ApprovalDecided) -> AttemptResult:
    approved = body.decision is Decision.APPROVE
    optional = step.inputs.get("required") is False
    if not approved and not optional:
        if body.decision is Decision.EXPIRED:
            return failure(APPROVAL_EXPIRED, "no answer came in time")
        return failure(DENIED, f"refused by {body.by}{f': {body.reason}' if body.reason else ''}")
    outputs: dict[str, Any] = {"approved": approved, "by": body.by, "reason": body.reason}
    if step.node.step.action == BuiltIn.WAIT:
        return success({"waited_for": "approval", **outputs})
    filled = dict(body.args or {})
    schema = step.inputs.get("form")
    if approved and isinstance(schema, Mapping) and schema:
        problems = problems_with({"form": filled}, {"properties": {"form": form_schema(schema)}})
        if problems:
            return failure("InvalidForm", "; ".join(problems), {**outputs, "form": filled})
    return success({**outputs, "form": filled})


def form_schema(form: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the JSON schema of a form, which is written as a schema or as fields by name."""
    if isinstance(form.get("type"), str) or "properties" in form:
        return form
    fields = {name: {"type": each} if isinstance(each, str) else each for name, each in form.items()}
    required = [name for name, each in fields.items() if isinstance(each, Mapping) and each.get("required") is True]
    plain = {name: _without_required(each) for name, each in fields.items()}
    return {"type": "object", "properties": plain, **({"required": required} if required else {})}


def _without_required(field: Any) -> Any:
    if not isinstance(field, Mapping) or not isinstance(field.get("required"), bool):
        return field
    return {name: value for name, value in field.items() if name != "required"}


def settled_event(wf: WorkflowState, step: StepState) -> StepFinished | StepRetried:
    """Return the event that ends an attempt whose outcome is known, or that is being stopped."""
    if step.phase is StepPhase.STOPPING and step.outcome is None:
        return end_event(wf, step, _cancelled_result(step))
    return end_event(wf, step, result_of_attempt(wf, step))


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
