"""What can be told about a step before anything has run."""

from collections.abc import Mapping
from typing import Any

from agent_fabric.domain.workflows.definition import Step
from agent_fabric.domain.workflows.scope import ExpressionError, Scope, holds, resolve
from agent_fabric.domain.workflows.state import WorkflowState


class BeforeAnyStep(Scope):
    """Knows the inputs; whatever needs a step that has not run has no value here, not even one by `default`."""

    __slots__ = ()

    def __init__(self, wf: WorkflowState) -> None:
        super().__init__(wf, None)

    def __getitem__(self, name: str) -> Any:
        wf = self._wf
        # No path is named as missing: `default` and `is defined` would take that for an answer.
        if name in wf.plan.nodes or name in ("item", "index") or (name == "run" and not wf.run_id):
            raise ExpressionError(f"{name!r} is not known before something has run")
        return super().__getitem__(name)


def foreseen_of(wf: WorkflowState, step: Step) -> dict[str, Any]:
    """Return what a dry run can tell about a step: what depends on other steps stays as it is written."""
    scope = BeforeAnyStep(wf)
    command: Any = _as_far_as_known(step.command, scope)
    foreseen: dict[str, Any] = {"action": step.action, "inputs": _as_far_as_known(step.inputs, scope)}
    if step.command:
        foreseen["command"] = list(command) if isinstance(command, tuple | list) else command
    if step.condition:
        try:
            foreseen["condition"] = holds(step.condition, scope)
        except ExpressionError:
            foreseen["condition"] = step.condition
    return foreseen


def _as_far_as_known(value: Any, scope: Mapping[str, Any]) -> Any:
    if isinstance(value, Mapping):
        return {name: _as_far_as_known(each, scope) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_as_far_as_known(each, scope) for each in value]
    if not isinstance(value, str):
        return value
    try:
        return resolve(value, scope)
    except ExpressionError:
        return value
