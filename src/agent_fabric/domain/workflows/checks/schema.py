"""The JSON Schema of a workflow's file, for editors; made from the same tables as the check."""

from collections.abc import Mapping
from typing import Any, Final, assert_never

from agent_fabric.domain.workflows.checks.action_rules import RULES, ActionRule
from agent_fabric.domain.workflows.checks.fields import Either, Entries, Field, Group, Kind, Leaf, Steps
from agent_fabric.domain.workflows.checks.shape import STEP, WORKFLOW

_DRAFT: Final = "https://json-schema.org/draft/2020-12/schema"


def workflow_schema() -> dict[str, Any]:
    """Return the schema. It tells an editor what may be written where; what only the check finds is not in it."""
    step = _group(STEP)
    step["properties"]["action"] = {
        "description": STEP.fields["action"].doc,
        "anyOf": [
            *({"const": action, "description": rule.doc} for action, rule in RULES.items()),
            {"type": "string", "minLength": 1, "description": "An action that a package brings."},
        ],
    }
    step["allOf"] = [
        {
            "if": {"properties": {"action": {"const": action}}, "required": ["action"]},
            "then": _needed(rule),
        }
        for action, rule in RULES.items()
    ]
    return {
        "$schema": _DRAFT,
        "title": "Workflow",
        **_group(WORKFLOW),
        "$defs": {"step": step},
    }


def _needed(rule: ActionRule) -> dict[str, Any]:
    then: dict[str, Any] = {}
    needs = list(rule.needs)
    if rule.one_input_of and "inputs" not in needs:
        needs.append("inputs")
    if needs:
        then["required"] = needs
    if rule.needs_one_of:
        then["anyOf"] = [{"required": [name]} for name in rule.needs_one_of]
    properties: dict[str, Any] = {}
    if rule.inputs:
        inputs: dict[str, Any] = {
            "properties": {name: {"description": each.doc} for name, each in rule.inputs.items()},
        }
        required = [name for name, each in rule.inputs.items() if each.required]
        if required:
            inputs["required"] = required
        if rule.one_input_of:
            inputs["oneOf"] = [{"required": [name]} for name in rule.one_input_of]
        properties["inputs"] = inputs
    properties |= {name: {"minItems": 1} for name in rule.needs if name == "steps"}
    if properties:
        then["properties"] = properties
    return then


def _group(group: Group) -> dict[str, Any]:
    return {
        "description": group.doc,
        "type": "object",
        "properties": {name: _field(each) for name, each in group.fields.items()},
        "required": [name for name, each in group.fields.items() if each.required],
        "additionalProperties": False,
    }


def _field(field: Field) -> dict[str, Any]:
    schema = _kind(field.kind)
    if field.nullable:
        schema = {"anyOf": [schema, {"type": "null"}]}
    schema = {**schema, "description": field.doc}
    if field.default is not None:
        schema["default"] = field.default
    return schema


def _kind(kind: Kind) -> dict[str, Any]:
    match kind:
        case Leaf():
            return dict(kind.schema)
        case Group():
            return _group(kind)
        case Entries():
            schema: dict[str, Any] = {"type": "object", "additionalProperties": _of(kind)}
            if kind.keys is not None:
                schema["propertyNames"] = dict(kind.keys.schema)
            return schema
        case Either():
            return {"anyOf": [dict(kind.short.schema), _group(kind.full)]}
        case Steps():
            return {"type": "array", "items": {"$ref": "#/$defs/step"}, **({"minItems": 1} if kind.needed else {})}
        case _:
            assert_never(kind)


def _of(entries: Entries) -> Mapping[str, Any] | bool:
    return _kind(entries.of) or True
