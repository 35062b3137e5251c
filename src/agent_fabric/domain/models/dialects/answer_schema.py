"""The JSON schema that lets a model write nothing but a call of one of its tools."""

from collections.abc import Mapping, Sequence
from typing import Any

from agent_fabric.domain.models.dialects.call_text import THOUGHT
from agent_fabric.domain.tools.specs import ToolSpec

_WRITTEN_IN_LINES = frozenset({"content", "text", "body", "code", "patch"})
"""Names of arguments that hold files, or parts of them."""


def takes_lines(name: str, schema: object) -> bool:
    """Tell whether an argument is put to the model as a list of lines."""
    return name in _WRITTEN_IN_LINES and isinstance(schema, Mapping) and schema.get("type") == "string"


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


MAX_TEXT_CHARS = 6_000
"""Characters of one argument: a model that loops is cut off, whatever else limits its answer."""
MAX_LINE_CHARS = 1_000
"""Characters of an argument that is hardly ever longer: a path, a command."""
MAX_THOUGHT_CHARS = 200
MAX_SUMMARY_CHARS = 300
"""Characters of what a model says in the end; small ones say the same sentence until they are cut off."""
MAX_ITEMS = 12
MAX_LINES = 200
"""Of a file that is written in one call."""
_LONG = frozenset({"content", "text", "body", "code", "patch", "quote"})


def schema_of_calls(tools: Sequence[ToolSpec], only: str | None = None, *, why_first: bool = False) -> dict[str, Any]:
    """Return the schema of one call of any of the tools, or of one of them.

    With `why_first` the model must say something before the call: what went wrong, after a call that failed.
    """
    before = {THOUGHT: {"type": "string", "minLength": 1, "maxLength": MAX_THOUGHT_CHARS}} if why_first else {}
    chosen = [tool for tool in tools if tool.name == only] or list(tools)
    forms = [
        {
            "type": "object",
            "properties": {
                **before,
                "name": {"const": tool.name},
                "arguments": _limit_schema(tool.parameters, tool.name),
            },
            "required": [*before, "name", "arguments"],
            "additionalProperties": False,
        }
        for tool in chosen
    ]
    return forms[0] if len(forms) == 1 else {"oneOf": forms}


def _limit_schema(schema: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Leave out what does not constrain, and end what a model could go on with for ever."""
    capped = {key: value for key, value in schema.items() if key not in _TELLS}
    kind = schema.get("type")
    if takes_lines(name, schema):
        return {"type": "array", "items": {"type": "string", "maxLength": MAX_LINE_CHARS}, "maxItems": MAX_LINES}
    if kind == "string" and "enum" not in schema and "const" not in schema:
        longest = MAX_TEXT_CHARS if name in _LONG else MAX_SUMMARY_CHARS if name == "summary" else MAX_LINE_CHARS
        capped["maxLength"] = min(schema.get("maxLength", longest), longest)
    if kind == "array":
        capped["items"] = _limit_schema(schema.get("items") or {"type": "string"}, name)
        capped["maxItems"] = min(schema.get("maxItems", MAX_ITEMS), MAX_ITEMS)
    if kind == "object" or "properties" in schema:
        capped["properties"] = {key: _limit_schema(part, key) for key, part in schema.get("properties", {}).items()}
        capped.setdefault("additionalProperties", False)
    return capped


_TELLS = frozenset({"description", "title", "default", "examples", "$schema"})
