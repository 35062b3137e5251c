"""ChatClients of one Ollama server: by `/v1/chat/completions`, or by `/api/chat` where the window must be set."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Unpack

import aiohttp

from agent_fabric.application.ports.llm import ChatClient, ChatOptions, OnDelta
from agent_fabric.domain.errors import ContextExceeded, ModelAnswerUnusable, ModelRefused, ModelUnreachable
from agent_fabric.domain.models.dialects.answer_parser import parse_answer
from agent_fabric.domain.models.dialects.conversation import speech_listener
from agent_fabric.domain.models.dialects.request_shape import shape_request
from agent_fabric.domain.models.dialects.whole_files import file_from
from agent_fabric.domain.models.messages import LLMResponse, Message, ModelSettings, ToolDialect
from agent_fabric.domain.tools.specs import ToolSpec
from agent_fabric.infrastructure.models.answer_reader import read_stream, read_whole
from agent_fabric.infrastructure.models.model_http import NO_TOOLS, ModelHttp
from agent_fabric.infrastructure.models.ollama.chat_wire import OllamaOptions, StreamedChat, encode_chat, parse_chat
from agent_fabric.infrastructure.models.ollama.server import native_root


class OllamaChatClient:
    """ChatClient over `/api/chat`, which gives a model the window that its settings name."""

    def __init__(self, http: ModelHttp, settings: ModelSettings, *, keep_alive: str | None = None) -> None:
        self._http = http
        self._url = f"{native_root(http.base_url)}/api/chat"
        self._dialect = ToolDialect(settings.dialect)
        self._strict_native = settings.strict_native
        self._window = settings.context_window
        self._keep_alive = keep_alive
        self._answer_chars = settings.answer_chars

    async def chat(
        self,
        messages: Sequence[Message],
        model: str,
        *,
        tools: Sequence[ToolSpec],
        temperature: float,
        top_p: float,
        max_tokens: int,
        must_call: str | None = None,
        on_delta: OnDelta | None = None,
    ) -> LLMResponse:
        options = OllamaOptions(
            temperature=temperature,
            top_p=top_p,
            max_tokens=max_tokens,
            window=self._window,
            keep_alive=self._keep_alive,
        )
        shaped = shape_request(self._dialect, messages, tools, must_call)
        if shaped.writes_file:
            on_delta = None  # a file is no words to a person
        on_delta = speech_listener(on_delta) if on_delta is not None and shaped.talks else on_delta
        data = encode_chat(shaped, model, options, stream=on_delta is not None)
        answer = await self._post(data, model, on_delta)
        if answer.cut:
            return replace(answer, dialect=self._dialect)
        if shaped.writes_file:
            return file_from(self._dialect, answer, shaped.writes_file)
        return parse_answer(self._dialect, answer, tools, strict_native=self._strict_native)

    async def _post(self, data: bytes, model: str, on_delta: OnDelta | None) -> LLMResponse:
        async def read(response: aiohttp.ClientResponse) -> LLMResponse:
            if on_delta is None:
                return await read_whole(response, parse_chat, self._answer_chars)
            return await read_stream(response, StreamedChat(), on_delta, self._answer_chars)

        return await self._http.post(self._url, data, read, model=model)


@dataclass(frozen=True, slots=True)
class ExplainedClient:
    """ChatClient that says what to do about it when Ollama refuses, and knows that Ollama cannot be told to call."""

    inner: ChatClient
    dialect: ToolDialect
    doubt: Callable[[], None]
    """Called when the server may be gone, so that it is looked for again."""
    unreachable: Callable[[], str]
    """Says what was tried when nobody answers."""
    refused: Callable[[ModelRefused], Awaitable[str]]
    """Says what to do about a refusal."""

    async def chat(self, messages: Sequence[Message], model: str, **options: Unpack[ChatOptions]) -> LLMResponse:
        must_call = options.get("must_call")
        if must_call is not None and self.dialect is ToolDialect.NATIVE:
            # Ollama has no `tool_choice`: what the model cannot see, it does not call.
            options["tools"] = [tool for tool in options["tools"] if tool.name == must_call] or options["tools"]
        try:
            return await self.inner.chat(messages, model, **options)
        except ModelAnswerUnusable:
            self.doubt()
            raise
        except ModelUnreachable as problem:
            self.doubt()
            raise ModelUnreachable(problem.message, hint=self.unreachable() or problem.hint) from None
        except ContextExceeded:
            raise
        except ModelRefused as problem:
            raise ModelRefused(problem.message, hint=await self.refused(problem) or problem.hint) from None


def lacks_tools(problem: ModelRefused) -> bool:
    """Tell whether a model was refused because it cannot call tools."""
    return NO_TOOLS in problem.message


def lacks_model(problem: ModelRefused) -> bool:
    """Tell whether a model was refused because the server does not have it."""
    return "answered 404" in problem.message and "not found" in problem.message
