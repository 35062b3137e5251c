"""The form of an agent's file as JSON Schema, for editors that complete and check while one types."""

from typing import Any

from agent_fabric.domain.agents.capabilities import CAPABILITIES, SERVER_PREFIX
from agent_fabric.domain.agents.check import KEBAB_CASE, LONGEST_NAME, MAX_EXAMPLES, MAX_RETRIES, SEMVER
from agent_fabric.domain.agents.definition import FIRST_VERSION, DependencyKind, Role
from agent_fabric.domain.definitions.parameters import TYPES

_TEXT = {"type": "string"}
_FLAG = {"type": "boolean"}


def agent_schema() -> dict[str, Any]:
    """Return the schema. What it cannot say, such as which packs there are, `fabric agents validate` does."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Agent",
        "description": "An agent of agent-fabric: a named way of working, with declared inputs and outputs.",
        "type": "object",
        "required": ["name"],
        "additionalProperties": False,
        "properties": {
            "name": {
                "type": "string",
                "pattern": f"^{KEBAB_CASE}$",
                "maxLength": LONGEST_NAME,
                "description": "Unique, in small letters: release-notes.",
            },
            "version": {"type": "string", "pattern": f"^{SEMVER}$", "default": FIRST_VERSION},
            "role": {"enum": list(Role), "default": Role.WORKER, "description": "What it is there for."},
            "description": {"type": "string", "description": "What it does, in a sentence."},
            "capabilities": {
                "type": "array",
                "items": {"anyOf": [_capability_names(), {"type": "string", "pattern": f"^{SERVER_PREFIX}.+$"}]},
                "uniqueItems": True,
                "description": "What it may do; its tools follow from this. None: it has no tools.",
            },
            "inputs": _parameters("What it is given; prompts use {{ inputs.NAME }}."),
            "outputs": _parameters("What it must give at its end; none: a summary."),
            "dependencies": {"type": "array", "items": _dependency(), "description": "What must be there."},
            "prompts": _prompts(),
            "constraints": _constraints(),
            "metadata": _metadata(),
            "pack": {"type": "string", "description": "The pack whose prompt, tools and rules it builds on."},
            "model": {"type": "string", "description": "The key of a configured model; not set: the usual one."},
        },
    }


def _capability_names() -> dict[str, Any]:
    return {"oneOf": [{"const": name, "description": each.description} for name, each in CAPABILITIES.items()]}


def _parameters(description: str) -> dict[str, Any]:
    whole = {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "type": {"enum": list(TYPES), "default": "any"},
            "description": _TEXT,
            "required": _FLAG,
            "default": {},
            "enum": {"type": "array", "minItems": 1},
        },
    }
    return {
        "type": "object",
        "propertyNames": {"pattern": "^[A-Za-z_][A-Za-z0-9_]{0,63}$"},
        "additionalProperties": {"anyOf": [{"enum": list(TYPES)}, whole]},
        "description": description,
    }


def _dependency() -> dict[str, Any]:
    properties = {**{kind.value: _TEXT for kind in DependencyKind}, "name": _TEXT, "optional": _FLAG, "purpose": _TEXT}
    return {"anyOf": [_TEXT, {"type": "object", "additionalProperties": False, "properties": properties}]}


def _prompts() -> dict[str, Any]:
    example = {
        "type": "object",
        "additionalProperties": False,
        "properties": {"input": {}, "output": {}},
        "required": ["output"],
    }
    return {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "system": {"type": "string", "description": "Who it is and how it works; a template."},
            "user": {"type": "string", "description": "What it is asked; a template. Not set: its inputs."},
            "examples": {"type": "array", "maxItems": MAX_EXAMPLES, "items": example},
        },
    }


def _constraints() -> dict[str, Any]:
    return {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "max_tokens": {"type": "integer", "minimum": 1, "description": "Tokens of one run, in and out."},
            "timeout": {"type": "number", "exclusiveMinimum": 0, "description": "Seconds in model and tool calls."},
            "retries": {"type": "integer", "minimum": 0, "maximum": MAX_RETRIES, "default": 0},
            "parallel_allowed": {"type": "boolean", "default": True},
        },
    }


def _metadata() -> dict[str, Any]:
    properties = {"author": _TEXT, "created": _TEXT, "updated": _TEXT, "tags": {"type": "array", "items": _TEXT}}
    return {"type": "object", "properties": properties, "description": "For people; other keys are yours."}
