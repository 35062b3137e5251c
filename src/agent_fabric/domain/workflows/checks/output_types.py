"""Infers the outputs of a step and their types from the definition."""

import re
from collections.abc import Mapping
from dataclasses import field
from typing import Any, Final

from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.definitions.parameter import Parameter
from agent_fabric.domain.workflows.checks.action_rules import RULES
from agent_fabric.domain.workflows.checks.graph import Graph, GraphNode
from agent_fabric.domain.workflows.definition import BuiltIn


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentShape:
    """What an agent takes and gives."""

    inputs: Mapping[str, Parameter] = field(default_factory=dict)
    outputs: Mapping[str, Parameter] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownNames:
    """Names that a definition may use. None: they are not known, so they are not checked."""

    agents: Mapping[str, AgentShape] | None = None
    workflows: frozenset[str] | None = None
    actions: frozenset[str] = frozenset()
    """Actions that packages bring."""


_WHOLE: Final = re.compile(r"\{\{\s*([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)\s*\}\}", re.ASCII)
_HAS_TYPE: Final[Mapping[type, str]] = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    list: "array",
    dict: "object",
}


def whole_reference(value: object) -> tuple[str, ...] | None:
    """Return the path of a text that is one reference and nothing else, so that its value keeps its type."""
    match = _WHOLE.fullmatch(value) if isinstance(value, str) else None
    return tuple(match[1].split(".")) if match else None


def type_of(value: Any, graph: Graph, inputs: Mapping[str, Parameter], known: KnownNames) -> str:
    """Return the type that a written value will have when the step runs; `any` when that is open."""
    if not isinstance(value, str):
        return _HAS_TYPE.get(type(value), "any")
    path = whole_reference(value)
    if path is None:
        stripped = value.strip()
        one = stripped.startswith("{{") and stripped.endswith("}}")
        return "any" if one else "string"
    if path[0] == "inputs" and len(path) == 2 and path[1] in inputs:
        return inputs[path[1]].type
    if path in {("run", "id"), ("workflow", "name"), ("workflow", "version")} or path[0] == "secrets":
        return "string"
    if path[0] == "index":
        return "integer"
    node = graph.by_id.get(path[0])
    if node is None:
        return "any"
    if len(path) == 1:
        return "object"
    gives = outputs_of(node, known)
    return "any" if gives is None or len(path) > 2 else gives.get(path[1], "any")


def outputs_of(node: GraphNode, known: KnownNames, *, own: bool = True) -> Mapping[str, str] | None:
    """Return the names of a step's outputs with their types; None when they cannot be known.

    `own` are those that the step adds itself, under `outputs`.
    """
    gives = _given_by_action(node, known)
    if gives is None:
        return None
    return {**gives, **dict.fromkeys(node.part("outputs"), "any")} if own else gives


def _given_by_action(node: GraphNode, known: KnownNames) -> Mapping[str, str] | None:
    match node.action:
        case BuiltIn.TRANSFORM | BuiltIn.VALIDATE:
            return {name: _literal_type(value) for name, value in node.part("inputs").items()}
        case BuiltIn.PARALLEL_GROUP:
            return dict.fromkeys(_ids_inside(node, "steps"), "object")
        case BuiltIn.CONDITIONAL:
            inside = (*_ids_inside(node, "then"), *_ids_inside(node, "else"))
            return {**dict.fromkeys(inside, "object"), "branch": "string"}
        case BuiltIn.INVOKE_AGENT:
            agent = (known.agents or {}).get(str(node.plain.get("agent")))
            if agent is None or not agent.outputs:
                return None
            return {name: each.type for name, each in agent.outputs.items()}
        case action:
            rule = RULES.get(action)
            return None if rule is None else rule.gives


def _literal_type(value: Any) -> str:
    return "any" if isinstance(value, str) and "{{" in value else _HAS_TYPE.get(type(value), "any")


def _ids_inside(node: GraphNode, key: str) -> list[str]:
    steps = node.plain.get(key)
    return [
        step["id"]
        for step in (steps if isinstance(steps, list) else ())
        if isinstance(step, dict) and isinstance(step.get("id"), str)
    ]


def fits_type(wanted: str, got: str) -> bool:
    """Tell whether a value of one type can be what another one asks for."""
    return wanted == got or "any" in {wanted, got} or {wanted, got} == {"integer", "number"}
