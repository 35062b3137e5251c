"""Parses and validates the inputs of a workflow: JSON values, or `name=value` from a command line."""

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final, NoReturn

from agent_fabric.domain.definitions.parameter import Parameter
from agent_fabric.domain.definitions.parameters import accept_values
from agent_fabric.domain.definitions.problems import did_you_mean, show_value
from agent_fabric.domain.errors import InvalidInputs
from agent_fabric.domain.workflows.definition import WorkflowDefinition

_EXAMPLES: Final[Mapping[str, str]] = {
    "integer": "3",
    "number": "0.5",
    "boolean": "true",
    "array": '["a", "b"]',
    "object": '{"a": 1}',
    "null": "null",
}
_YES_NO: Final = {
    "true": True,
    "yes": True,
    "1": True,
    "on": True,
    "false": False,
    "no": False,
    "0": False,
    "off": False,
}
_PLAIN_JSON: Final = ('"', "[", "{", "-", *"0123456789")


def accept_inputs(definition: WorkflowDefinition, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the inputs of a run: what is given, with defaults for the rest. What is optional may stay out.

    Raises:
        InvalidInputs: one is missing, unknown or of the wrong type; all problems are named at once.
    """
    return accept_values(definition.inputs, given, of=f"the workflow {definition.name!r}")


def parse_values(assignments: Iterable[str], declared: Mapping[str, Parameter], *, of: str) -> dict[str, Any]:
    """Return the values of a command line's `name=value`, each as the type that is declared.

    Raises:
        InvalidInputs: one has no `=`, is unknown, comes twice, or is not of its type; all problems are named at once.
    """
    values: dict[str, Any] = {}
    problems: list[str] = []
    hints: list[str] = []
    for each in assignments:
        name, equals, text = each.partition("=")
        name = name.strip()
        if not equals:
            problems.append(f"{each[:60]!r} has no value")
            hints.append(f"Write {name or 'name'}=value.")
        elif name not in declared:
            problems.append(f"there is no input {name[:60]!r}")
            hints.append(did_you_mean(name, declared, otherwise=_takes(of, declared)))
        elif name in values:
            problems.append(f"{name} is given twice")
        else:
            try:
                values[name] = _convert(text, declared[name].type)
            except ValueError:
                kind = declared[name].type
                problems.append(f"{name} must be {kind}, not {show_value(text)}")
                hints.append(f"Write {name}={_quote(_EXAMPLES[kind])}")
    if problems:
        raise InvalidInputs("; ".join(problems), hint="\n".join(dict.fromkeys(filter(None, hints))))
    return values


def _convert(text: str, kind: str) -> Any:
    """Return a text as a value of a type.

    Raises:
        ValueError: it is none.
    """
    match kind:
        case "string":
            return text
        case "any":
            try:
                return _json(text) if text.startswith(_PLAIN_JSON) or text in {"true", "false", "null"} else text
            except ValueError:
                return text
        case "boolean":
            if text.strip().lower() not in _YES_NO:
                raise ValueError(text)
            return _YES_NO[text.strip().lower()]
        case _:
            value = _json(text)
            if kind == "integer" and isinstance(value, float) and value.is_integer():
                value = int(value)
            if isinstance(value, _KINDS[kind]) and not isinstance(value, bool):
                return value
            raise ValueError(text)


_KINDS: Final[Mapping[str, type | tuple[type, ...]]] = {
    "integer": int,
    "number": (int, float),
    "array": list,
    "object": dict,
    "null": type(None),
}


def _json(text: str) -> Any:
    try:
        value = json.loads(text, parse_constant=_refuse, parse_float=_finite)
    except RecursionError:
        raise ValueError(text) from None
    return value


def _finite(text: str) -> float:
    value = float(text)
    if value in {float("inf"), float("-inf")}:
        raise ValueError(text)
    return value


def _refuse(name: str) -> NoReturn:
    raise ValueError(name)


def _quote(example: str) -> str:
    return f"'{example}'" if '"' in example else example


def _takes(of: str, declared: Mapping[str, Parameter]) -> str:
    return f"It takes {', '.join(declared)}." if declared else f"{of} takes no inputs."
