"""Builds the result of a workflow."""

from collections.abc import Iterator, Mapping
from typing import Any

from agent_fabric.domain.events import RunCompleted, RunFailed
from agent_fabric.domain.evidence.proofs import RESULT_UNPROVEN
from agent_fabric.domain.ids import LaneId
from agent_fabric.domain.workflows.definition import Step
from agent_fabric.domain.workflows.events import StepStatus
from agent_fabric.domain.workflows.plan import PlanNode
from agent_fabric.domain.workflows.scheduling import is_over
from agent_fabric.domain.workflows.scope import ExpressionError, StepScope, describe_error, holds, resolve
from agent_fabric.domain.workflows.state import StepState, WorkflowState

SUCCESS, FAILED, PARTIAL, SKIPPED = "success", "failed", "partial", "skipped"


def result_of_workflow(wf: WorkflowState) -> dict[str, Any]:
    """Return what all steps came to, whether they have come to their end or not."""
    return _result(wf)[0]


def end_of_workflow(wf: WorkflowState) -> RunCompleted | RunFailed:
    """Return how a run ends in which nothing continues any more."""
    result, problem = _result(wf)
    if wf.timed_out:
        limit = wf.definition.execution.timeout_s or 0.0
        return RunFailed(
            code="TimeoutError",
            message=f"The workflow took longer than {limit:g} s",
            hint=f"Allow more with execution.timeout, then `fabric workflow resume {wf.run_id}`.",
            payload=result,
        )
    if result["status"] in (SUCCESS, SKIPPED):
        return RunCompleted(run_id=wf.run_id, specialist_ids=(), task_force_mode="sequential", payload=result)
    return RunFailed(
        code=RESULT_UNPROVEN if _fails_only_to_prove(wf) else "workflow_failed",
        message=problem,
        hint=f"Correct it, then `fabric workflow resume {wf.run_id}` continues from there and keeps what is done. "
        "With --current it takes the file as it is then.",
        payload=result,
    )


def _fails_only_to_prove(wf: WorkflowState) -> bool:
    """Tell whether all that is wrong is that agents have not proven what they were to prove."""
    return bool(wf.failed) and all(wf.steps[lane].error_type == RESULT_UNPROVEN for lane in wf.failed)


def _result(wf: WorkflowState) -> tuple[dict[str, Any], str]:
    outputs: dict[str, Any] = {}
    step_results: list[dict[str, Any]] = []
    for lane, node, step in _in_order(wf):
        entry = _step_result(wf, lane, node, step)
        step_results.append(entry)
        if entry["status"] == SUCCESS and lane == node.step.id:
            outputs[lane] = entry["outputs"]
    status, problem = _status(wf)
    result: dict[str, Any] = {
        "outputs": outputs,
        "steps_executed": list(wf.executed),
        "step_results": step_results,
        "duration_ms": round((wf.last_at - wf.first_at) * 1000) if wf.first_at is not None else 0,
        "status": status,
    }
    declared = {name: each.value for name, each in wf.definition.outputs.items() if each.value is not None}
    if declared and not wf.definition.execution.dry_run:
        result["result"], wrong = _declared_outputs(wf, declared)
        if wrong and status in (SUCCESS, SKIPPED):
            result["status"], problem = FAILED, wrong
    return result, problem


def _status(wf: WorkflowState) -> tuple[str, str]:
    if wf.failed:
        partial = wf.succeeded and wf.definition.execution.continue_on_error
        first = wf.steps[wf.failed[0]]
        return PARTIAL if partial else FAILED, f"The step {first.lane!r} failed: {first.error}"
    if wf.timed_out:
        return FAILED, wf.halted
    if not wf.definition.execution.dry_run and not is_over(wf) and not wf.under_way and not wf.open:
        waiting = [node.step.id for node in wf.root.step_list.nodes if wf.root.counts[node.index]]
        return FAILED, f"These steps wait for each other: {', '.join(waiting[:10])}"
    return (SUCCESS, "") if wf.succeeded else (SKIPPED, "")


def _declared_outputs(wf: WorkflowState, declared: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    scope = StepScope(wf, None)
    values: dict[str, Any] = {}
    wrong = ""
    for name, expression in declared.items():
        try:
            values[name] = resolve(expression, scope)
        except ExpressionError as problem:
            values[name] = None
            wrong = wrong or f"The output {name!r} has no value: {describe_error(problem)}"
    return values, wrong


_Placed = tuple[LaneId, PlanNode, StepState | None]


def _in_order(wf: WorkflowState) -> Iterator[_Placed]:
    """Return every step in the order of the definition, those of a `for-each` once for each item that was begun."""
    waiting: list[tuple[str, PlanNode]] = [("", node) for node in reversed(wf.plan.root.nodes)]
    while waiting:
        before, node = waiting.pop()
        lane = LaneId(before + node.step.id)
        step = wf.steps.get(lane)
        yield lane, node, step
        inside: list[tuple[str, PlanNode]] = []
        if node.repeats and not wf.definition.execution.dry_run:
            begun = _items_begun(step) if step is not None else 0
            nodes = node.by_branch["steps"].nodes
            inside = [(f"{lane}[{index}].", each) for index in range(begun) for each in nodes]
        else:
            inside = [(before, each) for step_list in node.by_branch.values() for each in step_list.nodes]
        waiting.extend(reversed(inside))


def _items_begun(step: StepState) -> int:
    if step.reused_from is None:
        return step.next_item
    count = step.outputs.get("count")
    return count if isinstance(count, int) else 0


def _step_result(wf: WorkflowState, lane: LaneId, node: PlanNode, step: StepState | None) -> dict[str, Any]:
    status, error, duration_ms = SKIPPED, "", 0
    outputs: Mapping[str, Any] = {}
    if step is not None and step.status is not None:
        status, outputs, error = step.status.value, step.outputs, step.error
        if step.started_at is not None and step.finished_at is not None:
            duration_ms = round((step.finished_at - step.started_at) * 1000)
    elif lane in wf.adopted:
        body, _ = wf.adopted[lane]
        status, outputs, error = body.status.value, body.outputs, body.error
    elif step is not None and step.started_at is not None:
        status = StepStatus.RUNNING.value
    elif wf.halted:
        error = f"not started, because {wf.halted}"
    entry: dict[str, Any] = {
        "step_id": lane,
        "status": status,
        "outputs": outputs,
        "error": error or None,
        "duration_ms": duration_ms,
    }
    if wf.definition.execution.dry_run:
        entry |= preview_step(wf, node.step)
    return entry


# Previews steps for a dry run: values that depend on the inputs alone.
class DryRunScope(StepScope):
    """A scope with the inputs only. An expression that needs a step has no value, not even by `default`."""

    __slots__ = ()

    def __init__(self, wf: WorkflowState) -> None:
        super().__init__(wf, None)

    def __getitem__(self, name: str) -> Any:
        wf = self._wf
        # No path is named as missing: `default` and `is defined` would take that for an answer.
        if name in wf.plan.nodes or name in ("item", "index") or (name == "run" and not wf.run_id):
            raise ExpressionError(f"{name!r} is not known before something has run")
        return super().__getitem__(name)


def preview_step(wf: WorkflowState, step: Step) -> dict[str, Any]:
    """Return the preview of a step. Values that depend on other steps stay as they are written."""
    scope = DryRunScope(wf)
    command: Any = _resolve_known(step.command, scope)
    preview: dict[str, Any] = {"action": step.action, "inputs": _resolve_known(step.inputs, scope)}
    if step.command:
        preview["command"] = list(command) if isinstance(command, tuple | list) else command
    if step.condition:
        try:
            preview["condition"] = holds(step.condition, scope)
        except ExpressionError:
            preview["condition"] = step.condition
    return preview


def _resolve_known(value: Any, scope: Mapping[str, Any]) -> Any:
    if isinstance(value, Mapping):
        return {name: _resolve_known(each, scope) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_resolve_known(each, scope) for each in value]
    if not isinstance(value, str):
        return value
    try:
        return resolve(value, scope)
    except ExpressionError:
        return value
