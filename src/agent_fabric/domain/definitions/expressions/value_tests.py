"""The tests of `is`, `select` and `selectattr`."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from agent_fabric.domain.definitions.expressions.errors import ExpressionError, kind_of
from agent_fabric.domain.definitions.expressions.operators import compare, truth


class Check(NamedTuple):
    """One test."""

    holds: Callable[..., bool]
    """Takes the evaluation, the value, and the value to compare with if there is one."""
    arguments: int = 0


DEFINED = frozenset({"defined", "undefined"})
"""The tests that may be put to something that is missing."""


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ExpressionError(f"only whole numbers are even or odd, not {kind_of(value)}")
    return value


def _kind(*kinds: type) -> Check:
    return Check(lambda _, value: isinstance(value, kinds))


def _number(*kinds: type) -> Check:
    return Check(lambda _, value: isinstance(value, kinds) and not isinstance(value, bool))


def _comparison(symbol: str) -> Check:
    return Check(lambda at, value, other: compare(at, symbol, value, other), 1)


_COMPARISONS = {
    "==": ("==", "eq", "equalto"),
    "!=": ("!=", "ne"),
    "<": ("<", "lt"),
    "<=": ("<=", "le"),
    ">": (">", "gt"),
    ">=": (">=", "ge"),
    "in": ("in",),
}

CHECKS: Mapping[str, Check] = {
    "defined": Check(lambda _, __: True),
    "undefined": Check(lambda _, __: False),
    "none": Check(lambda _, value: value is None),
    "null": Check(lambda _, value: value is None),
    "string": _kind(str),
    "number": _number(int, float),
    "integer": _number(int),
    "float": _number(float),
    "boolean": _kind(bool),
    "mapping": _kind(dict, Mapping),
    "sequence": _kind(list, tuple),
    "list": _kind(list, tuple),
    "true": Check(lambda _, value: value is True),
    "false": Check(lambda _, value: value is False),
    "empty": Check(lambda _, value: not truth(value) and not isinstance(value, bool | int | float)),
    "even": Check(lambda _, value: _whole(value) % 2 == 0),
    "odd": Check(lambda _, value: _whole(value) % 2 == 1),
    **{name: _comparison(symbol) for symbol, names in _COMPARISONS.items() for name in names},
}
