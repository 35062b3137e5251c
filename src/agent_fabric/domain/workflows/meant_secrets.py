"""Tells the secrets that a workflow's author means from those that outside data names when it is put together.

Data that comes in names no secret: `${secret:TOKEN}` is defused. But two halves can be joined, and escapes of JSON
that `from_json` reads can hide it. So whatever an expression makes is looked at again.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from agent_fabric.domain.expressions.evaluation import only_expression
from agent_fabric.domain.expressions.nodes import Chain, Name
from agent_fabric.domain.expressions.references import references
from agent_fabric.domain.secrets import defused_but, secrets_in

_SECRETS = "secrets"


def only_meant(text: str, made: Any, scope: Mapping[str, Any]) -> Any:
    """Return what a text came to, without secrets that neither the text names nor a value that it uses."""
    found = frozenset() if _is_path(text) else secrets_in(made)
    if not found:
        return made
    meant = secrets_in(text).union(*_named_by(text, scope))
    return made if found <= meant else defused_but(made, meant)


def _is_path(text: str) -> bool:
    """Tell whether a text only passes a value on, which may be a large one; nothing is put together then."""
    only = only_expression(text)
    if only is None:
        return False
    root = only.root
    return isinstance(root, Name) or (
        isinstance(root, Chain) and isinstance(root.base, Name) and all(isinstance(each, str) for each in root.steps)
    )


def _named_by(text: str, scope: Mapping[str, Any]) -> Iterator[frozenset[str]]:
    for each in references(text):
        first, *rest = each.path
        if first == _SECRETS:
            yield frozenset(rest[:1])
        elif first in scope:
            yield secrets_in(_value_at(scope[first], rest))


def _value_at(value: Any, path: list[str]) -> Any:
    """Follow a path as far as it can be told."""
    for part in path:
        if isinstance(value, Mapping) and part in value:
            value = value[part]
        elif isinstance(value, list | tuple) and part.isdecimal() and int(part) < len(value):
            value = value[int(part)]
        else:
            break
    return value
