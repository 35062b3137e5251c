"""LLMProvider and ChatClient, each as the other."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from agent_fabric.application.ports.llm import ChatClient, LLMProvider, OnDelta
from agent_fabric.domain.errors import ConfigError
from agent_fabric.domain.models.dialects.answer_parser import parse_answer
from agent_fabric.domain.models.dialects.request_shape import shape_request
from agent_fabric.domain.models.dialects.whole_files import file_from
from agent_fabric.domain.models.messages import LLMResponse, Message, ModelSettings, ToolDialect, Usage
from agent_fabric.domain.tools.specs import ToolSpec


@dataclass(frozen=True, slots=True)
class ChatClientProvider:
    """LLMProvider over a ChatClient."""

    client: ChatClient
    models: Sequence[str] = ()
    """What `list_models` returns: a ChatClient does not know its models."""
    top_p: float = 1.0

    async def complete(
        self, messages: Sequence[Message], *, model: str, temperature: float, max_tokens: int
    ) -> LLMResponse:
        """Ask the client, without tools."""
        return await self.client.chat(
            messages, model, tools=(), temperature=temperature, top_p=self.top_p, max_tokens=max_tokens
        )

    async def list_models(self) -> list[str]:
        """Return the names that were given."""
        return list(self.models)


@dataclass(slots=True)
class ProviderClient:
    """ChatClient over an LLMProvider: tools are described in the messages, and calls are read from the text."""

    provider: LLMProvider
    settings: ModelSettings
    _model: str = field(default="", init=False)

    async def chat(
        self,
        messages: Sequence[Message],
        model: str,
        *,
        tools: Sequence[ToolSpec],
        temperature: float,
        top_p: float,  # noqa: ARG002 - a provider takes none
        max_tokens: int,
        must_call: str | None = None,
        on_delta: OnDelta | None = None,
    ) -> LLMResponse:
        shaped = shape_request(ToolDialect.TEXT, messages, tools, must_call)
        self._model = self._model or await self._list_models(model)
        complete: Callable[..., Any] = self.provider.complete
        answer = _response(
            await complete(shaped.messages, model=self._model, temperature=temperature, max_tokens=max_tokens)
        )
        if shaped.writes_file:
            return file_from(ToolDialect.TEXT, answer, shaped.writes_file)
        if on_delta is not None and answer.content:
            on_delta(answer.content)
        return parse_answer(ToolDialect.TEXT, answer, tools)

    async def _list_models(self, model: str) -> str:
        """Return the configured model; the first that the provider lists when none is configured."""
        names = await self.provider.list_models()
        if not names or model in names:
            return model
        if model == self.settings.key:
            return names[0]
        raise ConfigError(
            f"The provider {self.settings.builder!r} has no model {model!r}; it has: {', '.join(names)}",
            hint=f"Set `models.{self.settings.key}.model` to one of these.",
        )


def _response(answer: Any) -> LLMResponse:
    """Return an answer with `content`, `model`, `prompt_tokens` and `completion_tokens` as ours.

    Raises:
        TypeError: it has no text.
    """
    if isinstance(answer, LLMResponse):
        return answer
    content = getattr(answer, "content", None)
    if not isinstance(content, str):
        raise TypeError(f"it answered with {type(answer).__name__}, not with an LLMResponse")
    read, written = getattr(answer, "prompt_tokens", None), getattr(answer, "completion_tokens", None)
    usage = Usage(read, written) if isinstance(read, int) and isinstance(written, int) else None
    return LLMResponse(content=content, model=str(getattr(answer, "model", "") or ""), usage=usage)
