"""Starts a step: its condition, its inputs, and the action that does its work."""

import json
import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final, assert_never

from agent_fabric.domain.ids import CallId
from agent_fabric.domain.models.messages import ToolCallRequest
from agent_fabric.domain.runs.actions import Record
from agent_fabric.domain.tools.json_schema import faults_in_schema, problems_with
from agent_fabric.domain.workflows.actions import AskPerson, CallStepTool, RunChild, StepAction
from agent_fabric.domain.workflows.attempt_events import EXPRESSION_ERROR, end_event, failure, form_schema, success
from agent_fabric.domain.workflows.child_run_ids import child_run_id
from agent_fabric.domain.workflows.command_line import command_text, shell_line
from agent_fabric.domain.workflows.definition import DEFAULT_MOST_ITEMS, BuiltIn, Step
from agent_fabric.domain.workflows.events import StepFinished, StepStarted, StepStatus, StepWaited
from agent_fabric.domain.workflows.plan import PlanNode, StepKind
from agent_fabric.domain.workflows.scheduling import broken_by
from agent_fabric.domain.workflows.scope import ExpressionError, StepScope, describe_error, holds, reads_of, resolve
from agent_fabric.domain.workflows.state import StepState, WorkflowState

_TOOLS: Final = {
    BuiltIn.RUN_COMMAND.value: "shell",
    BuiltIn.HTTP_REQUEST.value: "http_request",
    BuiltIn.READ_FILE.value: "read_file",
    BuiltIn.WRITE_FILE.value: "write_file",
    BuiltIn.SEARCH_MEMORY.value: "memory_search",
    BuiltIn.PROPOSE_FACT.value: "remember",
    BuiltIn.SEND_MESSAGE.value: "send_message",
}
_MAX_SECONDS: Final = 100 * 366 * 86_400
"""Longest wait: a hundred years."""
_MAX_TIMESTAMP: Final = 253_402_300_799
"""The end of the year 9999. A larger number most likely counts milliseconds."""
_MAX_SHOWN: Final = 60
_NOT_FOR_THE_TOOL: Final = frozenset({"accept_status"})


def start_step(wf: WorkflowState, step: StepState) -> Record | StepAction:
    """Return the first action of a step; a step whose condition is false or whose dependency failed is skipped."""
    declared = step.node.step
    blamed = broken_by(step)
    if blamed:
        return _skip(step, f"needs {blamed!r}, which failed")
    attempt = step.attempt + 1
    try:
        scope = StepScope(wf, step)
        if attempt == 1:
            if declared.condition and declared.action != BuiltIn.CONDITIONAL and not holds(declared.condition, scope):
                return _skip(step, "")
            inputs: Mapping[str, Any] = inputs_of(declared, scope)
        else:
            inputs = step.inputs
    except ExpressionError as problem:
        started = _start(step, attempt, {})
        return Record(
            step.lane, (started, end_event(wf, step, failure(EXPRESSION_ERROR, describe_error(problem)), attempt))
        )
    child = child_run_id(wf.run_id, step.lane, attempt) if step.node.kind is StepKind.CHILD else None
    return _work_action(wf, step, inputs, attempt, _start(step, attempt, inputs, child))


def continue_step(wf: WorkflowState, step: StepState) -> Record | StepAction:
    """Return the action of a step whose start was recorded when the process ended."""
    return _work_action(wf, step, step.inputs, step.attempt, None)


def _skip(step: StepState, why: str) -> Record:
    body = StepFinished(step_id=step.node.step.id, attempt=step.attempt, status=StepStatus.SKIPPED, error=why)
    return Record(step.lane, (body,))


def _start(step: StepState, attempt: int, inputs: Mapping[str, Any], child: Any = None) -> StepStarted:
    declared = step.node.step
    return StepStarted(
        step_id=declared.id,
        action=declared.action,
        attempt=attempt,
        inputs=inputs,
        reads=_reads(step.node),
        child_run_id=child,
    )


def _reads(node: PlanNode) -> dict[str, tuple[str, ...]]:
    if node.reads is not None:
        return node.reads
    step = node.step
    reads = reads_of(step.inputs) if step.inputs else {}
    if step.command:
        reads |= reads_of({"command": step.command})
    if step.condition:
        reads |= reads_of({"condition": step.condition}, bare=True)
    node.reads = reads
    return reads


def inputs_of(step: Step, scope: Mapping[str, Any]) -> dict[str, Any]:
    """Return a step's inputs with their values.

    Raises:
        ExpressionError: an input has no value, or one of the wrong type.
    """
    match step.action:
        case BuiltIn.CONDITIONAL:
            chosen = "then" if holds(step.condition, scope) else "else"
            there = step.then if chosen == "then" else step.otherwise
            return {"branch": chosen if there else "none"}
        case BuiltIn.VALIDATE:
            rules = step.inputs.get("rules")
            given = {name: value for name, value in step.inputs.items() if name != "rules"}
            inputs: dict[str, Any] = _resolve(given, scope)
            return inputs if rules is None else {**inputs, "rules": rules}
        case BuiltIn.RUN_COMMAND:
            return {**_resolve(step.inputs, scope), "command": command_text(step.command, scope)}
        case BuiltIn.FOR_EACH:
            return _items(_resolve(step.inputs, scope))
        case _:
            return _resolve(step.inputs, scope)


def _resolve(inputs: Mapping[str, Any], scope: Mapping[str, Any]) -> dict[str, Any]:
    resolved: dict[str, Any] = {}
    for name, value in inputs.items():
        try:
            resolved[name] = resolve(value, scope)
        except ExpressionError as problem:
            raise ExpressionError(f"{name}: {problem}", hint=problem.hint, missing=problem.missing) from None
    return resolved


def _items(inputs: dict[str, Any]) -> dict[str, Any]:
    items = inputs.get("items")
    if not isinstance(items, list | tuple):
        raise ExpressionError(f"items must be a list, not {type(items).__name__}")
    most = inputs.get("max_items")
    most = most if isinstance(most, int) and not isinstance(most, bool) else DEFAULT_MOST_ITEMS
    if len(items) > most:
        raise ExpressionError(f"items has {len(items)} entries; at most {most} are taken (see max_items)")
    return inputs


def _work_action(
    wf: WorkflowState, step: StepState, inputs: Mapping[str, Any], attempt: int, started: StepStarted | None
) -> Record | StepAction:
    """Return the action that does a step's work; `started` is recorded with it unless it has been."""
    before = () if started is None else (started,)
    try:
        match step.node.kind:
            case StepKind.PURE:
                return Record(step.lane, (*before, end_event(wf, step, _compute(wf, step, inputs), attempt)))
            case StepKind.CONTAINER:
                return Record(step.lane, before)
            case StepKind.WAIT:
                return Record(step.lane, (*before, _wait_event(step.node.step, inputs, attempt)))
            case StepKind.PERSON:
                return _question(step, inputs, started)
            case StepKind.TOOL:
                call = tool_call(step, inputs, attempt)
                return CallStepTool(step.lane, step.node.step, call, attempt, started)
            case StepKind.CHILD:
                return child_action(wf, step, inputs, attempt, started)
            case unknown:
                assert_never(unknown)
    except ExpressionError as problem:
        return Record(
            step.lane, (*before, end_event(wf, step, failure(EXPRESSION_ERROR, describe_error(problem)), attempt))
        )


def _compute(wf: WorkflowState, step: StepState, inputs: Mapping[str, Any]) -> Any:
    if step.node.step.action == BuiltIn.TRANSFORM:
        return success(inputs)
    data = inputs.get("data")
    problems: list[str] = []
    schema = inputs.get("schema")
    if schema is not None:
        _require_valid_schema("schema", schema)
        problems += problems_with({"data": data}, {"properties": {"data": schema}})
    scope = StepScope(wf, step, inputs)
    rules = inputs.get("rules") or ()
    for rule in rules if isinstance(rules, list | tuple) else [rules]:
        text, message = (rule.get("rule", ""), rule.get("message", "")) if isinstance(rule, Mapping) else (rule, "")
        try:
            if not holds(str(text), scope):
                problems.append(str(message or f"{text} does not hold"))
        except ExpressionError as problem:
            if not problems:
                raise  # a rule that cannot be read is no verdict on the data
            problems.append(f"{text}: {describe_error(problem)}")
    if problems:
        return failure("ValidationError", "; ".join(problems))
    return success(inputs)


def _require_valid_schema(name: str, schema: Any) -> None:
    """Refuse a schema with keywords that the validator would ignore."""
    for path, wrong in faults_in_schema(schema):
        raise ExpressionError(f"{'.'.join(map(str, (name, *path)))} {wrong}")


def _wait_event(step: Step, inputs: Mapping[str, Any], attempt: int) -> StepWaited:
    until, seconds, event = inputs.get("until"), inputs.get("seconds"), inputs.get("event")
    timeout = inputs.get("timeout", step.timeout_s)
    return StepWaited(
        step_id=step.id,
        attempt=attempt,
        seconds=None if seconds is None else _number("seconds", seconds),
        until=None if until is None else _timestamp(until),
        event="" if event is None else str(event),
        timeout_s=None if timeout is None else _number("timeout", timeout),
    )


def _number(name: str, value: Any, most: float = _MAX_SECONDS) -> float:
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not 0 <= number <= most:
        raise ExpressionError(f"{name} must be a number from 0 to {most:.0f}, not {_shorten(value)}")
    return number


def _shorten(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}…"


def _timestamp(value: Any) -> float:
    """Return a timestamp given as seconds since 1970 or as ISO 8601; without a zone it is UTC."""
    if isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value.strip())
            return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
        except (ValueError, OverflowError):
            pass
    try:
        return _number("until", value, _MAX_TIMESTAMP)
    except ExpressionError:
        raise ExpressionError(
            f"until must be a moment, not {_shorten(value)}",
            hint="Write 2026-12-24T18:00:00Z, or seconds since 1970.",
        ) from None


def _question(step: StepState, inputs: Mapping[str, Any], started: StepStarted | None) -> AskPerson:
    declared = step.node.step
    message = inputs.get("approval") if declared.action == BuiltIn.WAIT else inputs.get("message")
    form = inputs.get("form") or {}
    schema = form_schema(form) if form and isinstance(form, Mapping) else form
    if not _is_form_schema(schema):
        raise ExpressionError("form must be a JSON schema, or fields by name with their types")
    if schema:
        _require_valid_schema("form", schema)
    timeout = inputs.get("timeout", declared.timeout_s)
    return AskPerson(
        lane=step.lane,
        step=declared,
        started=started,
        message=message
        if isinstance(message, str) and message
        else declared.description or f"May {declared.id} go on?",
        form=schema,
        timeout_s=None if timeout is None else _number("timeout", timeout),
    )


def _is_form_schema(schema: Any) -> bool:
    """Tell whether a form is a usable object schema; expressions may have produced it."""
    if not isinstance(schema, Mapping):
        return False
    fields = schema.get("properties", {})
    return (
        isinstance(fields, Mapping)
        and all(isinstance(field, Mapping) for field in fields.values())
        and isinstance(schema.get("required", []), list | tuple)
    )


def tool_call(step: StepState, inputs: Mapping[str, Any], attempt: int) -> ToolCallRequest:
    """Return the tool call of one attempt.

    Raises:
        ExpressionError: the inputs do not make a call.
    """
    action = step.node.step.action
    if action == BuiltIn.RUN_COMMAND:
        arguments: Mapping[str, Any] = {"command": shell_line(inputs)}
    elif action == BuiltIn.HTTP_REQUEST:
        arguments = {name: value for name, value in inputs.items() if name not in _NOT_FOR_THE_TOOL}
    else:
        arguments = inputs
    text = json.dumps(arguments, ensure_ascii=False, default=str)
    return ToolCallRequest(CallId(f"{step.lane}#{attempt}"), _TOOLS.get(action, action), text)


def child_action(
    wf: WorkflowState, step: StepState, inputs: Mapping[str, Any], attempt: int, started: StepStarted | None
) -> RunChild:
    """Return the action that starts or continues the child run of a step."""
    declared = step.node.step
    agent = declared.action == BuiltIn.INVOKE_AGENT
    begun = started is None
    if started is None:
        started = _start(step, attempt, inputs, step.child_run_id or child_run_id(wf.run_id, step.lane, attempt))
    return RunChild(
        lane=step.lane,
        step=declared,
        started=started,
        kind="agent" if agent else "workflow",
        name=declared.agent if agent else declared.workflow,
        inputs=inputs,
        begun=begun,
        state=StepScope(wf, step, {"workflow": {**StepScope(wf, step)["workflow"], "inputs": wf.inputs}}),
    )
