"""The `sysadmin` pack (FC-022): an autonomous system administrator for the machines of the fleet."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from agent_fabric.application.fleet.fleet_policy import FLEET_PLAN, NODE_COMMAND, NODE_RUN, FleetDoor
from agent_fabric.domain.errors import FabricError
from agent_fabric.domain.fleet.chosen_node import NODE_ARGUMENT, NODE_PREFIX
from agent_fabric.domain.fleet.commands import CommandStatus, NodeCommand
from agent_fabric.domain.fleet.node_tools import NODE_TOOLS, NOT_FOR_AGENTS
from agent_fabric.domain.fleet.read_back import may_have_happened, surely_reads
from agent_fabric.domain.proofs import ProofKind
from agent_fabric.domain.tools import Effect, ToolContext, ToolResult, ToolSpec, Trust, object_schema
from agent_fabric.infrastructure.packs.base import BaseSpecialistPack
from agent_fabric.infrastructure.packs.prompts.sysadmin import SYSTEM_PROMPT_SYSADMIN
from agent_fabric.infrastructure.packs.tool_defs import make_finish_tool_def
from agent_fabric.infrastructure.packs.tool_objects import ToolFunction

_MAX_TIMEOUT_S: Final = 3600.0
_SAID_CHARS = 500
"""Of what a command said that has failed."""
_NODE: Final[Mapping[str, Any]] = {"type": "string", "description": "The name of the machine; see node_list."}
_FINISH: Final[Mapping[str, Any]] = {
    "summary": {"type": "string", "description": "What was found and done, for the person who asked."},
    "machines": {
        "type": "array",
        "items": {"type": "string"},
        "description": "The machines that were changed; empty if none was.",
    },
    "verified": {"type": "string", "description": "How each change was checked afterwards, with what was read."},
    "next_steps": {"type": "array", "items": {"type": "string"}},
}


def build_sysadmin_pack(door: FleetDoor, also: Sequence[tuple[ToolSpec, ToolFunction]] = ()) -> BaseSpecialistPack:
    """Return the pack; its tools reach the machines that are connected to this process. `also` are more tools."""
    return BaseSpecialistPack(
        system_prompt=SYSTEM_PROMPT_SYSADMIN,
        tools=(*node_tools(door), *also),
        finish=make_finish_tool_def(_FINISH, needs_reading_back=True),
    )


def node_tools(door: FleetDoor) -> Sequence[tuple[ToolSpec, ToolFunction]]:
    """Return `node_list`, and every tool of nodes with one more argument: which node."""
    return (
        _node_list(door),
        *(_node_tool(door, spec) for spec in NODE_TOOLS.values() if spec.name not in NOT_FOR_AGENTS),
    )


def _node_list(door: FleetDoor) -> tuple[ToolSpec, ToolFunction]:
    spec = ToolSpec(
        name="node_list",
        description="List the machines of the fleet: name, status, labels, platform.",
        parameters=object_schema({}),
        effect=Effect.READS,
        trust=Trust.NODE,
    )

    async def call(args: Mapping[str, Any], context: ToolContext) -> ToolResult:  # noqa: ARG001 - as every tool
        try:
            nodes = await door.tools.nodes()
        except FabricError as problem:
            return ToolResult(success=False, error=_said(problem))
        listed = [
            {"name": node.name, "status": node.status.value, "labels": dict(node.labels), "platform": node.platform}
            for node in nodes
        ]
        return ToolResult(output={"nodes": listed})

    return spec, call


def _node_tool(door: FleetDoor, spec: ToolSpec) -> tuple[ToolSpec, ToolFunction]:
    properties = {"node": _NODE, **spec.parameters["properties"]}
    offered = replace(
        spec,
        name=f"{NODE_PREFIX}{spec.name}",
        parameters=object_schema(properties, ("node", *spec.parameters.get("required", ()))),
        timeout_s=_MAX_TIMEOUT_S,
    )

    async def call(args: Mapping[str, Any], context: ToolContext) -> ToolResult:
        if not args.get(NODE_ARGUMENT):  # nobody has judged a call that names none
            return ToolResult(success=False, error="Name the machine in `node`; node_list tells which there are.")
        arguments = {key: value for key, value in args.items() if key != NODE_ARGUMENT}
        try:
            tools = door.tools
            left = await tools.not_read_back(context.run_id)
            command = await tools.execute(
                str(args["node"]),
                spec.name,
                arguments,
                run_id=context.run_id,
                call_id=context.call_id,
                by=context.agent or "run",
            )
        except FabricError as problem:
            return ToolResult(success=False, error=_said(problem))
        result = _result(command, str(args["node"]))
        return _with_proof(result, command, str(args["node"]), left, await tools.not_read_back(context.run_id))

    return offered, call


def _with_proof(
    result: ToolResult, command: NodeCommand, node: str, before: Sequence[str], after: Sequence[str]
) -> ToolResult:
    """Add what a call means for what the run has to show: something was changed, or all of it was read afterwards."""
    output = {**result.output, **({"not_read_back": list(after)} if after else {})} if result.success else result.output
    if command.status is CommandStatus.IN_DOUBT:  # it may have happened, so it has to be looked at
        doubt = {"status": command.status.value, "error": result.error, "not_read_back": list(after)}
        return replace(result, success=True, error="", output=doubt, changed=True)
    if not surely_reads(command.tool_name, command.arguments):
        return replace(result, output=output, changed=may_have_happened(command))
    if before and not after:
        what = command.arguments.get("command") or command.arguments.get("path") or command.tool_name
        return replace(result, output=output, proved=f"{node}: {what}", proof_kind=ProofKind.MACHINE)
    return replace(result, output=output)


def node_command_tool(door: FleetDoor) -> tuple[ToolSpec, ToolFunction]:
    """Return the action that carries out a command which a person asked for and another one approves."""
    spec = ToolSpec(
        name=NODE_COMMAND,
        description="Carry out a command on a machine of the fleet.",
        parameters=object_schema(
            {
                "node": {"type": "string"},
                "tool_name": {"type": "string"},
                "arguments": {"type": "object"},
                "execution_id": {"type": "string"},
            },
            ("node", "tool_name", "arguments", "execution_id"),
        ),
        effect=Effect.LEAVES_SANDBOX,
        timeout_s=24 * 3600.0,
        trust=Trust.NODE,
    )

    async def call(args: Mapping[str, Any], context: ToolContext) -> ToolResult:
        try:
            command = await door.tools.carry_out(
                str(args["execution_id"]), dict(args["arguments"]), run_id=context.run_id
            )
        except FabricError as problem:
            return ToolResult(success=False, error=_said(problem))
        return _result(command, str(args["node"]))

    return spec, call


def node_run_tool(door: FleetDoor) -> tuple[ToolSpec, ToolFunction]:
    """Return the action that runs a tool on a machine, such as for a schedule; what asks, the run asks for."""
    spec = ToolSpec(
        name=NODE_RUN,
        description="Run a tool on a machine of the fleet.",
        parameters=object_schema(
            {"node": _NODE, "tool_name": {"type": "string"}, "arguments": {"type": "object"}},
            ("node", "tool_name", "arguments"),
        ),
        effect=Effect.LEAVES_SANDBOX,
        timeout_s=_MAX_TIMEOUT_S,
        trust=Trust.NODE,
    )

    async def call(args: Mapping[str, Any], context: ToolContext) -> ToolResult:
        try:
            command = await door.tools.execute(
                str(args["node"]),
                str(args["tool_name"]),
                dict(args["arguments"]),
                run_id=context.run_id,
                call_id=context.call_id,
                by=context.agent or "run",
            )
        except FabricError as problem:
            return ToolResult(success=False, error=_said(problem))
        result = _result(command, str(args["node"]))
        if result.success and result.output.get("exit_code"):  # nobody reads on: the step has failed
            said = str(result.output.get("stderr") or result.output.get("stdout") or "").strip()[-_SAID_CHARS:]
            error = f"The command ended with exit code {result.output['exit_code']}: {said}"
            return ToolResult(output=result.output, success=False, error=error, origin=result.origin)
        return result

    return spec, call


def fleet_plan_tool(door: FleetDoor) -> tuple[ToolSpec, ToolFunction]:
    """Return the action that begins a plan once a person has agreed to all of it."""
    properties: Mapping[str, Any] = {
        "plan_id": {"type": "string"},
        "hash": {"type": "string"},
        "tool_name": {"type": "string"},
        "arguments": {"type": "object"},
        "nodes": {"type": "array", "items": {"type": "string"}},
        "waves": {"type": "array", "items": {"type": "integer"}},
        "check": {"type": "string"},
    }
    spec = ToolSpec(
        name=FLEET_PLAN,
        description="Roll out a plan to machines of the fleet.",
        parameters=object_schema(properties, tuple(properties)),
        effect=Effect.LEAVES_SANDBOX,
        trust=Trust.NODE,
    )

    async def call(args: Mapping[str, Any], context: ToolContext) -> ToolResult:
        try:
            plan = await door.tools.begin_plan(args, run_id=context.run_id)
        except FabricError as problem:
            return ToolResult(success=False, error=_said(problem))
        return ToolResult(output={"plan_id": plan.id, "status": plan.status.value})

    return spec, call


def _result(command: NodeCommand, node: str) -> ToolResult:
    output = {"execution_id": command.execution_id, "node": node, **(command.result or {})}
    output.pop("chain_head", None)
    origin = f"node {node}"
    if command.status is CommandStatus.SUCCESS:
        return ToolResult(output=output, origin=origin)
    if command.status is CommandStatus.ERROR and "exit_code" in output:
        return ToolResult(output=output, origin=origin)  # the command ran, and failed: the model reads why
    return ToolResult(success=False, error=f"{command.status.value}: {output.get('error', '')}", origin=origin)


def _said(problem: FabricError) -> str:
    return f"{problem.message}. {problem.hint}".strip() if problem.hint else problem.message
