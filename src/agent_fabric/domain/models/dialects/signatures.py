"""Tools on a line each, for models that read about them in the prompt."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from agent_fabric.domain.models.dialects.line_lists import takes_lines
from agent_fabric.domain.tools.specs import ToolSpec

_MAX_NESTING = 4


def signatures(tools: Sequence[ToolSpec], *, in_lines: bool = False) -> str:
    """Return one line for each tool: its name, its arguments and what it does; `in_lines`: long texts are lists."""
    shown = [replace(tool, parameters=_with_lines(tool.parameters)) for tool in tools] if in_lines else tools
    return "\n".join(f"- {tool.name}({_arguments(tool.parameters)}): {_one_line(tool.description)}" for tool in shown)


def _with_lines(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    properties = {
        name: {"type": "array", "items": {"type": "line"}} if takes_lines(name, part) else part
        for name, part in schema.get("properties", {}).items()
    }
    return {**schema, "properties": properties}


def _arguments(schema: Mapping[str, Any], depth: int = 0) -> str:
    required = schema.get("required", ())
    return ", ".join(
        f"{name}{'' if name in required else '?'}{_kind(part, depth)}"
        for name, part in schema.get("properties", {}).items()
    )


def _kind(schema: object, depth: int) -> str:
    """Say what a value must be; text goes without saying."""
    if not isinstance(schema, Mapping) or depth > _MAX_NESTING:
        return ""
    note = _one_line(str(schema.get("description", "")))
    if schema.get("enum"):
        kind = ": " + "|".join(map(str, schema["enum"]))
    elif schema.get("type") == "array":
        kind = f": [{_item(schema.get('items') or {}, depth)}, …]"
    elif schema.get("type") == "object":
        kind = f": {{{_arguments(schema, depth + 1)}}}"
    else:
        kind = "" if schema.get("type", "string") == "string" else f": {schema['type']}"
    return f"{kind} ({note})" if note else kind


def _item(schema: Mapping[str, Any], depth: int) -> str:
    if schema.get("type") == "object":
        return f"{{{_arguments(schema, depth + 1)}}}"
    return str(schema.get("type", "value"))


def _one_line(text: str) -> str:
    return " ".join(text.split())
