"""The JSON Schema of a workflow's file, for editors; made from the same tables as the check."""

from typing import Any

from agent_fabric.domain.definitions.schema import DRAFT, group_schema
from agent_fabric.domain.workflows.checks.action_rules import RULES, ActionRule
from agent_fabric.domain.workflows.checks.shape import STEP, WORKFLOW


def workflow_schema() -> dict[str, Any]:
    """Return the schema. It tells an editor what may be written where; what only the check finds is not in it."""
    step = group_schema(STEP)
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
            "then": _required_inputs(rule),
        }
        for action, rule in RULES.items()
    ]
    return {
        "$schema": DRAFT,
        "title": "Workflow",
        **group_schema(WORKFLOW),
        "$defs": {"step": step},
    }


def _required_inputs(rule: ActionRule) -> dict[str, Any]:
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
