"""Requests to one server: what goes with each of them, when they are tried again, and what their failures mean."""

import asyncio
import json
import os
import ssl
import time
import uuid
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Any, Final, NamedTuple, TypeVar
from urllib.parse import quote

import aiohttp

from agent_fabric import __version__
from agent_fabric.client.credentials import Credential, login_credential, proxy_for
from agent_fabric.client.errors import AnswerUnusable, ServerTimedOut, ServerUnreachable
from agent_fabric.client.logins import Login, Logins, renewal_from
from agent_fabric.client.problems import error_from
from agent_fabric.client.wire import items_from
from agent_fabric.domain.errors import ConfigError, FabricError, Unauthenticated
from agent_fabric.domain.identity.principals import RUN_HEADER
from agent_fabric.wire.shape import Json

T = TypeVar("T")

ATTEMPTS: Final = 3
"""How often a request is sent that may be sent again."""
PAUSE_S: Final = 0.2
"""Before the second attempt; twice as long before each further one."""
SILENCE_S: Final = 60.0
"""A stream that says nothing for so long is dead: servers give a sign of life every 15 seconds."""
LOGIN: Final = "/api/v1/login"
"""Who is refused there typed something wrong; it does not matter what else was shown."""
RENEW: Final = "/api/v1/login/renew"
END_LOGIN: Final = "/api/v1/login/end"
NOT_LOGGED_IN: Final = "You are not logged in. Run `fabric login`."
_QUOTED_CHARS: Final = 200

Query = Mapping[str, "str | int | float | bool | None"]
"""What is asked for; what is None is left out."""


class Transport:
    """Talks to one server; used by one event loop at a time.

    A request that only looks is sent again when its connection breaks. So is one that starts something, because it
    carries an `Idempotency-Key`, by which the server knows it again.
    """

    def __init__(
        self,
        address: str,
        credential: Credential | None,
        *,
        timeout_s: float,
        connect_timeout_s: float,
        trust: ssl.SSLContext | None = None,
        run: str = "",
    ) -> None:
        self.address = address
        self._run = run
        self._credential = credential
        self._timeout_s = timeout_s
        self._connect_timeout_s = connect_timeout_s
        self._trust = trust
        self._proxy = proxy_for(address, os.environ)
        self._session: aiohttp.ClientSession | None = None
        self._renewing = asyncio.Lock()

    @property
    def credential(self) -> Credential | None:
        """What is shown to the server; None: nothing."""
        return self._credential

    async def open(self) -> None:
        """Get ready; nothing is sent yet."""
        headers = {"Accept": "application/json", "User-Agent": f"agent-fabric/{__version__}"}
        if self._credential is not None:
            headers[self._credential.header] = self._credential.value
        if self._run:
            headers[RUN_HEADER] = self._run
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=True if self._trust is None else self._trust),
            headers=headers,
            timeout=aiohttp.ClientTimeout(total=None, connect=self._connect_timeout_s),
            read_bufsize=1024 * 1024,
        )

    async def aclose(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def get(
        self, path: str, query: Query | None = None, *, timeout_s: float | None = None, also: int = 200
    ) -> Any:
        """Ask for something; return the JSON that comes back. A status that is `also` expected is no error.

        Raises:
            FabricError: what the server said, or why it said nothing.
        """
        return await self._repeatedly(lambda: self._once("GET", path, query, None, {}, timeout_s, also))

    async def post(
        self,
        path: str,
        body: Mapping[str, Any] | None = None,
        query: Query | None = None,
        *,
        timeout_s: float | None = None,
        method: str = "POST",
    ) -> Any:
        """Let something happen, once, however often it has to be said; return the JSON that comes back.

        `timeout_s` is how long the server may take; infinity for what takes as long as it takes.

        Raises:
            FabricError: what the server said, or why it said nothing.
        """
        once = {"Idempotency-Key": str(uuid.uuid4())}
        return await self._repeatedly(lambda: self._once(method, path, query, body, once, timeout_s))

    def stream(
        self, path: str, query: Query | None = None, headers: Mapping[str, str] | None = None
    ) -> AbstractAsyncContextManager[aiohttp.StreamReader]:
        """Give what comes behind a GET for Server-Sent Events, as it comes; for errors see `content`."""
        asks = {"Accept": "text/event-stream", **(headers or {})}
        return self._open_stream(path, query, asks, self._timeout_s, "text/event-stream")

    def content(
        self, path: str, kind: str = "application/octet-stream"
    ) -> AbstractAsyncContextManager[aiohttp.StreamReader]:
        """Give a file of a kind as it comes.

        Raises:
            FabricError: what the server said instead, why it said nothing, or that the connection broke on the way.
        """
        return self._open_stream(path, None, {"Accept": "*/*"}, SILENCE_S, kind)

    @asynccontextmanager
    async def _open_stream(
        self, path: str, query: Query | None, headers: Mapping[str, str], limit_s: float, kind: str
    ) -> AsyncIterator[aiohttp.StreamReader]:
        timeout = aiohttp.ClientTimeout(total=None, connect=self._connect_timeout_s, sock_read=SILENCE_S)
        with _Explained(self.address, limit_s):
            async with self._request("GET", path, query, None, headers, timeout) as answer:
                if answer.status == 401 and await self._renewed(answer):
                    ended = True
                elif answer.status != 200 or answer.content_type != kind:
                    await self._check(answer)
                    raise self._not_ours(answer, f"it is not {kind}")
                else:
                    ended = False
                    yield answer.content
        if ended:
            async with self._open_stream(path, query, headers, limit_s, kind) as content:
                yield content

    async def read_answer(self, read: Callable[[Any], T], value: Any) -> T:
        """Read an answer.

        Raises:
            AnswerUnusable: it is not what this version expects.
        """
        try:
            return read(value)
        except (KeyError, TypeError, ValueError, AttributeError) as problem:
            raise AnswerUnusable(
                f"The answer of {self.address} is not that of agent-fabric: {_difference(problem)}",
                hint=await self._versions(),
            ) from problem

    async def _versions(self) -> str:
        try:
            server = str((await self.get("/health"))["version"])
        except (FabricError, KeyError, TypeError):
            return "Is this an agent-fabric server?"
        if server == __version__:
            return "Server and client have the same version, so this is a bug. Please report it."
        return f"The server is agent-fabric {server}, this is {__version__}: use the same version on both sides."

    async def _repeatedly(self, send: Callable[[], Any]) -> Any:
        pause_s = PAUSE_S
        for _ in range(ATTEMPTS - 1):
            try:
                return await send()
            except Broken:
                await asyncio.sleep(pause_s)
                pause_s *= 2
        return await send()

    async def _once(
        self,
        method: str,
        path: str,
        query: Query | None,
        body: Mapping[str, Any] | None,
        headers: Mapping[str, str],
        timeout_s: float | None,
        also: int = 200,
    ) -> Any:
        limit_s = self._timeout_s if timeout_s is None else timeout_s
        timeout = aiohttp.ClientTimeout(
            total=None if limit_s == float("inf") else limit_s, connect=self._connect_timeout_s
        )
        with _Explained(self.address, limit_s):
            async with self._request(method, path, query, body, headers, timeout) as answer:
                if answer.status != 401 or not await self._renewed(answer):
                    return await self._check(answer, also)
            async with self._request(method, path, query, body, headers, timeout) as answer:
                return await self._check(answer, also)

    async def _renewed(self, answer: aiohttp.ClientResponse) -> bool:
        """Renew the login that a server has refused; return whether the request is worth another attempt."""
        refused = self._credential
        if refused is None or not refused.is_login or answer.url.path.endswith((LOGIN, RENEW, END_LOGIN)):
            return False
        if answer.request_info.headers.get(refused.header) != refused.value:
            return True  # it was renewed while this request was on its way
        async with self._renewing:
            if self._credential is not refused:
                return True
            fresh = await self._renewed_login(refused)
            if fresh is None or self._session is None:
                return False
            self._credential = fresh
            self._session.headers[fresh.header] = fresh.value
            return True

    async def _renewed_login(self, refused: Credential) -> Credential | None:
        """Return what to show instead of what was refused; None: the login has ended."""
        logins = Logins(os.environ)
        login = logins.find(self.address)
        if login is None:
            return None
        if (other := login_credential(login)).value != refused.value:
            return other  # another process has renewed it
        try:
            fresh = await self.renew(login)
        except Unauthenticated:
            return None
        with suppress(ConfigError):  # a disk that is full: the token counts all the same
            logins.keep(self.address, fresh)
        return login_credential(fresh)

    async def renew(self, login: Login) -> Login:
        """Return a login with a new token.

        Raises:
            Unauthenticated: it has ended, or cannot be renewed.
        """
        if not login.refresh_token:
            raise Unauthenticated(NOT_LOGGED_IN, hint=f"Your login has ended: fabric login {self.address}")
        asked_at = time.time()
        answer = await self._once("POST", RENEW, None, {"refresh_token": login.refresh_token}, {}, None)
        return await self.read_answer(lambda value: renewal_from(login, value, asked_at), answer)

    def _request(
        self,
        method: str,
        path: str,
        query: Query | None,
        body: Mapping[str, Any] | None,
        headers: Mapping[str, str],
        timeout: aiohttp.ClientTimeout,
    ) -> Any:
        if self._session is None:
            raise RuntimeError("the client is not open: use `async with FabricClient(…)`")
        asked = {name: _problem_text(value) for name, value in (query or {}).items() if value is not None}
        data = None if body is None else json.dumps(body, allow_nan=False).encode()
        typed = {**headers, "Content-Type": "application/json"} if data is not None else headers
        # Not followed: what a server is shown is for no other.
        return self._session.request(
            method,
            f"{self.address}{path}",
            params=asked,
            data=data,
            headers=typed,
            timeout=timeout,
            allow_redirects=False,
            proxy=self._proxy,
        )

    async def _check(self, answer: aiohttp.ClientResponse, also: int = 200) -> Any:
        """Return the JSON of an answer.

        Raises:
            FabricError: it tells an error, or is none of ours.
        """
        is_json = answer.content_type == "application/json" or answer.content_type.endswith("+json")
        if answer.status == 204:
            return None  # done, and there is nothing to say
        if 300 <= answer.status < 400:
            raise self._not_ours(answer, f"it wants us to go to {answer.headers.get('Location', 'nowhere')}")
        if not is_json:
            raise self._not_ours(answer, f"it is {answer.content_type or 'of no type'}")
        data = await answer.read()
        try:
            value = json.loads(data)
        except (ValueError, RecursionError):
            raise self._not_ours(answer, "it is no JSON") from None
        if answer.status >= 400 and answer.status != also:
            raise self._describe_problem(answer, value)
        return value

    def _describe_problem(self, answer: aiohttp.ClientResponse, value: Any) -> FabricError:
        if not isinstance(value, dict) or "code" not in value:
            return self._not_ours(answer, f"it is {str(value)[:_QUOTED_CHARS]}")
        error = error_from(value, retry_after=answer.headers.get("Retry-After"))
        if not isinstance(error, Unauthenticated) or answer.url.path.endswith((LOGIN, RENEW, END_LOGIN)):
            return error
        if self._credential is None:
            ways = f"fabric login {self.address}; or set FABRIC_TOKEN or FABRIC_API_KEY"
            return Unauthenticated(NOT_LOGGED_IN, hint=ways)
        if self._credential.is_login:
            return Unauthenticated(NOT_LOGGED_IN, hint=f"Your login has ended: fabric login {self.address}")
        ways = "`fabric login`, FABRIC_TOKEN or FABRIC_API_KEY say what to show."
        error.hint = f"{error.hint} To {self.address}, {self._credential.origin} was shown; {ways}"
        return error

    def _not_ours(self, answer: aiohttp.ClientResponse, why: str) -> FabricError:
        hint = "Is there a proxy in between, or another program? Check the address: --server or FABRIC_URL."
        return AnswerUnusable(f"The answer of {self.address} (status {answer.status}) is not ours: {why}", hint=hint)


class Resource:
    """A group of routes of a server."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def _get(
        self, read: Callable[[Any], T], path: str, query: Query | None = None, *, timeout_s: float | None = None
    ) -> T:
        """Ask for something, and read the answer."""
        return await self._transport.read_answer(read, await self._transport.get(path, query, timeout_s=timeout_s))

    async def _list(self, key: str, path: str, query: Query | None = None) -> list[Json]:
        """Ask for the objects that an answer lists under a key."""
        return await self._get(items_from(key), path, query)

    async def _post(
        self,
        read: Callable[[Any], T],
        path: str,
        body: Mapping[str, Any] | None = None,
        query: Query | None = None,
        *,
        timeout_s: float | None = None,
        method: str = "POST",
    ) -> T:
        """Let something happen, and read the answer."""
        answer = await self._transport.post(path, body, query, timeout_s=timeout_s, method=method)
        return await self._transport.read_answer(read, answer)


def segment(text: str, missing: FabricError | None = None) -> str:
    """Return a name as one part of a path.

    Raises:
        FabricError: nothing can have this name, because it would lead elsewhere; `missing` if that is given.
    """
    if not text.strip(".") or "/" in text:
        raise missing or ConfigError(f"{text!r} is no name", hint="Names have no slashes, and more than dots.")
    return quote(text, safe="")


class Named(NamedTuple):
    """The addresses of things that a server has below one path, each by its name."""

    base: str
    missing: type[FabricError]
    """What is raised for a name that nothing can have, without asking the server."""
    message: str
    hint: str = ""

    def __call__(self, name: str, what: str = "") -> str:
        """Return where a thing is, or something that belongs to it."""
        return f"{self.base}/{segment(name, self.missing(self.message.format(name), hint=self.hint))}{what}"


class Broken(ServerUnreachable):
    """The connection broke, or could not be made, in a way that may be gone the next moment."""


class _Explained:
    """Turns what aiohttp raises into errors of ours."""

    def __init__(self, address: str, timeout_s: float) -> None:
        self._address = address
        self._timeout_s = timeout_s

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, problem: BaseException | None, __: object) -> None:
        if isinstance(problem, FabricError) or problem is None:
            return
        match problem:
            case aiohttp.ClientConnectorDNSError():
                raise ServerUnreachable(
                    f"There is no host for {self._address}", hint="Check the address: --server or FABRIC_URL."
                ) from None
            case aiohttp.ClientConnectorCertificateError():
                raise ServerUnreachable(
                    f"The certificate of {self._address} is not trusted: {_answer_text(problem.certificate_error)}",
                    hint="If the certificate is your own, name its authority in SSL_CERT_FILE. If it is for "
                    "another name, use that: --server https://NAME:PORT",
                ) from None
            case aiohttp.ClientSSLError():
                raise ServerUnreachable(
                    f"This port does not speak TLS: {self._address}",
                    hint="Use an address that begins with http://, or the right port.",
                ) from None
            case aiohttp.ConnectionTimeoutError():
                raise ServerUnreachable(f"No server answers at {self._address}", hint=_RUNNING) from None
            case TimeoutError():
                raise ServerTimedOut(
                    f"{self._address} did not answer within {self._timeout_s:g} s",
                    hint="It may still be at work; look with `fabric logs list`.",
                ) from None
            case aiohttp.ClientConnectorError():
                message = f"No server answers at {self._address}: {_answer_text(problem)}"
                raise ServerUnreachable(message, hint=_RUNNING) from None
            case aiohttp.ServerDisconnectedError() if self._address.startswith("http://"):
                raise Broken(f"The connection to {self._address} broke: {_answer_text(problem)}", hint=_HTTPS) from None
            case aiohttp.ClientError() | OSError():
                raise Broken(
                    f"The connection to {self._address} broke: {_answer_text(problem)}", hint=_RUNNING
                ) from None
            case _:
                return


_RUNNING = "Is the server running? Start it with `fabric serve`."
_HTTPS = "Does the server speak HTTPS? Then its address begins with https://. Else it may have been stopped just now."


def _answer_text(problem: BaseException) -> str:
    if isinstance(problem, ssl.SSLCertVerificationError) and problem.verify_message:
        return problem.verify_message
    number = getattr(getattr(problem, "os_error", problem), "errno", None)
    if isinstance(problem, aiohttp.ServerDisconnectedError):
        return "the server closed it"
    text = os.strerror(number) if isinstance(number, int) and number > 0 else str(problem).strip()
    return text.splitlines()[0][:_QUOTED_CHARS] if text else type(problem).__name__


def _problem_text(value: str | float | bool | None) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _difference(problem: Exception) -> str:
    """Say in what an answer differs from what was expected."""
    if isinstance(problem, KeyError):
        return f"it has no {problem.args[0]!r}"
    return str(problem) if isinstance(problem, ValueError) else "it has another form"
