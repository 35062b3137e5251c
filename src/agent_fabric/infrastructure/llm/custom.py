"""Model clients that others wrote, by the name `module:function` of what builds them."""

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from agent_fabric.application.ports.llm import ChatClient, Notice
from agent_fabric.domain.errors import ConfigError, FabricError, ModelAnswerUnusable
from agent_fabric.domain.messages import LLMResponse, Message, ModelSettings


class CustomBackend:
    """Backend whose clients are built by the function that `builder` of a model names, once for each model."""

    def __init__(self) -> None:
        self._clients: dict[str, ChatClient] = {}

    async def ready(self, settings: ModelSettings, notice: Notice) -> ChatClient:  # noqa: ARG002 - as every backend
        # All of the settings: a run that is resumed brings those that it began with.
        wanted = repr(settings)
        known = self._clients.get(wanted)
        if known is None:
            known = self._clients[wanted] = ForeignClient(_built(settings), settings.builder)
        return known


@dataclass(frozen=True, slots=True)
class ForeignClient:
    """ChatClient whose mistakes are told as those of who wrote it, not as ours."""

    inner: ChatClient
    builder: str

    async def chat(self, messages: Sequence[Message], model: str, **how: Any) -> LLMResponse:
        try:
            answer: object = await self.inner.chat(messages, model, **how)
        except (FabricError, TimeoutError):
            raise
        except Exception as problem:
            raise self._failed(f"{type(problem).__name__}: {problem}") from problem
        if not isinstance(answer, LLMResponse):
            raise self._failed(f"it answered with {type(answer).__name__}, not with an LLMResponse")
        return answer

    def _failed(self, why: str) -> ModelAnswerUnusable:
        return ModelAnswerUnusable(
            f"The model client of {self.builder!r} failed: {why}",
            hint="It is none of agent-fabric's: ask who wrote it; see docs/guides/models.md.",
        )


def _built(settings: ModelSettings) -> ChatClient:
    module, _, name = settings.builder.partition(":")
    which = f"The builder {settings.builder!r} of the model {settings.key!r}"
    try:
        client: Any = getattr(importlib.import_module(module), name)(settings)
    except (Exception, SystemExit) as problem:
        raise ConfigError(
            f"{which} failed: {type(problem).__name__}: {problem}",
            hint="It must be importable and take the model's settings; see docs/guides/models.md.",
        ) from problem
    if not callable(getattr(client, "chat", None)):
        raise ConfigError(
            f"{which} returned a {type(client).__name__}, which cannot chat",
            hint="It must return an object with `async def chat(…)`, as agent_fabric.extend.ChatClient describes it.",
        )
    found: ChatClient = client
    return found
