"""With `offline: true` no model of another machine is asked, whatever its address looks like."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from agent_fabric.application.ports.llm import ChatClient, Notice
from agent_fabric.domain.errors import ModelForbidden
from agent_fabric.domain.models.messages import LLMResponse, Message, ModelSettings
from agent_fabric.domain.runs.task import Priority
from agent_fabric.infrastructure.models.stack import OfflineChatClients
from agent_fabric.testing.fakes import FunctionClient
from agent_fabric.testing.workbench import SETTINGS

LOCAL = replace(SETTINGS, base_url="http://127.0.0.1:11434/v1")


class Turns:
    """ChatClients that remembers for whom it gave a turn."""

    def __init__(self) -> None:
        self.given: list[ModelSettings] = []

    @asynccontextmanager
    async def turn(
        self,
        settings: ModelSettings,
        *,
        priority: Priority,
        notice: Notice,
    ) -> AsyncIterator[ChatClient]:
        self.given.append(settings)
        yield FunctionClient(_silent)


async def _silent(_: Sequence[Message]) -> LLMResponse:
    raise NotImplementedError


@pytest.mark.proves("C10")
@pytest.mark.parametrize(
    "base_url",
    [
        "https://models.example/v1",
        "http://192.168.1.20:11434/v1",
        "http://localhost.models.example/v1",
        "http://127.0.0.1.models.example/v1",
        "http://localhost@models.example/v1",
        "http://0.0.0.0:11434/v1",
        "http://[fe80::1]/v1",
        "localhost",
        "http://[broken",
        "",
    ],
)
async def test_offline_refuses_every_other_machine_before_anything_is_opened(base_url: str) -> None:
    inner = Turns()
    with pytest.raises(ModelForbidden) as refusal:
        OfflineChatClients(inner).turn(replace(LOCAL, base_url=base_url), priority=Priority.BATCH, notice=print)
    assert (refusal.value.code, refusal.value.retryable) == ("offline", False)
    assert "`offline: true`" in refusal.value.message
    assert "--model-key" in refusal.value.hint
    assert inner.given == []


@pytest.mark.parametrize(
    "settings",
    [
        LOCAL,
        replace(LOCAL, base_url="http://LOCALHOST.:11434/v1"),
        replace(LOCAL, base_url="http://[::1]:11434/v1"),
        replace(LOCAL, base_url="http://127.9.9.9/v1"),
        replace(LOCAL, base_url="", backend="embedded"),
        replace(LOCAL, base_url="managed:", backend="managed"),
    ],
    ids=lambda settings: settings.base_url or "embedded",
)
async def test_offline_lets_this_machine_be_asked(settings: ModelSettings) -> None:
    inner = Turns()
    async with OfflineChatClients(inner).turn(settings, priority=Priority.BATCH, notice=print):
        assert inner.given == [settings]


@pytest.mark.parametrize("backend", ["ollama", "generic"])
@pytest.mark.parametrize("model", ["gpt-oss:120b-cloud", "glm-4.6:cloud", "GPT-OSS:120B-Cloud"])
async def test_offline_refuses_models_that_ollama_asks_for_elsewhere(model: str, backend: str) -> None:
    with pytest.raises(ModelForbidden):
        OfflineChatClients(Turns()).turn(
            replace(LOCAL, backend=backend, model=model), priority=Priority.BATCH, notice=print
        )


async def test_offline_refuses_a_model_of_the_cloud_whatever_it_is_called() -> None:
    with pytest.raises(ModelForbidden):
        OfflineChatClients(Turns()).turn(replace(LOCAL, remote=True), priority=Priority.BATCH, notice=print)
