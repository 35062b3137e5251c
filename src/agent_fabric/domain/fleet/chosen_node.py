"""The machine that a run is about: what its model is told, and what its calls to machines mean. Light and pure."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from agent_fabric.domain.fleet.served_tools import served_name
from agent_fabric.domain.tools.specs import ToolSpec, Trust, object_schema

NODE_PREFIX: Final = "node_"
"""What the tools of agents on nodes are called: `node_run_command`."""
NODE_ARGUMENT: Final = "node"
A_MACHINE: Final = "a machine of the fleet"
"""Where the arguments of a tool go that names its machine with each call."""
MAX_KEY_CHARS: Final = 4_000
"""Of a call that is remembered."""


def goes_to_node(spec: ToolSpec) -> bool:
    """Tell whether calls of a tool go to a machine that they name."""
    named = NODE_ARGUMENT in spec.parameters.get("properties", {})
    return named and spec.trust is Trust.NODE and spec.name.startswith(NODE_PREFIX)


def machine_of(spec: ToolSpec, args: Mapping[str, Any]) -> str:
    """Return the machine that a call goes to, as the call names it; empty: to none, or it names none."""
    if spec.trust is not Trust.NODE:
        return ""
    served = served_name(spec.name)
    if served is not None:
        return served.node
    named = args.get(NODE_ARGUMENT) if NODE_ARGUMENT in spec.parameters.get("properties", {}) else None
    return named if isinstance(named, str) else ""


def without_machine(args: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a call tells its machine: everything but which one it is."""
    return {name: value for name, value in args.items() if name != NODE_ARGUMENT}


def sent_key(tool: str, args: Mapping[str, Any]) -> str:
    """Return what identifies a call to machines, whichever it goes to; empty: it is none, or too long to remember."""
    if not tool.startswith(NODE_PREFIX) or NODE_ARGUMENT not in args:
        return ""
    key = json.dumps([tool, without_machine(args)], sort_keys=True, ensure_ascii=False, default=str)
    return key if len(key) <= MAX_KEY_CHARS else ""


def offered_about(tools: Iterable[ToolSpec], node: str) -> tuple[ToolSpec, ...]:
    """Return tools as a run about a machine is offered them: a call need not name the machine.

    Of tools of servers on machines (`NODE.SERVER.tool`), those of the machine stay.
    """
    if not node:
        return tuple(tools)
    return tuple(_with_default(spec, node) if goes_to_node(spec) else spec for spec in tools if _concerns(spec, node))


def _concerns(spec: ToolSpec, node: str) -> bool:
    served = served_name(spec.name) if spec.trust is Trust.NODE else None
    return served is None or served.node == node


def named_call(spec: ToolSpec, args: dict[str, Any], node: str) -> dict[str, Any]:
    """Return the arguments of a call with the machine that it means, so that policy, people and log see it named."""
    if not node or args.get(NODE_ARGUMENT) or not goes_to_node(spec):
        return args
    return {NODE_ARGUMENT: node, **{key: value for key, value in args.items() if key != NODE_ARGUMENT}}


def words_about(node: str, tools: Iterable[ToolSpec]) -> str:
    """Return what a model is told about the machine that a person has chosen."""
    told = f"The person has chosen the machine {node}: what they ask is about it, unless they name another one."
    if any(map(goes_to_node, tools)):
        told += f" Calls of {NODE_PREFIX}* tools without `{NODE_ARGUMENT}` go to {node}."
    return told


def _with_default(spec: ToolSpec, node: str) -> ToolSpec:
    about = {"type": "string", "description": f"The name of the machine; {node} if it is left out."}
    required = [name for name in spec.parameters.get("required", ()) if name != NODE_ARGUMENT]
    return replace(spec, parameters=object_schema({**spec.parameters["properties"], NODE_ARGUMENT: about}, required))
