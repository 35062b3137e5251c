"""The names that the expressions of a step can read."""

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from agent_fabric.domain.definitions.expressions import evaluation
from agent_fabric.domain.definitions.expressions.errors import ExpressionError
from agent_fabric.domain.definitions.expressions.evaluation import evaluate, has_braces, only_expression
from agent_fabric.domain.definitions.expressions.nodes import Chain, Name
from agent_fabric.domain.definitions.expressions.operators import truth
from agent_fabric.domain.definitions.expressions.references import references
from agent_fabric.domain.secrets.references import defused_but, secrets_in
from agent_fabric.domain.workflows.plan import PlanNode
from agent_fabric.domain.workflows.state import Block, StepState, WorkflowState

_NOTHING: Mapping[str, Any] = {}
_SHOWN = 50
"""Steps that an error message lists at most."""


class StepScope(Mapping[str, Any]):
    """The names that a step can read. Looked up one by one: collecting them for every step would be quadratic.

    Only steps that always end before this one starts are visible, so that a result never depends on timing.
    """

    __slots__ = ("_more", "_step", "_wf")

    def __init__(self, wf: WorkflowState, step: StepState | None, more: Mapping[str, Any] = _NOTHING) -> None:
        self._wf = wf
        self._step = step
        """None: after all steps."""
        self._more = more
        """Names that count before all others."""

    @property
    def has_secrets(self) -> bool:
        """Whether a text that names a secret may be given its value."""
        return bool(self._wf.secret_names)

    def __getitem__(self, name: str) -> Any:
        if name in self._more:
            return self._more[name]
        wf = self._wf
        node = wf.plan.nodes.get(name)
        if node is not None:
            return self._outputs_of(node, name)
        match name:
            case "inputs":
                return wf.inputs
            case "run":
                return {"id": wf.run_id}
            case "workflow":
                return {"name": wf.definition.name, "version": wf.definition.version}
            case "item" | "index":
                return self._of_item(name)
            case _:
                raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        """Name what there is, for messages; of a long list of steps only the first."""
        values = self._wf.root.values if self._step is None else self._step.block.values
        names = (*self._more, "inputs", "run", "workflow", "item", "index", *islice(values, _SHOWN))
        return (name for name in dict.fromkeys(names) if name in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def _outputs_of(self, node: PlanNode, name: str) -> Mapping[str, Any]:
        place: PlanNode | None = node
        while place is not None:
            block = self._block_with(place)
            if block is not None:
                return block.values[name]
            place = place.parent
            if place is not None and place.repeats:
                break  # what is inside belongs to one item
        raise KeyError(name)

    def _block_with(self, node: PlanNode) -> Block | None:
        """Return the list under way that `node` stands in, if this step comes after it there."""
        step = self._step
        if step is None:
            return self._wf.root if node.step_list is self._wf.plan.root else None
        while step is not None:
            block = step.block
            if block.step_list is node.step_list:
                if node.step_list.sees(step.node.index, node.index):
                    return block
                raise KeyError(node.step.id)
            step = block.owner
        return None

    def _of_item(self, name: str) -> Any:
        block = self._step.block if self._step is not None else None
        while block is not None:
            if block.index is not None and block.owner is not None:
                return block.index if name == "index" else block.owner.items[block.index]
            block = block.owner.block if block.owner is not None else None
        raise KeyError(name)


def resolve(value: Any, scope: Mapping[str, Any]) -> Any:
    """Evaluate every expression in a value. References to secrets that the author did not write are defused.

    Raises:
        ExpressionError: as the evaluation says.
    """
    if isinstance(scope, StepScope) and scope.has_secrets:
        return evaluation.resolve(value, scope, checked=lambda text, made: defuse_unnamed_secrets(text, made, scope))
    return evaluation.resolve(value, scope)


def holds(text: str, scope: Mapping[str, Any]) -> bool:
    """Tell whether a condition is true; it may stand in braces or not.

    Raises:
        ExpressionError: it has no value.
    """
    return truth(evaluate(text, scope))


def describe_error(problem: ExpressionError) -> str:
    """Return the message and the hint of an expression error."""
    return f"{problem} ({problem.hint.rstrip('.')})" if problem.hint else str(problem)


def reads_of(values: Mapping[str, Any], *, bare: bool = False) -> dict[str, tuple[str, ...]]:
    """Return which names feed which value."""
    found: dict[str, tuple[str, ...]] = {}
    for name, value in values.items():
        paths = _paths(value, bare=bare)
        if paths:
            found[name] = paths
    return found


def _paths(value: Any, *, bare: bool) -> tuple[str, ...]:
    if isinstance(value, str):
        bare = bare and not has_braces(value)
        if not bare and not has_braces(value):
            return ()
    elif not isinstance(value, list | tuple | Mapping):
        return ()
    return tuple(".".join(each.path) for each in references(value, bare=bare))


__all__ = ["ExpressionError", "StepScope", "describe_error", "holds", "reads_of", "resolve"]


# Removes references to secrets that the author of a workflow did not write.
#
# References in incoming data are defused. An expression can still join one from two parts, or decode one with
# `from_json`. So the value of each expression is filtered again.
_SECRETS = "secrets"


def defuse_unnamed_secrets(text: str, made: Any, scope: Mapping[str, Any]) -> Any:
    """Defuse references in the value of a text, except those in the text itself and in values that it uses."""
    found = frozenset() if _is_path(text) else secrets_in(made)
    if not found:
        return made
    meant = secrets_in(text).union(*_secrets_used(text, scope))
    return made if found <= meant else defused_but(made, meant)


def _is_path(text: str) -> bool:
    """Tell whether a text is a plain path to a value, so that nothing is joined."""
    only = only_expression(text)
    if only is None:
        return False
    root = only.root
    return isinstance(root, Name) or (
        isinstance(root, Chain) and isinstance(root.base, Name) and all(isinstance(each, str) for each in root.steps)
    )


def _secrets_used(text: str, scope: Mapping[str, Any]) -> Iterator[frozenset[str]]:
    for each in references(text):
        first, *rest = each.path
        if first == _SECRETS:
            yield frozenset(rest[:1])
        elif first in scope:
            yield secrets_in(_value_at(scope[first], rest))


def _value_at(value: Any, path: list[str]) -> Any:
    """Follow a path as far as it exists."""
    for part in path:
        if isinstance(value, Mapping) and part in value:
            value = value[part]
        elif isinstance(value, list | tuple) and part.isdecimal() and int(part) < len(value):
            value = value[int(part)]
        else:
            break
    return value
