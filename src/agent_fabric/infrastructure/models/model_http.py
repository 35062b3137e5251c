"""HTTP to a model server: its key, its proxy, its certificates, and everything that can go wrong in our own words."""

import io
import math
import os
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Self, TypeVar
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp

from agent_fabric.application.ports.secrets import Resolve
from agent_fabric.config.secret_references import SecretReference, reference_in
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
from agent_fabric.infrastructure.models.openai_wire import error_text
from agent_fabric.infrastructure.web.sessions import reason_of, tls_failure

MAX_ANSWER_BYTES = 64 * 1024 * 1024
MAX_REFUSAL_BYTES = 65_536
"""Of an answer that says why there is none."""
NO_TOOLS = "does not support tools"
"""What Ollama says about a model that cannot call them."""
_LARGE = 1_000_000
"""aiohttp wants larger bodies as a stream, so that sending them does not block the loop."""
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
Read = Callable[[aiohttp.ClientResponse], Awaitable[T]]
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


class ModelHttp:
    """Requests to one model server.

    Making it raises:
        ConfigError: a key or a certificate that the address names does not exist.
    """

    def __init__(
        self, session: aiohttp.ClientSession, address: ServerAddress, resolve: Resolve = environment_only
    ) -> None:
        """Take what gives the secrets that are not in the environment; it is asked for each request."""
        self.base_url = address.base_url
        self._session = session
        self._proxy = _proxy_for(address.base_url)
        self._ssl = _tls(address.base_url, address.ca_file)
        self._connect_s = address.connect_timeout_s
        self._limits = aiohttp.ClientTimeout(total=None, connect=address.connect_timeout_s)
        self._headers = {"content-type": "application/json"}
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

    async def post(self, url: str, data: bytes, read: Read[T], *, model: str, silent_s: float | None = None) -> T:
        """Send a request and return what `read` makes of its answer, which is a good one: status 200.

        With `silent_s`, a server that says nothing for so long is given up.

        Raises:
            ModelError: there is no such answer, or it breaks off while it is read; the subclass says why.
        """
        limits = self._limits if silent_s is None else self._silent_at_most(silent_s)
        return await self._ask("POST", url, data, model, limits, read)

    async def get(self, url: str, *, timeout_s: float) -> bytes:
        """Return the body of a good answer.

        Raises:
            ModelError: there is none, or not in time.
        """
        limits = aiohttp.ClientTimeout(total=timeout_s, connect=min(timeout_s, self._connect_s))
        return await self._ask("GET", url, None, "", limits, whole_body)

    async def answers(self, url: str, *, timeout_s: float) -> bool:
        """Tell whether anyone answers there, whatever the answer is."""
        try:
            await self.get(url, timeout_s=timeout_s)
        except ModelUnreachable:
            return False
        except ModelError:
            return True  # it does not like the question, but it is there
        return True

    def _silent_at_most(self, seconds: float) -> aiohttp.ClientTimeout:
        return aiohttp.ClientTimeout(total=None, connect=self._connect_s, sock_read=seconds)

    async def _ask(
        self, method: str, url: str, data: bytes | None, model: str, limits: aiohttp.ClientTimeout, read: Read[T]
    ) -> T:
        headers = {**self._headers, **await self._from_elsewhere()} if self._elsewhere else self._headers
        try:
            async with self._session.request(
                method,
                url,
                data=data if data is None or len(data) < _LARGE else io.BytesIO(data),
                headers=headers,
                timeout=limits,
                proxy=self._proxy,
                ssl=self._ssl,
                allow_redirects=False,
            ) as response:
                if response.status != 200:
                    said = self._without_secrets(await beginning_of(response, MAX_REFUSAL_BYTES))
                    raise refusal(response.status, said, response.headers, model, self.base_url)
                return await read(response)
        except ModelError as problem:  # the reader of the answer may quote it
            problem.message = self._without_secrets(problem.message.encode()).decode()
            problem.args = (problem.message,)
            raise
        except aiohttp.ClientConnectorSSLError as problem:
            raise ModelRefused(
                tls_failure(problem, self.base_url),
                hint="Use a `base_url` that begins with http://, or the right port.",
            ) from None
        except aiohttp.ClientConnectorCertificateError as problem:
            raise ModelRefused(
                f"The certificate of {self.base_url} is not trusted: {reason_of(problem)}",
                hint="Name its authority with `ca_file` in the model's configuration, or with SSL_CERT_FILE.",
            ) from None
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as problem:
            raise ModelUnreachable(
                f"No model server answers at {self.base_url}: {reason_of(problem)}",
                hint="Start the server, or set the right `base_url` in the configuration.",
            ) from None
        except aiohttp.ServerTimeoutError as problem:
            raise ModelAnswerUnusable(
                f"The model server at {self.base_url} said nothing for too long: {reason_of(problem)}",
                hint="Look at the server's own log; it may hang.",
            ) from None
        except (aiohttp.ClientPayloadError, aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as problem:
            raise ModelAnswerUnusable(
                f"The model server at {self.base_url} broke off in the middle of its answer: {reason_of(problem)}",
                hint="Look at the server's own log; it may have crashed or run out of memory.",
            ) from None
        except TimeoutError:
            raise ModelUnreachable(
                f"The model server at {self.base_url} did not answer in time",
                hint="Look at the server's own log; it may be overloaded.",
            ) from None
        except (aiohttp.InvalidURL, aiohttp.ClientError, ValueError, OSError) as problem:
            raise ModelUnreachable(
                f"The model server at {self.base_url} cannot be used: {reason_of(problem)}",
                hint="Check `base_url`, the proxy variables and the certificates.",
            ) from None

    def _take(self, name: str, value: str) -> None:
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


async def whole_body(response: aiohttp.ClientResponse) -> bytes:
    """Read an answer to its end, unless it has none.

    Raises:
        ModelAnswerUnusable: it is too large.
    """
    packed = "content-encoding" in response.headers  # then its length tells nothing about its size
    if not packed and response.content_length is not None and response.content_length <= MAX_ANSWER_BYTES:
        return await response.read()
    data = bytearray()
    async for piece in response.content.iter_any():
        data += piece
        if len(data) > MAX_ANSWER_BYTES:
            raise _too_large()
    return bytes(data)


async def lines_of(response: aiohttp.ClientResponse, most_bytes: int = MAX_ANSWER_BYTES) -> AsyncIterator[bytes]:
    """Give the lines of an answer as they come, however long they are, and what follows the last of them.

    Raises:
        ModelAnswerUnusable: it is too large.
    """
    rest: list[bytes] = []
    size = 0
    async for piece in response.content.iter_any():
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


async def beginning_of(response: aiohttp.ClientResponse, most_bytes: int) -> bytes:
    """Read the first bytes of an answer; the rest is left."""
    data = bytearray()
    async for piece in response.content.iter_any():
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
