"""Which tasks can be done again after a crash without a person who looks what has happened."""

from collections.abc import Iterator, Mapping
from typing import Any

from agent_fabric.domain.errors import ConfigError
from agent_fabric.domain.runs.task import Task
from agent_fabric.domain.workflows.definition import BuiltIn, definition_from
from agent_fabric.domain.workflows.plan import Plan, StepKind


def require_retryable(task: Task) -> None:
    """Check that nothing of a task would need a person after a crash.

    Raises:
        ConfigError: it is no workflow, or has steps that are not idempotent.
    """
    if task.workflow is None:
        raise ConfigError(
            "on_doubt: retry is for workflows whose steps are idempotent; an agent decides by itself what it calls",
            hint="Use on_doubt: skip or ask, or let a workflow do it.",
        )
    called = task.workflow.workflows
    steps = [*_not_idempotent(task.workflow.definition, called)]
    if steps:
        raise ConfigError(
            f"on_doubt: retry needs steps that are idempotent, and these are not: {', '.join(steps[:10])}",
            hint="Write `idempotent: true` in each step that may happen twice, or use on_doubt: skip or ask.",
        )


def _not_idempotent(plain: Mapping[str, Any], called: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Return the steps of a workflow, and of those that it calls, about which a person would be asked."""
    plans, seen = [("", plain)], set[str]()
    while plans:
        prefix, each = plans.pop()
        for step, node in Plan(definition_from(each)).nodes.items():
            name = f"{prefix}{step}"
            if node.kind is StepKind.TOOL and not node.is_idempotent:
                yield name
            elif node.step.action == BuiltIn.INVOKE_AGENT:
                yield f"{name} (an agent)"
            elif node.step.action == BuiltIn.WORKFLOW and node.step.workflow not in called:
                yield f"{name} (a workflow)"
            elif node.step.action == BuiltIn.WORKFLOW and node.step.workflow not in seen:
                seen.add(node.step.workflow)
                plans.append((f"{name}/", called[node.step.workflow]))
