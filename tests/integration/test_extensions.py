"""Tools and model clients of others, in the shape that their authors know, in a whole run."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from agent_fabric.domain.ids import CallId
from agent_fabric.domain.runs.task import RunStatus
from agent_fabric.extend import (
    ChatClientProvider,
    LLMProvider,
    LLMResponse,
    Message,
    ModelSettings,
    Role,
    ToolCallRequest,
    ToolContext,
    ToolSpec,
    Usage,
)
from agent_fabric.testing.packs import run_task

HERE = "integration.test_extensions"


class Outcome(NamedTuple):
    """A result in the author's own type."""

    success: bool
    output: str = ""
    error: str = ""


class Thermometer:
    """A tool as an object."""

    name = "temperature"
    description = "Return the temperature of a city."

    async def execute(self, params: Mapping[str, Any], context: ToolContext) -> Outcome:
        if params.get("city") != "Bonn":
            return Outcome(success=False, error="only Bonn is known")
        return Outcome(success=True, output=f"12 degrees; network {context.network_allowed}, {context.working_dir}")


thermometer = Thermometer()
CALLS: tuple[tuple[str, str], ...] = (
    ("temperature", '{"city": "Rome"}'),
    ("temperature", '{"city": "Bonn"}'),
    ("finish_task", '{"summary": "12 degrees", "artifacts": [], "next_steps": [], "notes": ""}'),
)


def next_call(messages: Sequence[Message]) -> tuple[str, str]:
    return CALLS[min(sum(message.role is Role.ASSISTANT for message in messages), len(CALLS) - 1)]


class PlainClient:
    """A client with the signature of the port and nothing else."""

    async def chat(
        self,
        messages: Sequence[Message],
        model: str,
        *,
        tools: Sequence[ToolSpec],
        temperature: float,
        top_p: float,
        max_tokens: int,
    ) -> LLMResponse:
        assert (temperature, top_p, max_tokens) == (0.5, 0.8, 99)
        assert "temperature" in [tool.name for tool in tools]
        call = ToolCallRequest(CallId(f"call_{len(messages)}"), *next_call(messages))
        return LLMResponse(content="", tool_calls=(call,), usage=Usage(1, 1), model=model)


class Completion(NamedTuple):
    """An answer in the author's own type."""

    content: str
    model: str
    prompt_tokens: int
    completion_tokens: int


class Completions:
    """A provider: text in, text out."""

    async def complete(
        self, messages: Sequence[Message], *, model: str, temperature: float, max_tokens: int
    ) -> Completion:
        assert (temperature, max_tokens) == (0.5, 99)
        assert "temperature" in messages[0].content
        tool, params = next_call(messages)
        return Completion(f'Next.\n```tool_call\n{{"tool": "{tool}", "params": {params}}}\n```', model, 7, 3)

    async def list_models(self) -> list[str]:
        return ["small", "large"]


def plain_client(_: ModelSettings) -> PlainClient:
    return PlainClient()


def completions(_: ModelSettings) -> Completions:
    return Completions()


def configured(builder: str, **model: Any) -> Mapping[str, Any]:
    settings = {"builder": f"{HERE}:{builder}", "temperature": 0.5, "top_p": 0.8, "max_tokens": 99, **model}
    return {
        "models": {"quality": settings},
        "specialists": {"engineering": {"tools": [f"{HERE}:thermometer"]}},
    }


@pytest.mark.proves("AF-070", "A33-080", "A33-143", "C13")
async def test_a_client_and_a_tool_in_the_shape_of_their_ports_do_a_task(tmp_path: Path) -> None:
    result = await run_task(tmp_path, "How warm is it?", configured("plain_client", model="m"), pack="engineering")
    assert result.status is RunStatus.COMPLETED, result.error
    (log,) = (tmp_path / ".fabric/runs").glob("*/runlog.jsonl")
    outcomes = [
        event["payload"]
        for event in map(json.loads, log.read_text().splitlines())
        if event["kind"] in {"tool_error", "tool_result"}
    ]
    assert (outcomes[0]["error_type"], outcomes[0]["error_message"]) == ("ToolFailed", "only Bonn is known")
    assert outcomes[1]["result"] == {"result": f"12 degrees; network True, {log.parent / 'workspace'}"}


@pytest.mark.proves("A33-030", "A33-140", "C13")
async def test_a_provider_without_tool_calls_does_a_task_in_the_text_dialect(tmp_path: Path) -> None:
    result = await run_task(tmp_path, "How warm is it?", configured("completions"), pack="engineering")
    assert result.status is RunStatus.COMPLETED, result.error
    assert result.payload["summary"] == "12 degrees"


async def test_a_model_that_the_provider_does_not_list_is_refused(tmp_path: Path) -> None:
    result = await run_task(tmp_path, "Go.", configured("completions", model="other"), pack="engineering")
    assert result.error is not None
    assert "has no model 'other'; it has: small, large" in result.error.message


@pytest.mark.proves("A33-030", "C13")
async def test_a_chat_client_is_a_provider_as_well() -> None:
    class Echo:
        async def chat(self, messages: Sequence[Message], model: str, **how: Any) -> LLMResponse:
            assert how == {"tools": (), "temperature": 0.1, "top_p": 1.0, "max_tokens": 5}
            return LLMResponse(content=messages[-1].content.upper(), model=model, usage=Usage(2, 1))

    provider: LLMProvider = ChatClientProvider(Echo(), ["echo"])
    answer = await provider.complete([Message(Role.USER, "hi")], model="echo", temperature=0.1, max_tokens=5)
    assert (answer.content, answer.model, answer.prompt_tokens, answer.completion_tokens) == ("HI", "echo", 2, 1)
    assert await provider.list_models() == ["echo"]
