"""Turns Python's type hints into the part of JSON Schema that models and the argument check understand."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from types import NoneType, SimpleNamespace, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

_TYPES = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    list: "array",
    dict: "object",
    NoneType: "null",
}
_SUPPORTED = "str, int, float, bool, list[...], dict[str, ...], Literal[...], Any, and these with | None"


def parameters_schema(function: Callable[..., Any], *, hidden: frozenset[str]) -> dict[str, Any]:
    """Return the JSON schema of a function's arguments, without those that are `hidden` from the model.

    `Annotated[int, "What it means.", {"minimum": 1}]` adds a description and further keywords of JSON Schema.

    Raises:
        TypeError: a parameter has no hint, or one that no JSON value fits.
    """
    parameters = [each for name, each in inspect.signature(function).parameters.items() if name not in hidden]
    for each in parameters:
        if each.kind not in {each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY}:
            raise TypeError(f"the parameter {each} cannot be given by name, as a model does")
        if each.annotation is each.empty:
            raise TypeError(f"the parameter {each.name!r} has no type hint: write what it takes, as in `path: str`")
    hints = _evaluated(function, {each.name: each.annotation for each in parameters})
    return {
        "type": "object",
        "properties": {each.name: _property(each, hints[each.name]) for each in parameters},
        "required": [each.name for each in parameters if each.default is each.empty],
        "additionalProperties": False,
    }


def _evaluated(function: Callable[..., Any], annotations: Mapping[str, Any]) -> dict[str, Any]:
    """Evaluate the hints that were written as text; the hidden ones need not be importable when the program runs."""
    scope = getattr(inspect.unwrap(function), "__globals__", {})
    try:
        return get_type_hints(SimpleNamespace(__annotations__=annotations), globalns=scope, include_extras=True)
    except NameError as problem:
        raise TypeError(f"a type hint cannot be understood: {problem}") from None


def _property(parameter: inspect.Parameter, hint: Any) -> dict[str, Any]:
    try:
        schema = _schema(hint)
    except TypeError as problem:
        raise TypeError(f"the parameter {parameter.name!r}: {problem}") from None
    if isinstance(parameter.default, str | int | float):
        schema["default"] = parameter.default
    return schema


def _schema(hint: Any) -> dict[str, Any]:
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Annotated:  # first: its notes need not be hashable
        return _annotated(inner[0], inner[1:])
    if hint is Any:
        return {}
    if hint in _TYPES:
        return {"type": _TYPES[hint]}
    if origin is Literal and all(type(value) in _TYPES for value in inner):
        return {**_union([_schema(kind) for kind in dict.fromkeys(map(type, inner))]), "enum": list(inner)}
    if origin in {Union, UnionType}:
        return _union([_schema(each) for each in inner])
    if origin in {list, Sequence}:
        return {"type": "array", "items": _schema(inner[0])}
    if origin in {dict, Mapping} and inner[0] is str:
        return {"type": "object", "additionalProperties": _schema(inner[1])}
    raise TypeError(f"no JSON value fits the type hint {_name(hint)}; use {_SUPPORTED}")


def _annotated(hint: Any, notes: Sequence[Any]) -> dict[str, Any]:
    schema = _schema(hint)
    for note in notes:
        if isinstance(note, str):
            schema["description"] = note
        elif isinstance(note, Mapping):
            schema.update(note)
        else:
            raise TypeError(f"Annotated takes a description and a mapping with JSON Schema keywords, not {note!r}")
    return schema


def _union(options: list[dict[str, Any]]) -> dict[str, Any]:
    if len(options) == 1:
        return options[0]
    if all(option.keys() == {"type"} for option in options):
        return {"type": [option["type"] for option in options]}
    return {"anyOf": options}


def _name(hint: Any) -> str:
    return hint.__qualname__ if isinstance(hint, type) else str(hint)
