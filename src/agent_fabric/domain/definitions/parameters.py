"""Declared inputs and outputs of workflows and agents: whether values fit them."""

import math
from collections.abc import Mapping
from typing import Any, Final

from agent_fabric.domain.definitions.parameter import Parameter
from agent_fabric.domain.definitions.problems import did_you_mean
from agent_fabric.domain.errors import InvalidInputs
from agent_fabric.domain.tools.json_schema import problems_with

TYPES: Final = ("string", "integer", "number", "boolean", "array", "object", "null", "any")
_MAX_INTEGER: Final = 2**63 - 1


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
        elif isinstance(each, int) and not -_MAX_INTEGER - 1 <= each <= _MAX_INTEGER:
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
    hints = [did_you_mean(name, declared, otherwise=_known_names(declared)) for name in given if name not in declared]
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
            f"The inputs of {of} do not fit: {'; '.join(problems)}",
            hint=next(filter(None, hints), _known_names(declared)),
        )
    return values


def _known_names(declared: Mapping[str, Parameter]) -> str:
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
