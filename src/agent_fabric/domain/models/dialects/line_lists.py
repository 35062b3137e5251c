"""Long texts as lists of lines: small models write them better than one escaped string."""

from collections.abc import Mapping
from typing import Any

from agent_fabric.domain.tools.specs import ToolSpec

_LONG = frozenset({"content", "text", "body", "code", "patch"})
"""Names of arguments that hold files, or parts of them."""


def takes_lines(name: str, schema: object) -> bool:
    """Tell whether an argument is put to the model as a list of lines."""
    return name in _LONG and isinstance(schema, Mapping) and schema.get("type") == "string"


def as_lines(tool: ToolSpec | None, arguments: object) -> object:
    """Return the arguments of a call with long texts as lists of lines, the way the model wrote them."""
    if tool is None or not isinstance(arguments, dict):
        return arguments
    return {
        name: value.split("\n") if isinstance(value, str) and _takes(tool, name) else value
        for name, value in arguments.items()
    }


def join_lines(tool: ToolSpec | None, arguments: object) -> object:
    """Return the arguments of a call as its tool takes them."""
    if tool is None or not isinstance(arguments, dict):
        return arguments
    return {
        name: _text(value) if isinstance(value, list) and _takes(tool, name) else value
        for name, value in arguments.items()
    }


def _takes(tool: ToolSpec, name: str) -> bool:
    return takes_lines(name, tool.parameters.get("properties", {}).get(name))


def _text(lines: list[Any]) -> object:
    if not all(isinstance(line, str) for line in lines):
        return lines  # not what was asked for; the tool's schema says so
    return "\n".join(line.rstrip("\n") for line in lines)
