"""Says what is wrong with settings in words for the person who wrote them."""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from agent_fabric.config.plain import dotted_path, kind_of
from agent_fabric.config.problems import ConfigProblem
from agent_fabric.config.structure import names_at, nearest


class Finding(NamedTuple):
    """One thing that is wrong."""

    path: tuple[str | int, ...]
    message: str
    hint: str = ""


_EXPECTED: Final[Mapping[str, str]] = {
    "string_type": "text",
    "path_type": "text",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "tuple_type": "a list",
    "dict_type": "a mapping",
    "mapping_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
}
_LIMITS: Final[Mapping[str, tuple[str, str]]] = {
    "greater_than": ("greater than", "gt"),
    "greater_than_equal": ("at least", "ge"),
    "less_than": ("less than", "lt"),
    "less_than_equal": ("at most", "le"),
}


def explain(error: ValueError, settings: Mapping[str, Any], *, at_most: int) -> list[Finding]:
    """Turn the first of pydantic's errors about `settings` into findings."""
    return [_finding(details, settings) for details in details_of(error, at_most=at_most)]


def details_of(error: ValueError, *, at_most: int) -> list[ErrorDetails]:
    """Return the first things that are wrong, as pydantic says them."""
    assert isinstance(error, ValidationError)
    return error.errors(include_url=False)[:at_most]


def count_of(error: ValueError) -> int:
    """Return how many things are wrong."""
    assert isinstance(error, ValidationError)
    return error.error_count()


def _finding(details: ErrorDetails, settings: Mapping[str, Any]) -> Finding:
    path, kind = details["loc"], details["type"]
    if kind != "extra_forbidden" and path[-1:] == ("[key]",):  # pydantic's mark for "the key itself is wrong"
        path = path[:-1]
    context = details.get("ctx", {})
    where = dotted_path(path)
    if kind == "extra_forbidden":
        return _unknown_key(path)
    if kind == "missing":
        return Finding(path, f"{where} is missing", "A new entry must be complete on its own.")
    if kind == "model_unknown":
        known = ", ".join(settings["models"])
        return Finding(path, f"{where} is {_short(details['input'])}, but no model has this key", f"Models: {known}.")
    if kind == "literal_error":
        return Finding(path, f"{where} must be {context['expected']}, got {_short(details['input'])}")
    if kind in _EXPECTED:
        got = "a fraction" if kind == "int_from_float" else kind_of(details["input"])
        return Finding(path, f"{where} must be {_EXPECTED[kind]}, got {got}")
    if kind in _LIMITS:
        words, key = _LIMITS[kind]
        return Finding(path, f"{where} must be {words} {context[key]:g}, got {_short(details['input'])}")
    if kind in {"string_too_short", "too_short"}:
        return Finding(path, f"{where} must not be empty")
    problem = context.get("error")
    if isinstance(problem, ConfigProblem):
        return Finding(path, f"{where} {problem.message}", problem.hint)
    return Finding(path, f"{where}: {details['msg'][:1].lower()}{details['msg'][1:]}")


def _unknown_key(path: tuple[str | int, ...]) -> Finding:
    parent, name = path[:-1], str(path[-1])
    valid = names_at(parent)
    meant = nearest(name, valid)
    where = f" in {dotted_path(parent)}" if parent else ""
    suggestion = f"; did you mean {meant!r}?" if meant else ""
    return Finding(path, f"unknown key {_short(name)}{where}{suggestion}", f"Valid keys here: {', '.join(valid)}.")


def _short(value: object) -> str:
    text = value if isinstance(value, str) else None
    if text is not None:
        return repr(text if len(text) <= 60 else text[:57] + "…")
    return str(value) if isinstance(value, int | float) and abs(value) < 1e15 else kind_of(value)
