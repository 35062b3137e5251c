"""Backend for Ollama: makes sure that the server runs and has the model, once, and then stays out of the way."""

import asyncio
import os
from collections.abc import Mapping, Sequence
from typing import Unpack

from agent_fabric.application.ports.llm import ChatClient, ChatOptions, Notice
from agent_fabric.application.ports.secrets import Resolve
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import ContextExceeded, ModelAnswerUnusable, ModelError, ModelRefused, ModelUnreachable
from agent_fabric.domain.models.dialects.answer_parser import interpret_answer
from agent_fabric.domain.models.dialects.request_shape import person_listener, shape_request
from agent_fabric.domain.models.found_models import ModelCard, same_model, tool_callers
from agent_fabric.domain.models.messages import LLMResponse, Message, ModelSettings, ToolDialect
from agent_fabric.infrastructure.models.answer_reader import read_stream, read_whole
from agent_fabric.infrastructure.models.http_answer import HttpAnswer
from agent_fabric.infrastructure.models.model_http import (
    NO_TOOLS,
    HttpSession,
    ModelHttp,
    ServerAddress,
    environment_only,
)
from agent_fabric.infrastructure.models.ollama.chat_wire import StreamedChat, encode_chat, parse_chat
from agent_fabric.infrastructure.models.ollama.server import OllamaServer, native_root
from agent_fabric.infrastructure.models.ollama.starter import OllamaStarter
from agent_fabric.infrastructure.models.openai_compatible import OpenAICompatibleClient


class OllamaChatClient:
    """ChatClient over `/api/chat`, which gives a model the window and the time in memory that its settings name."""

    def __init__(self, http: ModelHttp, settings: ModelSettings) -> None:
        self._http = http
        self._url = f"{native_root(http.base_url)}/api/chat"
        self._dialect = ToolDialect(settings.dialect)
        self._strict_native = settings.strict_native
        self._window = settings.context_window if settings.sets_window else None
        self._keep_alive_s = settings.keep_alive_s
        self._answer_chars = settings.answer_chars

    async def chat(self, messages: Sequence[Message], model: str, **options: Unpack[ChatOptions]) -> LLMResponse:
        tools = options["tools"]
        shaped = shape_request(self._dialect, messages, tools, options.get("must_call"))
        on_delta = person_listener(options.get("on_delta"), shaped)
        data = encode_chat(
            shaped,
            model,
            temperature=options["temperature"],
            top_p=options["top_p"],
            max_tokens=options["max_tokens"],
            window=self._window,
            keep_alive_s=self._keep_alive_s,
            stream=on_delta is not None,
        )

        async def read(response: HttpAnswer) -> LLMResponse:
            if on_delta is None:
                return await read_whole(response, parse_chat, self._answer_chars)
            return await read_stream(response, StreamedChat(), on_delta, self._answer_chars)

        answer = await self._http.post(self._url, data, read, model=model)
        return interpret_answer(self._dialect, answer, shaped, tools, strict_native=self._strict_native)


@dataclass(frozen=True, slots=True)
class ExplainedClient:
    """ChatClient that says what to do about it when Ollama refuses, and knows that Ollama cannot be told to call."""

    inner: ChatClient
    backend: "OllamaBackend"
    settings: ModelSettings

    async def chat(self, messages: Sequence[Message], model: str, **options: Unpack[ChatOptions]) -> LLMResponse:
        must_call = options.get("must_call")
        if must_call is not None and self.settings.dialect == ToolDialect.NATIVE:
            # Ollama has no `tool_choice`: what the model cannot see, it does not call.
            options["tools"] = [tool for tool in options["tools"] if tool.name == must_call] or options["tools"]
        try:
            return await self.inner.chat(messages, model, **options)
        except ModelAnswerUnusable:
            self.backend.forget(self.settings)
            raise
        except ModelUnreachable as problem:
            self.backend.forget(self.settings)
            tried = self.backend.tried_to_reach(self.settings)
            raise ModelUnreachable(problem.message, hint=tried or problem.hint) from None
        except ContextExceeded:
            raise
        except ModelRefused as problem:
            advice = await self.backend.advise(self.settings, problem)
            raise ModelRefused(problem.message, hint=advice or problem.hint) from None


_MAX_NAMED = 8
"""Models that a hint lists."""


class OllamaBackend:
    """Gives clients of models that Ollama serves, and tells which models there are."""

    def __init__(
        self,
        session: HttpSession,
        *,
        ensure: bool,
        start_cmd: Sequence[str],
        auto_pull: bool,
        environ: Mapping[str, str] = os.environ,
        resolve: Resolve = environment_only,
    ) -> None:
        self._session = session
        self._resolve = resolve
        self._ensure = ensure
        self._auto_pull = auto_pull
        self._starter = OllamaStarter(start_cmd, environ=environ)
        self._servers: dict[ServerAddress, OllamaServer] = {}
        self._clients: dict[tuple[object, ...], ChatClient] = {}
        self._there: set[tuple[str, str]] = set()
        """Addresses and models of which nothing has to be asked any more."""
        self._tried: dict[str, str] = {}
        """What was tried to reach a server, by its address."""
        self._locks: dict[tuple[str, str], asyncio.Lock] = {}

    async def ready(self, settings: ModelSettings, notice: Notice) -> ChatClient:
        """Return the client of a model, when the server runs and has it. Costs nothing after the first time.

        A server that cannot be reached is no error here: asking the model then fails, and says what was tried.

        Raises:
            ModelError: the server lacks the model and may not, or cannot, pull it.
            ConfigError: a key or a certificate that the settings name does not exist.
        """
        client = self._client(settings)
        wanted = (settings.base_url, settings.model)
        if wanted in self._there:
            return client
        async with self._locks.setdefault(wanted, asyncio.Lock()):
            if wanted in self._there:
                return client
            server = self.server(ServerAddress.of(settings))
            if await self._runs(server, notice):
                await self._have(server, settings.model, notice)
                self._there.add(wanted)
        return client

    async def find_models(
        self, base_url: str, notice: Notice, address: ServerAddress | None = None
    ) -> Sequence[ModelCard] | None:
        """Return the models of a server, started if that is allowed; None when it is not there, or is no Ollama.

        `address` says more about the server, such as the key that it wants.
        """
        server = self.server(address or ServerAddress(base_url=base_url))
        if not await self._runs(server, notice):
            return None
        try:
            return await server.cards()
        except ModelError:
            return None

    def server(self, address: ServerAddress) -> OllamaServer:
        """Return the server at an address; it remembers what it told.

        Raises:
            ConfigError: a key or a certificate that the address names does not exist.
        """
        known = self._servers.get(address)
        if known is None:
            known = self._servers[address] = OllamaServer(self._session, address, resolve=self._resolve)
        return known

    async def _runs(self, server: OllamaServer, notice: Notice) -> bool:
        if await server.reachable():
            self._tried.pop(server.base_url, None)
            return True
        if not server.is_here:
            self._tried[server.base_url] = "The server is on another machine: start Ollama there, or set `base_url`."
            return False
        if not self._ensure:
            self._tried[server.base_url] = f"Start it with `{self._starter.command}`; nothing was to be started here."
            return False
        started = await self._starter.start(server, notice)
        if not started.running:
            self._tried[server.base_url] = (
                f"Tried to start Ollama: {started.reason}. Install it, start it by hand, or set `local_llm_start_cmd`."
            )
        return started.running

    async def _have(self, server: OllamaServer, model: str, notice: Notice) -> None:
        try:
            names = await server.names()
        except ModelError:
            return  # it does not tell; it may serve the model all the same, and says so if not
        if any(same_model(name, model) for name in names):
            return
        if not self._auto_pull:
            at_hand = f"It has: {_list_models(names)}." if names else "It has no models yet."
            raise ModelRefused(
                f"Ollama at {server.base_url} does not have the model {model!r}",
                hint=f"{at_hand} Get it with: ollama pull {model} — or set `auto_pull_if_missing: true`.",
            )
        await server.pull(model, notice)

    def _client(self, settings: ModelSettings) -> ChatClient:
        key = (
            ServerAddress.of(settings),
            settings.key,
            settings.model,
            settings.dialect,
            settings.strict_native,
            settings.context_window if settings.sets_window else None,
            settings.keep_alive_s,
        )
        client = self._clients.get(key)
        if client is None:
            client = self._clients[key] = self._new_client(settings)
        return client

    def _new_client(self, settings: ModelSettings) -> ChatClient:
        http = ModelHttp(self._session, ServerAddress.of(settings), self._resolve)
        inner: ChatClient = (
            OllamaChatClient(http, settings)
            if settings.sets_window or settings.keep_alive_s is not None
            else OpenAICompatibleClient(http, settings.dialect, settings.strict_native)
        )
        return ExplainedClient(inner, self, settings)

    def forget(self, settings: ModelSettings) -> None:
        """Look for a model again before its next use: its server may be gone."""
        self._there.discard((settings.base_url, settings.model))

    def tried_to_reach(self, settings: ModelSettings) -> str:
        """Return what was tried to reach a server that does not answer."""
        return self._tried.get(settings.base_url, "")

    async def advise(self, settings: ModelSettings, problem: ModelRefused) -> str:
        """Return what to do about a refusal; nothing if that is not known here."""
        if "answered 404" in problem.message and "not found" in problem.message:
            self.forget(settings)
            return f"Get it with: ollama pull {settings.model}"
        return await self._able_models(settings) if NO_TOOLS in problem.message else ""

    async def _able_models(self, settings: ModelSettings) -> str:
        try:
            able = [card.name for card in tool_callers(await self.server(ServerAddress.of(settings)).cards())]
        except ModelError:
            able = []
        option = f"models.{settings.key}"
        if able:
            use = f"These here can: {_list_models(able)}. Set `{option}.model: {able[0]}`"
        else:
            use = f"None here can; get one with: ollama pull qwen2.5:7b — and set `{option}.model: qwen2.5:7b`"
        or_else = "take away `strict_native`" if settings.strict_native else f"set `{option}.dialect: schema`"
        return f"{settings.model!r} cannot call tools. {use}, or {or_else}: then this one writes its calls as JSON."


def _list_models(names: Sequence[str]) -> str:
    more = len(names) - _MAX_NAMED
    return ", ".join(names[:_MAX_NAMED]) + (f" and {more} more" if more > 0 else "")
