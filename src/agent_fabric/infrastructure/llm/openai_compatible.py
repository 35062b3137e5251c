"""ChatClient for any server that speaks OpenAI's chat format, over aiohttp.

One session for all servers and runs: measured, aiohttp costs 0.5 ms of CPU a turn where SDKs cost ten times that.
"""

import io
import math
import os
import ssl
from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp

from agent_fabric.application.ports.llm import OnDelta
from agent_fabric.domain.errors import (
    ConfigError,
    ContextExceeded,
    ModelAnswerUnusable,
    ModelBusy,
    ModelError,
    ModelRefused,
    ModelUnreachable,
)
from agent_fabric.domain.messages import LLMResponse, Message, ModelSettings
from agent_fabric.domain.tools import ToolSpec
from agent_fabric.infrastructure.llm.openai_wire import StreamedAnswer, encode_request, error_text, parse_response

_LARGE = 1_000_000
"""aiohttp wants larger bodies as a stream, so that sending them does not block the loop."""
MAX_ANSWER_BYTES = 64 * 1024 * 1024
_CONTEXT_WORDS = ("exceed_context_size", "context_length_exceeded", "maximum context length", "context size")


class OpenAICompatibleClients:
    """ChatClients for the backends `generic` and `ollama`; shares connections among all of them."""

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None
        self._clients: dict[str, OpenAICompatibleClient] = {}

    def client_for(self, settings: ModelSettings) -> "OpenAICompatibleClient":
        key = (
            f"{settings.base_url} {settings.api_key} {settings.ca_file} {settings.headers} {settings.connect_timeout_s}"
        )
        client = self._clients.get(key)
        if client is None:
            client = self._clients[key] = OpenAICompatibleClient(self._shared_session(), settings)
        return client

    async def aclose(self) -> None:
        """Close every connection."""
        if self._session is not None:
            await self._session.close()

    def _shared_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            # How many runs ask at once is decided elsewhere; a second limit here would only hide waiting.
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, ttl_dns_cache=60),
                timeout=aiohttp.ClientTimeout(total=None),
                auto_decompress=True,
            )
        return self._session


class OpenAICompatibleClient:
    """ChatClient of one server."""

    def __init__(self, session: aiohttp.ClientSession, settings: ModelSettings) -> None:
        self._session = session
        self._url = settings.base_url.rstrip("/") + "/chat/completions"
        self._base_url = settings.base_url
        self._proxy = _proxy_for(self._url)
        self._ssl = _tls(self._url, settings.ca_file)
        self._timeout = aiohttp.ClientTimeout(total=None, connect=settings.connect_timeout_s)
        self._headers = {"content-type": "application/json"}
        self._secrets: list[str] = []
        """Values that a server may repeat but that must not get into any log."""
        for name, value in (settings.headers or {}).items():
            self._headers[name] = self._resolved(value)
        if settings.api_key:
            self._headers["authorization"] = f"Bearer {self._resolved(settings.api_key)}"

    def _resolved(self, value: str) -> str:
        if not value.startswith("env:"):
            return value
        secret = _secret(value)
        self._secrets.append(secret)
        return secret

    def _without_secrets(self, data: bytes) -> bytes:
        for secret in self._secrets:
            data = data.replace(secret.encode(), b"***")
        return data

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
        data = encode_request(
            messages,
            model,
            tools=tools,
            temperature=temperature,
            top_p=top_p,
            max_tokens=max_tokens,
            must_call=must_call,
            stream=on_delta is not None,
        )
        try:
            async with self._session.post(
                self._url,
                data=data if len(data) < _LARGE else io.BytesIO(data),
                headers=self._headers,
                timeout=self._timeout,
                proxy=self._proxy,
                ssl=self._ssl,
                allow_redirects=False,
            ) as response:
                if response.status != 200:
                    said = self._without_secrets(await _body(response))
                    raise _refusal(response.status, said, response.headers, model, self._base_url)
                if on_delta is not None and "event-stream" in response.headers.get("content-type", ""):
                    return await _streamed(response, on_delta)
                return parse_response(await _body(response))
        except (aiohttp.ClientConnectorCertificateError, aiohttp.ClientConnectorSSLError) as problem:
            raise ModelRefused(
                f"The certificate of {self._base_url} is not trusted: {_reason(problem)}",
                hint="Name its authority with `ca_file` in the model's configuration, or with SSL_CERT_FILE.",
            ) from None
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as problem:
            raise ModelUnreachable(
                f"No model server answers at {self._base_url}: {_reason(problem)}",
                hint="Start the server, or set the right `base_url` in the configuration.",
            ) from None
        except (aiohttp.ClientPayloadError, aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as problem:
            raise ModelAnswerUnusable(
                f"The model server at {self._base_url} broke off in the middle of its answer: {_reason(problem)}",
                hint="Look at the server's own log; it may have crashed or run out of memory.",
            ) from None
        except (aiohttp.InvalidURL, aiohttp.ClientError, ValueError, OSError) as problem:
            raise ModelUnreachable(
                f"The model server at {self._base_url} cannot be used: {_reason(problem)}",
                hint="Check `base_url`, the proxy variables and the certificates.",
            ) from None


async def _body(response: aiohttp.ClientResponse) -> bytes:
    if response.content_length is not None and response.content_length <= MAX_ANSWER_BYTES:
        return await response.read()
    data = bytearray()
    async for piece in response.content.iter_any():
        data += piece
        if len(data) > MAX_ANSWER_BYTES:
            raise ModelAnswerUnusable(f"The model server sent more than {MAX_ANSWER_BYTES // 2**20} MB")
    return bytes(data)


async def _streamed(response: aiohttp.ClientResponse, on_delta: OnDelta) -> LLMResponse:
    answer = StreamedAnswer()
    rest: list[bytes] = []
    size = 0
    async for piece in response.content.iter_any():
        size += len(piece)
        if size > MAX_ANSWER_BYTES:
            raise ModelAnswerUnusable(f"The model server sent more than {MAX_ANSWER_BYTES // 2**20} MB")
        if b"\n" not in piece:
            rest.append(piece)
            continue
        *lines, begun = b"".join((*rest, piece)).split(b"\n")
        rest = [begun]
        for line in lines:
            text = answer.feed(line)
            if text:
                on_delta(text)
        if answer.done:
            break
    answer.feed(b"".join(rest))
    return answer.answer()


def _refusal(status: int, data: bytes, headers: Mapping[str, str], model: str, base_url: str) -> ModelError:
    said = error_text(data) or "no explanation"
    message = f"The model server at {base_url} answered {status}: {said}"
    if status == 429 or status >= 500:
        hint = "The server is busy or broken. Try again later, or look at its log."
        return ModelBusy(message, hint=hint, retry_after_s=_retry_after(headers.get("retry-after")))
    if any(word in said.lower() or word.encode() in data for word in _CONTEXT_WORDS):
        hint = (
            "Use a model with a larger window, or set `context_window` so that the conversation is shortened in time."
        )
        return ContextExceeded(message, hint=hint)
    if "does not support tools" in said:
        hint = f"{model!r} cannot call tools. Use a model that can, for example qwen2.5, llama3.1 or mistral."
        return ModelRefused(message, hint=hint)
    return ModelRefused(message, hint=_HINTS.get(status, "Check `model` and the other settings of this model."))


_HINTS = {
    401: "The server wants a key: set `api_key: env:NAME` for this model, and the variable NAME.",
    403: "The key is not allowed to do this: check `api_key` of this model.",
    404: "Check `base_url` and `model`: the address or the model does not exist there.",
    413: "The conversation is too long for this server.",
}


def _retry_after(value: str | None) -> float | None:
    try:
        seconds = float(value or "nan")
    except ValueError:
        return None  # a date: rare, and our own delays are fine
    return max(seconds, 0.0) if math.isfinite(seconds) else None


def _reason(problem: BaseException) -> str:
    return str(problem) or type(problem).__name__


def _secret(reference: str) -> str:
    name = reference.removeprefix("env:")
    value = os.environ.get(name, "").strip()
    if not value:
        raise ConfigError(f"The variable {name}, which holds a model's key, is not set", hint=f"export {name}=…")
    return value


def _proxy_for(url: str) -> str | None:
    # Looked up once for each server: asking the environment for every request costs more than the request's encoding.
    parts = urlsplit(url)
    host = parts.hostname or ""
    if proxy_bypass(host) or host in ("localhost", "127.0.0.1", "::1"):
        return None
    proxy = getproxies().get(parts.scheme)
    return f"http://{proxy}" if proxy and "://" not in proxy else proxy


def _tls(url: str, ca_file: str | None) -> ssl.SSLContext | bool:
    if not url.startswith("https:"):
        return True
    try:
        # Without a file of our own, SSL_CERT_FILE and SSL_CERT_DIR say which authorities to trust.
        return ssl.create_default_context(cafile=ca_file)
    except (OSError, ssl.SSLError) as problem:
        raise ConfigError(f"The certificates in {ca_file} cannot be used: {problem}") from None
