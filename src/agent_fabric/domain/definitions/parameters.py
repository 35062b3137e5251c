"""Declared inputs and outputs: how they are written, and whether values fit them. Workflows and agents share this."""

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from agent_fabric.domain.definitions.parameter import Parameter
from agent_fabric.domain.definitions.problems import Problem, did_you_mean
from agent_fabric.domain.errors import InvalidInputs
from agent_fabric.domain.json_schema import problems_with

TYPES: Final = ("string", "integer", "number", "boolean", "array", "object", "null", "any")
_KEYS: Final = ("type", "description", "required", "default", "enum")
_MOST: Final = 2**63 - 1
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_USUAL_TYPES: Final = {"str": "string", "text": "string", "int": "integer", "float": "number", "bool": "boolean"} | {
    "list": "array",
    "dict": "object",
    "map": "object",
}


def problems_in_parameters(
    plain: object, path: tuple[str | int, ...], *, also: tuple[str, ...] = ()
) -> Iterator[Problem]:
    """Say what is wrong with a mapping of declarations; `also` are keys that these may have beside the usual ones."""
    if plain is None:
        return
    if not isinstance(plain, Mapping):
        hint = "Write `name: string`, or `name:` with `type`, `description`, `required` and `default` below it."
        yield Problem(path=path, message="must be a mapping of names to what they are", hint=hint)
        return
    for name, each in plain.items():
        at = (*path, str(name))
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            message = f"{name!r} cannot be the name of a value"
            yield Problem(path=at, message=message, hint="Use letters, digits and _, beginning with a letter.")
        yield from _problems_in_parameter({"type": each} if isinstance(each, str) else each, at, also)


def _problems_in_parameter(plain: object, path: tuple[str | int, ...], also: tuple[str, ...]) -> Iterator[Problem]:
    if not isinstance(plain, Mapping):
        message = f"must be a type, or a mapping with `type`; types: {', '.join(TYPES)}"
        yield Problem(path=path, message=message)
        return
    keys = (*_KEYS, *also)
    for key in plain:
        if key not in keys:
            hint = did_you_mean(str(key), keys)
            yield Problem(path=(*path, str(key)), message="there is no such key here", hint=hint)
    kind = plain.get("type", "any")
    if not isinstance(kind, str) or kind not in TYPES:
        usual = _USUAL_TYPES.get(str(kind).casefold())
        hint = f"Did you mean {usual!r}?" if usual else did_you_mean(str(kind), TYPES)
        yield Problem(path=(*path, "type"), message=f"{kind!r} is no type", hint=hint)
        return
    if not isinstance(plain.get("description", ""), str):
        yield Problem(path=(*path, "description"), message="must be text")
    if not isinstance(plain.get("required", False), bool):
        yield Problem(path=(*path, "required"), message="must be true or false")
    choices = plain.get("enum", ())
    if "enum" in plain and (not isinstance(choices, list) or not choices):
        yield Problem(path=(*path, "enum"), message="must be a list of the values that are allowed")
        choices = ()
    for nth, choice in enumerate(choices):
        for each in unfit(Parameter(type=kind), choice, "it"):
            yield Problem(path=(*path, "enum", nth), message=each)
    if "default" in plain:
        parameter = Parameter(type=kind, choices=tuple(choices))
        for each in unfit(parameter, plain["default"], "the default"):
            yield Problem(path=(*path, "default"), message=each)


def schema_of(parameter: Parameter) -> dict[str, Any]:
    """Return a declaration as JSON schema."""
    schema: dict[str, Any] = {} if parameter.type == "any" else {"type": parameter.type}
    if parameter.description:
        schema["description"] = parameter.description
    if parameter.choices:
        schema["enum"] = list(parameter.choices)
    if parameter.has_default:
        schema["default"] = parameter.default
    return schema


def unfit(parameter: Parameter, value: object, name: str) -> list[str]:
    """Say in plain words what is wrong with a value; an empty list means that it fits."""
    schema = {"properties": {name: schema_of(parameter)}, "type": "object"}
    return problems_with({name: value}, schema)


def unusable_numbers(value: object, name: str) -> list[str]:
    """Say whether a value holds a number with which nothing can be computed: expressions know 64 bits, JSON no NaN."""
    ahead = [value]
    for each in ahead:  # grows as it is walked
        if isinstance(each, dict):
            ahead.extend(each.values())
        elif isinstance(each, list | tuple):
            ahead.extend(each)
        elif isinstance(each, int) and not -_MOST - 1 <= each <= _MOST:
            return [f"{name} holds too large a number: whole numbers have at most 64 bits"]
        elif isinstance(each, float) and not math.isfinite(each):
            return [f"{name} holds {each}, which is no number that can be used"]
    return []


def accept_values(declared: Mapping[str, Parameter], given: Mapping[str, Any], *, of: str) -> dict[str, Any]:
    """Return the inputs with defaults filled in; `of` names what they are for, such as "the agent 'greeter'".

    Raises:
        InvalidInputs: one is missing, unknown or of the wrong type; all problems are named at once.
    """
    problems = [f"there is no input {name!r}" for name in given if name not in declared]
    hints = [did_you_mean(name, declared, otherwise=_known(declared)) for name in given if name not in declared]
    values: dict[str, Any] = {}
    for name, parameter in declared.items():
        if name in given:
            values[name] = given[name]
            problems.extend(unfit(parameter, given[name], name) or unusable_numbers(given[name], name))
        elif parameter.has_default:
            values[name] = parameter.default
        elif parameter.required:
            about = f": {parameter.description}" if parameter.description else ""
            problems.append(f"{name} is missing{about}")
    if problems:
        raise InvalidInputs(
            f"The inputs of {of} do not fit: {'; '.join(problems)}", hint=next(filter(None, hints), _known(declared))
        )
    return values


def _known(declared: Mapping[str, Parameter]) -> str:
    if not declared:
        return "It takes no inputs."
    return (
        "It takes "
        + ", ".join(
            f"{name} ({parameter.type}{'' if parameter.required else ', optional'})"
            for name, parameter in declared.items()
        )
        + "."
    )
