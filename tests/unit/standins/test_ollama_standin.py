"""The stand-in for Ollama has the documented shapes and the habits that clients must cope with."""

from typing import Any

import aiohttp
import pytest

from agent_fabric.testing.scripted_answers import Call, Say
from agent_fabric.testing.scripted_model import ScriptedModel
from standins.ollama_standin import OllamaStandIn, StandInModel
from standins.ollama_wire import fitted

ASKED = {"model": "qwen2.5-coder:1.5b", "messages": [{"role": "user", "content": "hi"}]}


async def post(url: str, body: dict[str, Any]) -> tuple[int, str, str]:
    async with aiohttp.ClientSession() as session, session.post(url, json=body) as answer:
        return answer.status, answer.headers["content-type"], await answer.text()


async def get(url: str) -> Any:
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        return await (answer.text() if "json" not in answer.headers["content-type"] else answer.json())


async def test_routes_answer_in_the_documented_shapes() -> None:
    async with OllamaStandIn([Say("hello")]) as ollama:
        assert await get(ollama.root) == "Ollama is running"
        assert (await get(f"{ollama.root}/api/version")).keys() == {"version"}
        (listed,) = (await get(f"{ollama.root}/api/tags"))["models"]
        assert listed.keys() == {"name", "model", "modified_at", "size", "digest", "details"}
        assert len(listed["digest"]) == 64
        assert (await get(f"{ollama.root}/v1/models"))["data"][0]["owned_by"] == "library"
        assert (await get(f"{ollama.root}/api/ps"))["models"] == []
        await post(f"{ollama.root}/api/chat", ASKED)
        (running,) = (await get(f"{ollama.root}/api/ps"))["models"]
        assert running["context_length"] == 4_096


async def test_native_chat_streams_unless_told_otherwise() -> None:
    async with OllamaStandIn([Say("hello you")]) as ollama:
        status, kind, text = await post(f"{ollama.root}/api/chat", ASKED)
        assert (status, kind) == (200, "application/x-ndjson")
        assert len(text.splitlines()) > 2
        _, kind, text = await post(f"{ollama.root}/api/chat", ASKED | {"stream": False})
        assert kind.startswith("application/json")
        assert len(text.splitlines()) == 1


@pytest.mark.parametrize(
    ("path", "key"), [("/api/chat", '"error": "model'), ("/v1/chat/completions", "not_found_error")]
)
async def test_unknown_model_is_404_in_the_form_of_the_route(path: str, key: str) -> None:
    async with OllamaStandIn() as ollama:
        status, _, text = await post(f"{ollama.root}{path}", ASKED | {"model": "nobody"})
    assert status == 404
    assert key in text


def test_what_does_not_fit_is_dropped_from_the_front_and_the_system_stays() -> None:
    messages = [{"role": "system", "content": "S"}, *({"role": "user", "content": "u" * 4_000} for _ in range(6))]
    kept, size = fitted(messages, None, 2_500)
    assert [message["role"] for message in kept] == ["system", "user", "user"]
    assert size <= 2_500
    one, size = fitted([{"role": "user", "content": "u" * 40_000}], None, 2_000)
    assert (len(one), size) == (1, 1_000)


async def test_conversation_is_passed_on_to_a_real_server_in_openais_form() -> None:
    tools = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}]
    async with (
        ScriptedModel([Call("look", {"at": "x"}, usage=(7, 3))]) as real,
        OllamaStandIn(models=[StandInModel()], forward_to=real.base_url) as ollama,
    ):
        body = ASKED | {"tools": tools, "stream": False, "options": {"num_predict": 5, "num_ctx": 99}}
        _, _, native = await post(f"{ollama.root}/api/chat", body)
        await post(f"{ollama.base_url}/chat/completions", ASKED | {"tools": tools, "tool_choice": "required"})
        first, second = (request.body for request in real.requests)
    assert '"tool_calls": [{"function": {"name": "look", "arguments": {"at": "x"}}}]' in native
    assert '"prompt_eval_count": 7' in native
    assert first["max_tokens"] == 5
    assert "tool_choice" not in second, "Ollama does not know it"
