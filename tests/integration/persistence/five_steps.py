"""A run of five steps whose world counts what was really done."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from agent_fabric.domain.ids import CallId
from agent_fabric.domain.models.messages import LLMResponse, Message, Role, ToolCallRequest, Usage
from agent_fabric.domain.tools.specs import Effect, ToolContext, ToolResult
from agent_fabric.infrastructure.packs.base import BaseSpecialistPack, make_finish_tool_def, make_tool_def
from agent_fabric.testing.workbench import Answer


def looking_pack(done: Counter[str] | None = None) -> BaseSpecialistPack:
    """Return a pack whose one tool may always run again; `done` counts its calls."""

    async def look(args: Mapping[str, Any], context: ToolContext) -> ToolResult:
        if done is not None:
            done[str(args["at"])] += 1
        return ToolResult(output={"seen": args["at"], "text": "a long look " * 1_000})

    return BaseSpecialistPack(
        system_prompt="You look.",
        tools=[(make_tool_def("look", "Look.", {"at": {"type": "string"}}, effect=Effect.READS), look)],
        finish=make_finish_tool_def({"summary": {"type": "string"}}),
    )


def answers_of(steps: int) -> Answer:
    """Return a model that looks at one thing a step and finishes in the last one."""

    async def answer(messages: Sequence[Message]) -> LLMResponse:
        step = sum(message.role is Role.ASSISTANT for message in messages)
        if step < steps - 1:
            call = ToolCallRequest(CallId(f"call_{step}"), "look", f'{{"at": "place {step}"}}')
        else:
            call = ToolCallRequest(CallId(f"call_{step}"), "finish_task", '{"summary": "seen it all"}')
        return LLMResponse(content="", tool_calls=(call,), usage=Usage(10, 5), model="scripted", finish_reason="stop")

    return answer
