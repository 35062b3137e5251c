"""Removes references to secrets that the author of a workflow did not write.

References in incoming data are defused. An expression can still join one from two parts, or decode one with
`from_json`. So the value of each expression is filtered again.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from agent_fabric.domain.definitions.expressions.evaluation import only_expression
from agent_fabric.domain.definitions.expressions.nodes import Chain, Name
from agent_fabric.domain.definitions.expressions.references import references
from agent_fabric.domain.secrets.references import defused_but, secrets_in

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
