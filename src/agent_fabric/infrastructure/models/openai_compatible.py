"""ChatClient for any server that speaks OpenAI's chat format."""

from collections.abc import Coroutine, Sequence
from copy import copy
from typing import Any, Protocol, Self

from agent_fabric.application.ports.llm import Notice, OnDelta
from agent_fabric.application.ports.secrets import Resolve
from agent_fabric.config.constants import LLM_DISCOVERY_TIMEOUT_S
from agent_fabric.domain.errors import ConfigError, ModelError
from agent_fabric.domain.models.addresses import is_local_url
from agent_fabric.domain.models.dialects.answer_parser import interpret_answer, parse_answer
from agent_fabric.domain.models.dialects.request_shape import ShapedRequest, person_listener, shape_request
from agent_fabric.domain.models.found_models import ModelCard
from agent_fabric.domain.models.messages import (
    DEFAULT_ANSWER_CHARS,
    LLMResponse,
    Message,
    ModelSettings,
    ToolDialect,
    Usage,
)
from agent_fabric.domain.tools.specs import ToolSpec
from agent_fabric.infrastructure.models.answer_reader import read_stream, read_whole
from agent_fabric.infrastructure.models.http_answer import HttpAnswer
from agent_fabric.infrastructure.models.model_http import HttpSession, ModelHttp, ServerAddress, environment_only
from agent_fabric.infrastructure.models.openai_wire import (
    StreamedAnswer,
    encode_request,
    listed_models,
    parse_response,
    prompt_progress,
)
from agent_fabric.infrastructure.models.servers.server_files import Endpoint

STUCK_TEMPERATURE = 0.8
"""For a model that has just repeated itself: at a low temperature it goes on doing so."""
_BUSY_CONNECT_TIMEOUT_S = 10.0
"""For our own servers: a machine that is busy computing answers late, but the server is on it."""
_MAX_KNOWN_SETTINGS = 1_000
_LOCAL_LISTING_TIMEOUT_S = 0.5
"""A run waits for it: a server of this machine that lists its models does so at once."""


class OpenAICompatibleBackend:
    """Backend for servers that are simply there."""

    def __init__(self, session: HttpSession, resolve: Resolve = environment_only) -> None:
        self._session = session
        self._resolve = resolve
        self._clients: dict[tuple[ServerAddress, str, bool, int], OpenAICompatibleClient] = {}
        self._of_settings: dict[int, tuple[ModelSettings, OpenAICompatibleClient]] = {}
        """The same by the settings themselves, which a run has at hand: an address takes time to compare."""

    async def ready(self, settings: ModelSettings, notice: Notice) -> "OpenAICompatibleClient":  # noqa: ARG002 - as every backend
        return self.client_for(settings)

    def client_for(self, settings: ModelSettings) -> "OpenAICompatibleClient":
        """Return the client; the same server always gets the same one.

        Raises:
            ConfigError: a key or a certificate that the settings name does not exist.
        """
        known = self._of_settings.get(id(settings))
        if known is None or known[0] is not settings:
            if len(self._of_settings) >= _MAX_KNOWN_SETTINGS:
                self._of_settings.clear()
            known = settings, self._client(ServerAddress.of(settings), settings)
            self._of_settings[id(settings)] = known
        return known[1]

    def client_at(self, endpoint: Endpoint, settings: ModelSettings) -> "OpenAICompatibleClient":
        """Return the client of a llama.cpp server that we started; each start has an address and a key of its own."""
        address = ServerAddress(
            base_url=endpoint.base_url, secret=endpoint.api_key, connect_timeout_s=_BUSY_CONNECT_TIMEOUT_S
        )
        return self._client(address, settings)

    def _client(self, address: ServerAddress, settings: ModelSettings) -> "OpenAICompatibleClient":
        key = (address, str(settings.dialect), settings.strict_native, settings.answer_chars)
        client = self._clients.get(key)
        if client is None:
            http = ModelHttp(self._session, key[0], self._resolve)
            client = self._clients[key] = OpenAICompatibleClient(http, *key[1:])
        return client

    async def list_models(self, address: ServerAddress) -> Sequence[ModelCard] | None:
        """Return a server's models; None when it does not tell."""
        timeout_s = _LOCAL_LISTING_TIMEOUT_S if is_local_url(address.base_url) else LLM_DISCOVERY_TIMEOUT_S
        try:
            http = ModelHttp(self._session, address, self._resolve)
            return listed_models(await http.get(f"{address.base_url.rstrip('/')}/models", timeout_s=timeout_s))
        except (ModelError, ConfigError):  # the call itself will say what is wrong
            return None


class ProgressListener(Protocol):
    """Hears how far an answer of llama.cpp is."""

    async def prepare(self, http: ModelHttp, shaped: ShapedRequest) -> None:
        """Do what must be done before the model is asked."""
        ...

    def reading(self, done: int, total: int) -> None:
        """Hear how many tokens of the prompt have been read."""
        ...

    def writing(self) -> None:
        """Hear that another piece of the answer has come."""
        ...


class AnswerInProgress(StreamedAnswer):
    """An answer of llama.cpp whose progress is told."""

    def __init__(self, listener: ProgressListener) -> None:
        super().__init__()
        self._listener = listener

    def feed(self, line: bytes) -> str:
        text = super().feed(line)
        if (progress := prompt_progress(line)) is not None:
            self._listener.reading(*progress)
        elif text:
            self._listener.writing()
        return text


class OpenAICompatibleClient:
    """ChatClient of one server."""

    def __init__(
        self,
        http: ModelHttp,
        dialect: str = ToolDialect.NATIVE,
        strict_native: bool = False,
        answer_chars: int = DEFAULT_ANSWER_CHARS,
    ) -> None:
        self._http = http
        self._url = http.base_url.rstrip("/") + "/chat/completions"
        self._dialect = ToolDialect(dialect)
        self._strict_native = strict_native
        self._answer_chars = answer_chars
        self._listener: ProgressListener | None = None

    def heard_by(self, listener: ProgressListener) -> Self:
        """Return the client for someone who wants to know how far the next answer is."""
        client = copy(self)
        client._listener = listener  # noqa: SLF001 - of the same class
        return client

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
        shaped = shape_request(self._dialect, messages, tools, must_call)
        if on_delta is not None:
            on_delta = person_listener(on_delta, shaped)
        if shaped.only_answer:
            known = LLMResponse(content=shaped.only_answer, model=model, usage=Usage(0, 0))
            return parse_answer(self._dialect, known, tools)
        listener = self._listener
        if listener is not None:
            await listener.prepare(self._http, shaped)
            on_delta = on_delta or to_no_one
        data = encode_request(
            shaped,
            model,
            temperature=max(temperature, STUCK_TEMPERATURE) if shaped.stuck else temperature,
            top_p=top_p,
            max_tokens=max_tokens,
            stream=on_delta is not None,
            progress=listener is not None,
        )

        async def read_as_it_comes(response: HttpAnswer) -> LLMResponse:
            if on_delta is not None and "event-stream" in response.headers.get("content-type", ""):
                reader = StreamedAnswer() if listener is None else AnswerInProgress(listener)
                return await read_stream(response, reader, on_delta, self._answer_chars)
            return await self._read(response)

        read = self._read if on_delta is None else read_as_it_comes
        answer = await self._http.post(self._url, data, read, model=model)
        return interpret_answer(self._dialect, answer, shaped, tools, strict_native=self._strict_native)

    def _read(self, response: HttpAnswer) -> Coroutine[Any, Any, LLMResponse]:
        return read_whole(response, parse_response, self._answer_chars)


def to_no_one(_: str) -> None:
    """Take the pieces of an answer that only a listener to its progress wants."""
