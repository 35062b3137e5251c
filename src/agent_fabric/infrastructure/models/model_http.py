"""HTTP to a model server: its key, its proxy, its certificates, and everything that can go wrong in our own words."""

import asyncio
import math
import os
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from dataclasses import field
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Self, TypeVar
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from agent_fabric.application.ports.secrets import Resolve
from agent_fabric.config.secret_references import SecretReference, reference_in
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import (
    ConfigError,
    ContextExceeded,
    ModelAnswerUnusable,
    ModelBusy,
    ModelError,
    ModelRefused,
    ModelUnreachable,
)
from agent_fabric.domain.models.addresses import is_loopback
from agent_fabric.domain.models.messages import ModelSettings
from agent_fabric.infrastructure.models.http_answer import (
    BrokenOff,
    HttpAnswer,
    HttpFailure,
    NoConnection,
    NoTls,
    Requests,
    Silence,
    Untrusted,
)
from agent_fabric.infrastructure.models.openai_wire import error_text
from agent_fabric.infrastructure.models.plain_http import IdleConnections, PlainHttp, can_ask

if TYPE_CHECKING:
    import aiohttp

MAX_ANSWER_BYTES = 64 * 1024 * 1024
MAX_REFUSAL_BYTES = 65_536
"""Of an answer that says why there is none."""
NO_TOOLS = "does not support tools"
"""What Ollama says about a model that cannot call them."""
_CONTEXT_WORDS = (
    "exceed_context_size",
    "context_length_exceeded",
    "maximum context length",
    "context size",
    "exceeds the context length",
    "longer than the context length",
    "exceeded max context length",
)


T = TypeVar("T")
Read = Callable[[HttpAnswer], Awaitable[T]]
"""Reads an answer; what it raises, in whatever words, is told as a ModelError."""


async def environment_only(reference: str) -> str:
    """Resolve nothing: for those who know no place for secrets but the environment.

    Raises:
        ConfigError: always.
    """
    raise ConfigError(f"{reference} cannot be used here", hint="Use an environment variable: env:NAME.")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerAddress:
    """Where a model server is, and what it takes to be let in."""

    base_url: str
    api_key: str | None = None
    """A reference such as `env:NAME` or `file:NAME`; never the key."""
    ca_file: str | None = None
    headers: tuple[tuple[str, str], ...] = ()
    connect_timeout_s: float = 2.5
    secret: str = field(default="", repr=False)
    """The key itself, for a server of our own that made it up; never in a log."""

    @classmethod
    def of(cls, settings: ModelSettings) -> Self:
        """Return where a model's server is."""
        return cls(
            base_url=settings.base_url,
            api_key=settings.api_key,
            ca_file=settings.ca_file,
            headers=tuple((settings.headers or {}).items()),
            connect_timeout_s=settings.connect_timeout_s,
        )


class HttpSession:
    """The connections to all model servers."""

    def __init__(self) -> None:
        self._idle = IdleConnections()
        self._aiohttp: aiohttp.ClientSession | None = None

    def requests_to(self, address: ServerAddress) -> Requests:
        """Return what sends requests to a server; nothing is opened yet.

        Raises:
            ConfigError: a certificate that the address names does not exist.
        """
        base_url, connect_s = address.base_url, address.connect_timeout_s
        proxy = _proxy_for(base_url)
        if proxy is None and can_ask(base_url):
            return PlainHttp(base_url, connect_s=connect_s, idle=self._idle)
        from agent_fabric.infrastructure.models.other_http import (  # noqa: PLC0415 - loading aiohttp takes its time
            AiohttpRequests,
            open_session,
        )

        tls = _tls(base_url, address.ca_file)
        if self._aiohttp is None:
            self._aiohttp = open_session()
        return AiohttpRequests(self._aiohttp, base_url, connect_s=connect_s, proxy=proxy, tls=tls)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close every connection."""
        await self._idle.aclose()
        if self._aiohttp is not None:
            await self._aiohttp.close()


class ModelHttp:
    """Requests to one model server.

    Making it raises:
        ConfigError: a key or a certificate that the address names does not exist.
    """

    def __init__(self, session: HttpSession, address: ServerAddress, resolve: Resolve = environment_only) -> None:
        """Take what gives the secrets that are not in the environment; it is asked for each request."""
        self.base_url = address.base_url
        self._requests = session.requests_to(address)
        self._headers = {"accept": "*/*", "user-agent": "agent-fabric", "content-type": "application/json"}
        self._secrets: list[str] = []
        """Values that a server may repeat but that must not get into any log."""
        self._elsewhere: dict[str, SecretReference] = {}
        """Headers whose secrets are in a file or a vault."""
        self._resolve = resolve
        for name, value in address.headers:
            self._take(name, value)
        if address.api_key:
            self._take("authorization", f"Bearer {address.api_key}")
        if address.secret:
            self._secrets.append(address.secret)
            self._headers["authorization"] = f"Bearer {address.secret}"

    def post(
        self, url: str, data: bytes, read: Read[T], *, model: str, silent_s: float | None = None
    ) -> Coroutine[Any, Any, T]:
        """Send a request and return what `read` makes of its answer, which is a good one: status 200.

        With `silent_s`, a server that says nothing for so long is given up.

        Raises:
            ModelError: there is no such answer, or it breaks off while it is read; the subclass says why.
        """
        return self._ask("POST", url, data, model, silent_s, read)

    async def get(self, url: str, *, timeout_s: float) -> bytes:
        """Return the body of a good answer.

        Raises:
            ModelError: there is none, or not in time.
        """
        try:
            async with asyncio.timeout(timeout_s):
                return await self._ask("GET", url, None, "", None, whole_body)
        except TimeoutError:
            raise ModelUnreachable(
                f"The model server at {self.base_url} did not answer in time",
                hint="Look at the server's own log; it may be overloaded.",
            ) from None

    async def answers(self, url: str, *, timeout_s: float) -> bool:
        """Tell whether anyone answers there, whatever the answer is."""
        try:
            await self.get(url, timeout_s=timeout_s)
        except ModelUnreachable:
            return False
        except ModelError:
            return True  # it does not like the question, but it is there
        return True

    async def _ask(
        self, method: str, url: str, data: bytes | None, model: str, silent_s: float | None, read: Read[T]
    ) -> T:
        headers = {**self._headers, **await self._from_elsewhere()} if self._elsewhere else self._headers
        try:
            answer = await self._requests.ask(method, url, data, headers, silent_s=silent_s)
            try:
                if answer.status != HTTPStatus.OK:
                    said = self._without_secrets(await beginning_of(answer, MAX_REFUSAL_BYTES))
                    raise refusal(answer.status, said, answer.headers, model, self.base_url)
                return await read(answer)
            finally:
                answer.release()
        except ModelError as problem:  # the reader of the answer may quote it
            problem.message = self._without_secrets(problem.message.encode()).decode()
            problem.args = (problem.message,)
            raise
        except HttpFailure as problem:
            raise self._in_words(problem) from None

    def _in_words(self, problem: HttpFailure) -> ModelError:
        """Return what a person is told about a request that came to nothing."""
        match problem:
            case NoTls():
                return ModelRefused(str(problem), hint="Use a `base_url` that begins with http://, or the right port.")
            case Untrusted():
                return ModelRefused(
                    f"The certificate of {self.base_url} is not trusted: {problem}",
                    hint="Name its authority with `ca_file` in the model's configuration, or with SSL_CERT_FILE.",
                )
            case NoConnection():
                return ModelUnreachable(
                    f"No model server answers at {self.base_url}: {problem}",
                    hint="Start the server, or set the right `base_url` in the configuration.",
                )
            case Silence():
                return ModelAnswerUnusable(
                    f"The model server at {self.base_url} said nothing for too long: {problem}",
                    hint="Look at the server's own log; it may hang.",
                )
            case BrokenOff():
                return ModelAnswerUnusable(
                    f"The model server at {self.base_url} broke off in the middle of its answer: {problem}",
                    hint="Look at the server's own log; it may have crashed or run out of memory.",
                )
            case _:
                return ModelUnreachable(
                    f"The model server at {self.base_url} cannot be used: {problem}",
                    hint="Check `base_url`, the proxy variables and the certificates.",
                )

    def _take(self, name: str, value: str) -> None:
        name = name.lower()
        reference = reference_in(value)
        if reference is None:
            self._headers[name] = value
        elif reference.source == "env":
            self._headers[name] = self._fill(reference, os.environ.get(reference.name, "").strip())
        else:
            self._elsewhere[name] = reference

    async def _from_elsewhere(self) -> dict[str, str]:
        return {
            name: self._fill(reference, await self._resolve(reference.text))
            for name, reference in self._elsewhere.items()
        }

    def _fill(self, reference: SecretReference, secret: str) -> str:
        _check(reference, secret)
        if secret not in self._secrets:
            self._secrets.append(secret)
        return f"{reference.scheme} {secret}" if reference.scheme else secret

    def _without_secrets(self, data: bytes) -> bytes:
        for secret in self._secrets:
            data = data.replace(secret.encode(), b"***")
        return data


async def whole_body(answer: HttpAnswer) -> bytes:
    """Read an answer to its end, unless it has none.

    Raises:
        ModelAnswerUnusable: it is too large.
    """
    data = await answer.read(MAX_ANSWER_BYTES)
    if data is None:
        raise _too_large()
    return data


async def lines_of(answer: HttpAnswer, most_bytes: int = MAX_ANSWER_BYTES) -> AsyncIterator[bytes]:
    """Give the lines of an answer as they come, however long they are, and what follows the last of them.

    Raises:
        ModelAnswerUnusable: it is too large.
    """
    rest: list[bytes] = []
    size = 0
    async for piece in answer.pieces():
        size += len(piece)
        if size > most_bytes:
            raise _too_large()
        if b"\n" not in piece:
            rest.append(piece)
            continue
        *lines, begun = b"".join((*rest, piece)).split(b"\n")
        rest = [begun]
        for line in lines:
            yield line
    yield b"".join(rest)


async def beginning_of(answer: HttpAnswer, most_bytes: int) -> bytes:
    """Read the first bytes of an answer; the rest is left."""
    data = bytearray()
    async for piece in answer.pieces():
        data += piece
        if len(data) >= most_bytes:
            break
    return bytes(data[:most_bytes])


def refusal(status: int, data: bytes, headers: Mapping[str, str], model: str, base_url: str) -> ModelError:
    """Return the error that an answer other than 200 means."""
    said = error_text(data) or "no explanation"
    message = f"The model server at {base_url} answered {status}: {said}"
    if any(word in said.lower() or word.encode() in data for word in _CONTEXT_WORDS) and 400 <= status <= 500:
        hint = (
            "Use a model with a larger window, or set `context_window` to what this one holds: then the conversation "
            "is shortened in time."
        )
        return ContextExceeded(message, hint=hint)
    if status == 429 or status >= 500:
        hint = "The server is busy or broken. Try again later, or look at its log."
        return ModelBusy(message, hint=hint, retry_after_s=_retry_after(headers))
    if NO_TOOLS in said:
        hint = (
            f"{model!r} cannot call tools. Use a model that can, for example qwen2.5, llama3.1 or mistral, "
            "or set `dialect: schema` for this one."
        )
        return ModelRefused(message, hint=hint)
    if 300 <= status < 400:
        hint = f"It sends on to {headers.get('location', 'another address')}, which is not followed: check `base_url`."
        return ModelRefused(message, hint=hint)
    return ModelRefused(message, hint=_HINTS.get(status, "Check `model` and the other settings of this model."))


_HINTS = {
    401: "The server wants a key: set `api_key: env:NAME` for this model, and the variable NAME.",
    403: "The key is not allowed to do this: check `api_key` of this model.",
    404: "Check `base_url` and `model`: the address or the model does not exist there.",
    413: "The conversation is too long for this server.",
}


def _too_large() -> ModelAnswerUnusable:
    return ModelAnswerUnusable(f"The model server sent more than {MAX_ANSWER_BYTES // 2**20} MB")


def _retry_after(headers: Mapping[str, str]) -> float | None:
    value = headers.get("retry-after", "")
    try:
        seconds = float(value)
    except ValueError:
        return _seconds_until(value, headers.get("date", ""))
    return max(seconds, 0.0) if math.isfinite(seconds) else None


def _seconds_until(date: str, now: str) -> float | None:
    """Return the time until an HTTP date, by the server's own clock if it tells; None when it is past or no date."""
    until = _timestamp(date)
    if until is None:
        return None
    seconds = until - (_timestamp(now) or time.time())
    return seconds if seconds > 0 else None


def _timestamp(date: str) -> float | None:
    try:
        return parsedate_to_datetime(date).timestamp()
    except (ValueError, OverflowError, OSError):
        return None


def _check(reference: SecretReference, value: str) -> None:
    name = reference.name
    what = f"The variable {name}" if reference.source == "env" else f"The secret {reference.text}"
    how = f"export {name}=…" if reference.source == "env" else "fabric secrets set NAME"
    if not value:
        raise ConfigError(f"{what}, which holds a model's key, is not set", hint=how)
    if not value.isprintable():
        raise ConfigError(
            f"{what}, which holds a model's key, has line breaks or control characters in it",
            hint=f"Set it to one line: {how}",
        )


def _proxy_for(url: str) -> str | None:
    # Looked up once for each server: asking the environment for every request costs more than the request's encoding.
    parts = urlsplit(url)
    host = parts.hostname or ""
    if proxy_bypass(host) or is_loopback(host):
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
