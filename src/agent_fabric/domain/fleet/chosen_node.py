"""The machine that a run is about: what its model is told, and what its calls to machines mean. Light and pure."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final

from agent_fabric.domain.fleet.served_tools import served_name
from agent_fabric.domain.tools import ToolSpec, Trust, object_schema

NODE_PREFIX: Final = "node_"
"""What the tools of agents on nodes are called: `node_run_command`."""
NODE_ARGUMENT: Final = "node"


def goes_to_node(spec: ToolSpec) -> bool:
    """Tell whether calls of a tool go to a machine that they name."""
    named = NODE_ARGUMENT in spec.parameters.get("properties", {})
    return named and spec.trust is Trust.NODE and spec.name.startswith(NODE_PREFIX)


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
