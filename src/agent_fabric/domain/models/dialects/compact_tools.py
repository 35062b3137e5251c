"""Shortens tool descriptions for small or slow models."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from agent_fabric.domain.tools.specs import FINISH_TASK, ToolSpec

_SENTENCE_END = re.compile(r"(?<=[a-z0-9)`'\"][.!?])\s")
_LEFT_OUT = frozenset({"title", "examples", "$schema", "default"})


def compact(tools: Sequence[ToolSpec]) -> tuple[ToolSpec, ...]:
    """Return the tools with the first sentence of what is said about them, and nothing that a name says already.

    `finish_task` keeps what it must have and what the engine checks; a small model's lists of files and next steps are
    guesses, and the log knows better.
    """
    return tuple(replace(tool, description=_first(tool.description), parameters=_parameters(tool)) for tool in tools)


def _parameters(tool: ToolSpec) -> Mapping[str, Any]:
    schema = _plain(tool.parameters)
    if tool.name != FINISH_TASK:
        return schema
    required = schema.get("required", ())
    kept = {name: part for name, part in schema["properties"].items() if name in required or _is_evidence(part)}
    return {**schema, "properties": kept}


def _is_evidence(schema: Mapping[str, Any]) -> bool:
    """A list of objects is what the engine checks, such as citations; plain texts are not."""
    items = schema.get("items")
    return isinstance(items, Mapping) and items.get("type") == "object"


def _plain(schema: Mapping[str, Any]) -> dict[str, Any]:
    plain = {key: value for key, value in schema.items() if key not in _LEFT_OUT and key != "description"}
    if isinstance(schema.get("properties"), Mapping):
        plain["properties"] = {name: _describe(name, part) for name, part in schema["properties"].items()}
    if isinstance(schema.get("items"), Mapping):
        plain["items"] = _plain(schema["items"])
    return plain


def _describe(name: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    plain = _plain(schema)
    about = schema.get("description")
    if isinstance(about, str) and not _says(name, about):
        plain["description"] = _first(about)
    return plain


def _says(name: str, about: str) -> bool:
    """Tell whether a parameter's name already says what its description does."""
    return all(word in about.casefold() for word in name.casefold().split("_"))


def _first(text: str) -> str:
    return _SENTENCE_END.split(" ".join(text.split()), maxsplit=1)[0]
