"""How a step starts: its condition, its inputs, and the action that does its work."""

import json
import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final, assert_never

from agent_fabric.domain.ids import CallId
from agent_fabric.domain.json_schema import problems_with
from agent_fabric.domain.messages import ToolCallRequest
from agent_fabric.domain.runs.actions import Record
from agent_fabric.domain.schema_words import faults_in_schema
from agent_fabric.domain.workflow_events import StepFinished, StepStarted, StepStatus, StepWaited
from agent_fabric.domain.workflows.actions import AskPerson, CallStepTool, RunChild, StepAction
from agent_fabric.domain.workflows.children import child_run_id
from agent_fabric.domain.workflows.command_line import command_text, shell_line
from agent_fabric.domain.workflows.definition import DEFAULT_MOST_ITEMS, BuiltIn, Step
from agent_fabric.domain.workflows.judging import ending, form_schema
from agent_fabric.domain.workflows.plan import Kind, Node
from agent_fabric.domain.workflows.queues import broken_by
from agent_fabric.domain.workflows.scope import ExpressionError, Scope, holds, reads_of, resolve, said
from agent_fabric.domain.workflows.state import WorkflowState
from agent_fabric.domain.workflows.step_state import StepState
from agent_fabric.domain.workflows.verdicts import EXPRESSION_ERROR, failure, success

_TOOLS: Final = {
    BuiltIn.RUN_COMMAND.value: "shell",
    BuiltIn.HTTP_REQUEST.value: "http_request",
    BuiltIn.READ_FILE.value: "read_file",
    BuiltIn.WRITE_FILE.value: "write_file",
}
_MAX_SECONDS: Final = 100 * 366 * 86_400
"""Of a wait: a hundred years."""
_LAST_MOMENT: Final = 253_402_300_799
"""The end of the year 9999: what is later is no moment that can be shown; most likely it counts milliseconds."""
_MAX_SHOWN: Final = 60
_NOT_FOR_THE_TOOL: Final = frozenset({"accept_status"})


def start(wf: WorkflowState, step: StepState) -> Record | StepAction:
    """Return how a step whose turn has come begins; one that need not run is skipped."""
    declared = step.node.step
    blamed = broken_by(step)
    if blamed:
        return _skipped(step, f"needs {blamed!r}, which failed")
    attempt = step.attempt + 1
    try:
        scope = Scope(wf, step)
        if attempt == 1:
            if declared.condition and declared.action != BuiltIn.CONDITIONAL and not holds(declared.condition, scope):
                return _skipped(step, "")
            inputs: Mapping[str, Any] = inputs_of(declared, scope)
        else:
            inputs = step.inputs
    except ExpressionError as problem:
        started = _started(step, attempt, {})
        return Record(step.lane, (started, ending(wf, step, failure(EXPRESSION_ERROR, said(problem)), attempt)))
    child = child_run_id(wf.run_id, step.lane, attempt) if step.node.kind is Kind.CHILD else None
    return _work(wf, step, inputs, attempt, _started(step, attempt, inputs, child))


def go_on(wf: WorkflowState, step: StepState) -> Record | StepAction:
    """Return what follows a start that stands in the log, when the program was stopped right after it."""
    return _work(wf, step, step.inputs, step.attempt, None)


def _skipped(step: StepState, why: str) -> Record:
    body = StepFinished(step_id=step.node.step.id, attempt=step.attempt, status=StepStatus.SKIPPED, error=why)
    return Record(step.lane, (body,))


def _started(step: StepState, attempt: int, inputs: Mapping[str, Any], child: Any = None) -> StepStarted:
    declared = step.node.step
    return StepStarted(
        step_id=declared.id,
        action=declared.action,
        attempt=attempt,
        inputs=inputs,
        reads=_reads(step.node),
        child_run_id=child,
    )


def _reads(node: Node) -> dict[str, tuple[str, ...]]:
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
        ExpressionError: one has none, or not of the kind that the action needs.
    """
    match step.action:
        case BuiltIn.CONDITIONAL:
            chosen = "then" if holds(step.condition, scope) else "else"
            there = step.then if chosen == "then" else step.otherwise
            return {"branch": chosen if there else "none"}
        case BuiltIn.VALIDATE:
            rules = step.inputs.get("rules")
            given = {name: value for name, value in step.inputs.items() if name != "rules"}
            inputs: dict[str, Any] = _resolved(given, scope)
            return inputs if rules is None else {**inputs, "rules": rules}
        case BuiltIn.RUN_COMMAND:
            return {**_resolved(step.inputs, scope), "command": command_text(step.command, scope)}
        case BuiltIn.FOR_EACH:
            return _items(_resolved(step.inputs, scope))
        case _:
            return _resolved(step.inputs, scope)


def _resolved(inputs: Mapping[str, Any], scope: Mapping[str, Any]) -> dict[str, Any]:
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


def _work(
    wf: WorkflowState, step: StepState, inputs: Mapping[str, Any], attempt: int, started: StepStarted | None
) -> Record | StepAction:
    """Return the action that does a step's work; `started` is recorded with it unless it has been."""
    before = () if started is None else (started,)
    try:
        match step.node.kind:
            case Kind.PURE:
                return Record(step.lane, (*before, ending(wf, step, _computed(wf, step, inputs), attempt)))
            case Kind.CONTAINER:
                return Record(step.lane, before)
            case Kind.WAIT:
                return Record(step.lane, (*before, _waited(step.node.step, inputs, attempt)))
            case Kind.PERSON:
                return _question(step, inputs, started)
            case Kind.TOOL:
                call = call_for(step, inputs, attempt)
                return CallStepTool(step.lane, step.node.step, call, attempt, started)
            case Kind.CHILD:
                return child_of(wf, step, inputs, attempt, started)
            case unknown:
                assert_never(unknown)
    except ExpressionError as problem:
        return Record(step.lane, (*before, ending(wf, step, failure(EXPRESSION_ERROR, said(problem)), attempt)))


def _computed(wf: WorkflowState, step: StepState, inputs: Mapping[str, Any]) -> Any:
    if step.node.step.action == BuiltIn.TRANSFORM:
        return success(inputs)
    data = inputs.get("data")
    problems: list[str] = []
    schema = inputs.get("schema")
    if schema is not None:
        _require_sound("schema", schema)
        problems += problems_with({"data": data}, {"properties": {"data": schema}})
    scope = Scope(wf, step, inputs)
    rules = inputs.get("rules") or ()
    for rule in rules if isinstance(rules, list | tuple) else [rules]:
        text, message = (rule.get("rule", ""), rule.get("message", "")) if isinstance(rule, Mapping) else (rule, "")
        try:
            if not holds(str(text), scope):
                problems.append(str(message or f"{text} does not hold"))
        except ExpressionError as problem:
            if not problems:
                raise  # a rule that cannot be read is no verdict on the data
            problems.append(f"{text}: {said(problem)}")
    if problems:
        return failure("ValidationError", "; ".join(problems))
    return success(inputs)


def _require_sound(name: str, schema: Any) -> None:
    """Check that all of a schema can be judged by; what would be passed over is a mistake."""
    for path, wrong in faults_in_schema(schema):
        raise ExpressionError(f"{'.'.join(map(str, (name, *path)))} {wrong}")


def _waited(step: Step, inputs: Mapping[str, Any], attempt: int) -> StepWaited:
    until, seconds, event = inputs.get("until"), inputs.get("seconds"), inputs.get("event")
    timeout = inputs.get("timeout", step.timeout_s)
    return StepWaited(
        step_id=step.id,
        attempt=attempt,
        seconds=None if seconds is None else _number("seconds", seconds),
        until=None if until is None else _moment(until),
        event="" if event is None else str(event),
        timeout_s=None if timeout is None else _number("timeout", timeout),
    )


def _number(name: str, value: Any, most: float = _MAX_SECONDS) -> float:
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not 0 <= number <= most:
        raise ExpressionError(f"{name} must be a number from 0 to {most:.0f}, not {_short(value)}")
    return number


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}…"


def _moment(value: Any) -> float:
    """Return a moment given as seconds since 1970 or as ISO 8601; without a zone it is UTC."""
    if isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value.strip())
            return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
        except (ValueError, OverflowError):
            pass
    try:
        return _number("until", value, _LAST_MOMENT)
    except ExpressionError:
        raise ExpressionError(
            f"until must be a moment, not {_short(value)}",
            hint="Write 2026-12-24T18:00:00Z, or seconds since 1970.",
        ) from None


def _question(step: StepState, inputs: Mapping[str, Any], started: StepStarted | None) -> AskPerson:
    declared = step.node.step
    message = inputs.get("approval") if declared.action == BuiltIn.WAIT else inputs.get("message")
    form = inputs.get("form") or {}
    schema = form_schema(form) if form and isinstance(form, Mapping) else form
    if not _can_be_filled_in(schema):
        raise ExpressionError("form must be a JSON schema, or fields by name with their types")
    if schema:
        _require_sound("form", schema)
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


def _can_be_filled_in(schema: Any) -> bool:
    """Tell whether anybody could answer; a form may be made of data."""
    if not isinstance(schema, Mapping):
        return False
    fields = schema.get("properties", {})
    return (
        isinstance(fields, Mapping)
        and all(isinstance(field, Mapping) for field in fields.values())
        and isinstance(schema.get("required", []), list | tuple)
    )


def call_for(step: StepState, inputs: Mapping[str, Any], attempt: int) -> ToolCallRequest:
    """Return the tool call that does one attempt's work.

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


def child_of(
    wf: WorkflowState, step: StepState, inputs: Mapping[str, Any], attempt: int, started: StepStarted | None
) -> RunChild:
    """Return the action that lets a run of its own do a step's work, or go on with it."""
    declared = step.node.step
    agent = declared.action == BuiltIn.INVOKE_AGENT
    begun = started is None
    if started is None:
        started = _started(step, attempt, inputs, step.child_run_id or child_run_id(wf.run_id, step.lane, attempt))
    return RunChild(
        lane=step.lane,
        step=declared,
        started=started,
        kind="agent" if agent else "workflow",
        name=declared.agent if agent else declared.workflow,
        inputs=inputs,
        begun=begun,
        state=Scope(wf, step, {"workflow": {**Scope(wf, step)["workflow"], "inputs": wf.inputs}}),
    )
