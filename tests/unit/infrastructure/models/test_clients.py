"""Who is asked for a model, and in which order."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest

from agent_fabric.application.ports.llm import ChatClient, Notice
from agent_fabric.domain.errors import ConfigError
from agent_fabric.domain.models.messages import LLMResponse, Message, ModelSettings
from agent_fabric.domain.runs.task import Priority
from agent_fabric.infrastructure.models.queue import Queues
from agent_fabric.infrastructure.models.stack import BackendClients
from agent_fabric.testing.fakes import FrozenClock, FunctionClient, quiet
from agent_fabric.testing.workbench import SETTINGS


@dataclass
class Kind:
    """A backend that remembers what it was asked for."""

    asked: list[str] = field(default_factory=list)

    async def ready(self, settings: ModelSettings, notice: Notice) -> ChatClient:
        self.asked.append(settings.model)
        return FunctionClient(_hello)


async def _hello(messages: Sequence[Message]) -> LLMResponse:
    return LLMResponse(content="hello")


@pytest.mark.proves("AF-073", "A33-031")
async def test_the_backend_of_the_configuration_decides_who_is_asked() -> None:
    generic, ollama = Kind(), Kind()
    clients = BackendClients({"generic": generic, "ollama": ollama}, Queues(FrozenClock()))
    for backend, model in (("generic", "a"), ("ollama", "b"), ("ollama", "c")):
        settings = replace(SETTINGS, backend=backend, model=model)
        async with clients.turn(settings, priority=Priority.INTERACTIVE, notice=quiet) as client:
            answer = await client.chat([], model, tools=(), temperature=0, top_p=1, max_tokens=1)
            assert answer.content == "hello"
    assert (generic.asked, ollama.asked) == (["a"], ["b", "c"])


async def test_an_unknown_backend_is_named_with_those_there_are() -> None:
    clients = BackendClients({"generic": Kind()}, Queues(FrozenClock()))
    with pytest.raises(ConfigError, match="magic") as caught:
        async with clients.turn(replace(SETTINGS, backend="magic"), priority=Priority.INTERACTIVE, notice=quiet):
            pass
    assert "generic" in caught.value.hint


async def test_requests_to_a_server_with_one_slot_take_turns_and_are_told_how_many_are_ahead() -> None:
    clients = BackendClients({"generic": Kind()}, Queues(FrozenClock()))
    settings = replace(SETTINGS, backend="generic", slots=1)
    notices: list[str] = []
    second_is_in = asyncio.Event()

    async def second() -> None:
        async with clients.turn(settings, priority=Priority.BATCH, notice=notices.append):
            second_is_in.set()

    async with clients.turn(settings, priority=Priority.INTERACTIVE, notice=quiet):
        waiting = asyncio.create_task(second())
        async with asyncio.timeout(60):
            while not notices:
                await asyncio.sleep(0)
        assert not second_is_in.is_set()
    await asyncio.wait_for(waiting, 60)
    assert notices[0] == "queued behind 1"
