"""A pack with one trivial tool, so that what is left is the platform's own cost."""

from collections.abc import Mapping
from typing import Any

from agent_fabric.extend import BaseSpecialistPack, Effect, ToolContext, ToolResult, make_finish_tool_def, make_tool_def

ADD = make_tool_def(
    "add", "Add two integers.", {"a": {"type": "integer"}, "b": {"type": "integer"}}, effect=Effect.READS
)
FINISH = make_finish_tool_def({"summary": {"type": "string"}})


async def add(args: Mapping[str, Any], context: ToolContext) -> ToolResult:  # noqa: ARG001 - as every tool
    return ToolResult(output={"result": args["a"] + args["b"]})


def build(workspace_path: str, network_allowed: bool) -> BaseSpecialistPack:  # noqa: ARG001 - as every builder
    return BaseSpecialistPack(system_prompt="You add.", tools=[(ADD, add)], finish=FINISH)
