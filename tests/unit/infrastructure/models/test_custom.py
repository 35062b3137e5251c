"""A model client that somebody else wrote."""

from dataclasses import replace
from typing import Any

import pytest

from agent_fabric.domain.errors import ConfigError, ModelAnswerUnusable
from agent_fabric.domain.ids import CallId
from agent_fabric.extend import LLMResponse, ModelSettings, ToolCallRequest, Usage
from agent_fabric.infrastructure.models.custom import CustomBackend
from agent_fabric.testing.fakes import quiet
from agent_fabric.testing.workbench import SETTINGS

HOW: Any = {"tools": (), "temperature": 0, "top_p": 1, "max_tokens": 9}
HERE = "unit.infrastructure.models.test_custom"


class Parrot:
    """A provider in a few lines: it finishes with what it was asked."""

    def __init__(self, settings: ModelSettings) -> None:
        self.name = settings.model

    async def chat(self, messages: Any, model: str, **_: Any) -> LLMResponse:
        call = ToolCallRequest(CallId("1"), "finish_task", '{"summary": "squawk"}')
        return LLMResponse(content="", tool_calls=(call,), usage=Usage(1, 1), model=self.name)


class Careless(Parrot):
    async def chat(self, messages: Any, model: str, **_: Any) -> LLMResponse:
        raise KeyError("choices")


class Silent(Parrot):
    async def chat(self, messages: Any, model: str, **_: Any) -> Any:
        return None


def mute(settings: ModelSettings) -> object:
    return object()


def broken(settings: ModelSettings) -> object:
    raise RuntimeError("no licence")


def named(function: str) -> ModelSettings:
    return replace(SETTINGS, backend="custom", builder=f"{HERE}:{function}", model="parrot")


@pytest.mark.proves("A33-031")
async def test_a_provider_is_a_class_with_one_method_named_in_the_configuration() -> None:
    backend = CustomBackend()
    client = await backend.ready(named("Parrot"), quiet)
    assert await backend.ready(named("Parrot"), quiet) is client
    answer = await client.chat([], "parrot", tools=(), temperature=0, top_p=1, max_tokens=9)
    assert (answer.model, answer.tool_calls[0].tool) == ("parrot", "finish_task")


async def test_a_run_that_began_with_other_settings_keeps_them() -> None:
    backend = CustomBackend()
    now = await backend.ready(named("Parrot"), quiet)
    then = await backend.ready(replace(named("Parrot"), model="macaw"), quiet)
    said = [(await client.chat([], "m", **HOW)).model for client in (now, then)]
    assert said == ["parrot", "macaw"]


@pytest.mark.parametrize(
    ("function", "why"), [("Careless", "KeyError: 'choices'"), ("Silent", "answered with NoneType")]
)
async def test_a_mistake_of_a_provider_is_told_as_its_own(function: str, why: str) -> None:
    client = await CustomBackend().ready(named(function), quiet)
    with pytest.raises(ModelAnswerUnusable, match=why) as caught:
        await client.chat([], "parrot", **HOW)
    assert function in caught.value.message


@pytest.mark.parametrize(
    ("function", "why"), [("mute", "cannot chat"), ("broken", "no licence"), ("nobody", "AttributeError")]
)
async def test_a_provider_that_is_none_is_explained(function: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why) as caught:
        await CustomBackend().ready(named(function), quiet)
    assert caught.value.hint


@pytest.mark.parametrize("builder", ["os:system", "os:remove", "builtins:print", "shutil:rmtree", f"{HERE}:HERE"])
async def test_what_is_no_builder_is_never_called(builder: str) -> None:
    with pytest.raises(ConfigError, match=r"it was not called|is not a callable object"):
        await CustomBackend().ready(replace(named("Parrot"), builder=builder), quiet)
