"""For tests of packs and tools: a sandbox in a folder, one tool call, a model that follows a list, a whole run."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from agent_fabric.application.ports.sandbox import Sandbox
from agent_fabric.application.runs.new_task import task_from
from agent_fabric.bootstrap.local import build_local
from agent_fabric.config.installed_packs import installed_packs
from agent_fabric.config.loader import read_config
from agent_fabric.domain.ids import CallId, RunId
from agent_fabric.domain.models.messages import LLMResponse, Message, Role, ToolCallRequest
from agent_fabric.domain.runs.task import RunResult
from agent_fabric.domain.tools.json_schema import problems_with
from agent_fabric.domain.tools.specs import ToolContext, ToolResult
from agent_fabric.infrastructure.packs.configured_tools import as_tool
from agent_fabric.infrastructure.packs.function_tools import SandboxedTool
from agent_fabric.infrastructure.sandbox.unconfined import UnconfinedSandbox
from agent_fabric.infrastructure.tools.tool_objects import Tool
from agent_fabric.testing.workbench import Answer


def sandbox_in(folder: Path) -> Sandbox:
    """Return a sandbox whose workspace is this folder."""
    return UnconfinedSandbox(folder, "a-test")


async def call_tool(tool: SandboxedTool | Tool, sandbox: Sandbox, /, **args: Any) -> ToolResult:
    """Call a tool as a run does: arguments that do not fit its schema never reach it.

    Raises:
        ValueError: the arguments do not fit.
    """
    spec, function = as_tool(tool).within(sandbox)
    problems = problems_with(args, spec.parameters)
    if problems:
        raise ValueError("; ".join(problems))
    context = ToolContext(
        run_id=RunId("a-test"), call_id=CallId("a-call"), timeout_s=spec.timeout_s, network_allowed=False
    )
    return await function(args, context)


def calls(*expected: tuple[str, Mapping[str, Any]]) -> Answer:
    """Return a model for the workbench that makes these tool calls, one a turn."""

    async def answer(messages: Sequence[Message]) -> LLMResponse:
        turn = sum(message.role is Role.ASSISTANT for message in messages)
        name, arguments = expected[turn]
        call = ToolCallRequest(CallId(f"call_{turn}"), name, json.dumps(arguments))
        return LLMResponse(content="", tool_calls=(call,))

    return answer


async def run_task(folder: Path, prompt: str, settings: Mapping[str, Any], *, pack: str | None = None) -> RunResult:
    """Do a task with everything real but the command line, below `folder`; `settings` have the shape of a file.

    Packs of installed packages can be had; no file and no variable of the person who runs the test counts.
    """
    loaded = read_config({}, overrides=settings, packages=installed_packs)
    fabric = build_local(folder / ".fabric", loaded)
    try:
        return await fabric.execute_task(task_from(loaded.config, prompt, pack=pack))
    finally:
        await fabric.aclose()
