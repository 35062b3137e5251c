"""A real model behind Ollama's face: the stand-in passes conversations on to the embedded llama.cpp.

There is no real Ollama here. This proves that our requests, in Ollama's own form, make a real model call a tool.
"""

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import pytest

from agent_fabric.domain.models.messages import LLMResponse, Message, Role, ToolDialect
from agent_fabric.domain.tools.specs import Effect, ToolSpec
from agent_fabric.infrastructure.models.model_http import HttpSession
from agent_fabric.infrastructure.models.ollama.backend import OllamaBackend
from agent_fabric.infrastructure.models.servers.llama_servers import LlamaServers, ServerSpec
from agent_fabric.testing.workbench import SETTINGS
from standins.ollama_standin import OllamaStandIn, StandInModel

pytest.importorskip("xllamacpp", reason="the extra `embedded` is not installed")

LOOK_UP = ToolSpec(
    name="look_up",
    description="Look up the capital of a country.",
    parameters={"type": "object", "properties": {"country": {"type": "string"}}, "required": ["country"]},
    effect=Effect.READS,
)
MESSAGES = (
    Message(Role.SYSTEM, "You answer by calling a tool."),
    Message(Role.USER, "Look up the capital of the country France."),
)


@pytest.mark.soak
@pytest.mark.parametrize("window", [None, 2_048], ids=["openai-route", "native-route"])
async def test_a_real_model_calls_a_tool_through_either_route_of_the_stand_in(
    tmp_path: Path, fast_weights: Path, window: int | None
) -> None:
    model = StandInModel(name="qwen2.5-coder:0.5b", parameter_size="494.03M", capabilities=("completion",))
    servers = LlamaServers(tmp_path / "servers")
    session = HttpSession()
    try:
        endpoint = await servers.ensure(ServerSpec(model=fast_weights, context_window=2_048, idle_s=5.0))
        async with OllamaStandIn(models=[model], forward_to=endpoint.base_url, forward_key=endpoint.api_key) as ollama:
            backend = OllamaBackend(session, ensure=False, start_cmd=("ollama", "serve"), auto_pull=False)
            settings = replace(
                SETTINGS,
                backend="ollama",
                base_url=ollama.base_url,
                model=model.name,
                dialect=ToolDialect.SCHEMA,
                context_window=window,
                sets_window=window is not None,
            )
            client = await backend.ready(settings, lambda _: None)
            async with asyncio.timeout(120):
                answer: LLMResponse = await client.chat(
                    MESSAGES, model.name, tools=(LOOK_UP,), temperature=0.0, top_p=1.0, max_tokens=80
                )
    finally:
        await session.aclose()
        await servers.stop_all()
        await servers.aclose()
    (call,) = answer.tool_calls
    assert call.tool == "look_up"
    assert json.loads(call.arguments)["country"].lower() == "france"
    assert answer.usage is not None
    assert answer.usage.prompt_tokens > 20
    assert ollama.requests[-1].path == ("/v1/chat/completions" if window is None else "/api/chat")
