"""Previews steps for a dry run: values that depend on the inputs alone."""

from collections.abc import Mapping
from typing import Any

from agent_fabric.domain.workflows.definition import Step
from agent_fabric.domain.workflows.scope import ExpressionError, StepScope, holds, resolve
from agent_fabric.domain.workflows.state import WorkflowState


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
