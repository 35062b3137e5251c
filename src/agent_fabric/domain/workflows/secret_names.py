"""Finds the secrets that a workflow definition names; its steps may use no others."""

from collections.abc import Iterator
from typing import Any

from agent_fabric.domain.definitions.expressions.errors import ExpressionError
from agent_fabric.domain.definitions.expressions.references import references
from agent_fabric.domain.workflows.definition import Step, WorkflowDefinition


def secret_names_in(definition: WorkflowDefinition) -> frozenset[str]:
    """Return the names of all secrets in a definition."""
    return frozenset(
        path[1]
        for step in definition.all_steps()
        for text in _texts(step)
        for path in _paths(text)
        if path[0] == "secrets" and len(path) > 1
    )


def _texts(step: Step) -> Iterator[Any]:
    yield from (step.inputs, step.outputs, list(step.command) if isinstance(step.command, tuple) else step.command)


def _paths(value: Any) -> Iterator[tuple[str, ...]]:
    if not value or "secrets" not in str(value):  # the usual case, at next to no price
        return
    try:
        yield from (each.path for each in references(value))
    except ExpressionError:
        return  # a definition that was checked has none such
