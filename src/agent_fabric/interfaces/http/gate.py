"""Authentication, body limits and media types, before any route."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from time import monotonic
from typing import Any, Protocol

from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agent_fabric.application.ports.identity import Authenticator, PageAuthenticator
from agent_fabric.domain.errors import FabricError, RunNotFound, ServerBusy, ServerStopping, Unauthenticated
from agent_fabric.domain.fleet.protocol import ARCHIVE_PATH, JOIN_PATH
from agent_fabric.domain.fleet.protocol import SOCKET_PATH as NODE_SOCKET
from agent_fabric.domain.identity.principals import RUN_HEADER, UNKNOWN_RUN, Principal
from agent_fabric.domain.ids import RunId
from agent_fabric.interfaces.http.addresses import Addresses
from agent_fabric.interfaces.http.bodies import replay_body
from agent_fabric.interfaces.http.errors import problem as answer
from agent_fabric.interfaces.http.errors import refusal, shape_for

RENEW = "/api/v1/login/renew"
END = "/api/v1/login/end"
PAGE_LOGIN = "/api/v1/web/session"
PAGE_SOCKET = "/api/v1/web/ws"
SOCKETS = frozenset({PAGE_SOCKET, NODE_SOCKET})
PUBLIC_PATHS = frozenset(
    {
        *("/", "/health", "/ready", "/docs", "/redoc", "/openapi.json", "/api/v1/login"),
        *(RENEW, END, PAGE_LOGIN, ARCHIVE_PATH, JOIN_PATH),
    }
)
"""Paths without authentication. A test makes sure that no other route answers without credentials."""
PUBLIC_PREFIXES = ("/app/", "/s/", "/r/")
"""The page and its files: they show nothing private."""
SIGNED_PREFIX = "/api/v1/webhooks/"
"""Signed deliveries: the route checks the signature, and takes any media type."""
SIGNED_PATHS = frozenset(f"/api/v1/channels/{name}" for name in ("slack", "telegram", "whatsapp"))
"""The same for platforms with a path of their own."""
CANONICAL_PREFIX = "/api/v1"
SEEDS = frozenset({"run", "runs", "approvals", "models", "health", "ready", "metrics"})
"""First parts of the paths that are older than `/api/v1`, and are found below it as well."""
DRAINED_BYTES = 8 * 1024 * 1024
DRAINED_S = 2.0
"""How much of a refused body is thrown away, and for how long: many clients look for an answer only behind it."""
MAX_ANONYMOUS_BODY_BYTES = 16 * 1024
"""Maximum body of an anonymous request: enough for a name and a password."""
ANONYMOUS_BODY_TIMEOUT_S = 10.0
BODY_S = 60.0
"""How long a client may take to send its body."""
MAX_HELD_BYTES = 64 * 1024 * 1024
"""Of all bodies that are not complete yet."""
MAX_HELD_BYTES_OF_CALLER = 16 * 1024 * 1024
"""Of those of one user or key; signed deliveries, whose sender is known behind the body, count as one caller."""
MAX_PAGE_COOKIES = 16
"""Cookies of servers on this machine that are tried."""
RECHECK_S = 5.0
"""How often it is checked again whether a running stream may go on: a credential can be revoked, a run made private."""
SHOWN_RUN = "shown_run"
"""Names, in the state of a request, the run that its stream shows."""
_RUN_HEADER = RUN_HEADER.lower().encode()
MAX_RUN_CHARS = 64
_NOT_KEPT = (b"cache-control", b"no-store")
"""Caches on the way know that `Authorization` makes an answer private, but not that `X-API-Key` does."""
MISSING = "Missing authentication credentials"
PAGE_HEADER = "X-Fabric-Page"
"""Carries the page token: the second half of a login in the browser, beside its cookie."""
_PAGE_HEADER = PAGE_HEADER.lower().encode()
_LOOKED_AT = (
    *(b"host", b"origin", b"content-type", b"content-length", b"transfer-encoding"),
    *(b"authorization", b"x-api-key", b"cookie", _PAGE_HEADER, _RUN_HEADER),
)
_HOW = "Send `Authorization: Bearer TOKEN` or `X-API-Key: KEY`. On the server itself, .fabric/token has one."


class RunFinder(Protocol):
    """Finds the runs that a caller may see."""

    async def __call__(self, prefix: str, *, by: Principal) -> RunId:
        """Return the run.

        Raises:
            RunNotFound: for this caller there is none.
        """
        ...


class Gate:
    """Authenticates every request, except for public and signed paths.

    A page in this machine's browser reaches us too, by a name of its own that leads to our address, which the Host
    header tells, or from its own origin, which Origin tells. Both are looked at first, then who is asking, and the
    body last: a stranger costs us no more than their headers.

    A body is read here, whatever route it is for: none gets more than it may, and none is left in the connection.

    Plain ASGI, because a middleware of the more comfortable kind costs more than most answers.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        hosts: Iterable[str],
        addresses: Addresses,
        authenticate: Authenticator,
        authenticate_page: PageAuthenticator,
        find: RunFinder,
        max_body_bytes: int,
        recheck_s: float = RECHECK_S,
    ) -> None:
        self._app = app
        self._hosts = frozenset(host.encode("latin-1", "replace").lower() for host in hosts)
        self._origins = frozenset(scheme + host for scheme in (b"http://", b"https://") for host in self._hosts)
        self._addresses = addresses
        self._authenticate = authenticate
        self._authenticate_page = authenticate_page
        self._find = find
        self._max_body_bytes = max_body_bytes
        self._recheck_s = recheck_s
        self._held = _HeldBodies(max(MAX_HELD_BYTES, max_body_bytes), max(MAX_HELD_BYTES_OF_CALLER, max_body_bytes))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] == "websocket":
            await self._connect(scope, receive, send)
            return
        asked = _Asked(scope["headers"])
        scope["path"] = canonical(scope["path"])
        state = scope.setdefault("state", {})
        from_here = not self._addresses.source(scope)
        refused = self._refusal(asked.hosts, asked.origins)
        if refused is None and _asks_who(scope["path"]):
            try:
                state["user"] = await self._who(asked, from_here=from_here)
            except FabricError as problem:
                refused = answer(problem)
        if asked.length != 0:
            with_body = await self._with_body(scope, asked, refused, receive, send)
            if with_body is None:
                return
            receive = with_body
        elif refused is not None:
            await refused(scope, receive, send)
            return
        if "user" not in state:
            await self._app(scope, receive, send)
            return
        again = partial(self._still_may, asked, state, from_here=from_here)
        answering = _Answering(send, again, self._recheck_s)
        try:
            await self._app(scope, receive, answering)
        except Exception:
            if not answering.is_over:
                raise

    async def _connect(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a page of ours, or a node, open its socket. Who it is, its first messages tell."""
        asked = _Asked(scope["headers"])
        refused = self._refusal(asked.hosts, asked.origins)
        if refused is None and scope["path"] == NODE_SOCKET:
            if not asked.origins:
                await self._app(scope, receive, send)
                return
            refused = refusal(403, "Nodes are no pages", hint="A node sends no `Origin`.")
        if refused is None and not asked.origins:
            refused = refusal(403, "A socket is only for pages of this server", hint="A browser sends `Origin`.")
        if refused is None and scope["path"] != PAGE_SOCKET:
            refused = refusal(404, "There is no socket here", hint=f"The socket of the page is {PAGE_SOCKET}.")
        if refused is not None:
            headers = refused.raw_headers
            await send({"type": "websocket.http.response.start", "status": refused.status_code, "headers": headers})
            await send({"type": "websocket.http.response.body", "body": bytes(refused.body)})
            return
        from_here = not self._addresses.source(scope)

        async def page_user(page_token: str) -> Principal:
            return await self._authenticate_page(asked.page_cookies, page_token, from_here=from_here)

        scope.setdefault("state", {})["page_user"] = page_user
        await self._app(scope, receive, send)

    async def _with_body(
        self, scope: Scope, asked: "_Asked", refused: Response | None, receive: Receive, send: Send
    ) -> Receive | None:
        """Read the body, and return what gives it once more; None when it was refused."""
        path = scope["path"]
        most = min(self._max_body_bytes, MAX_ANONYMOUS_BODY_BYTES) if path in PUBLIC_PATHS else self._max_body_bytes
        refused, more = refused or _body_refusal(asked, most, any_type=is_signed_path(path)), True
        if refused is None:
            try:
                user = scope["state"].get("user")
                async with asyncio.timeout(ANONYMOUS_BODY_TIMEOUT_S if user is None else BODY_S):
                    body = await self._held.read(receive, most, "" if user is None else user.id)
                return replay_body(body, receive)
            except ClientDisconnect:
                return None
            except TimeoutError:
                refused, more = _too_slow(), False
            except _TooLarge as problem:
                refused, more = _too_large(most), problem.more
            except _TooMany:
                refused, more = _too_many(), True
            except asyncio.CancelledError:  # the server cannot wait any longer
                stopping = ServerStopping("The server is stopping", hint="Ask again when it is back.")
                await answer(stopping)(scope, receive, send)
                return None
        await _refuse(shape_for(refused, path), receive, send, more=more)
        return None

    async def _who(self, asked: "_Asked", *, from_here: bool) -> Principal:
        """Return who asks.

        Raises:
            Unauthenticated: they do not say, or it is not true.
        """
        if asked.page_tokens:
            principal = await self._authenticate_page(asked.page_cookies, asked.page_token, from_here=from_here)
        else:
            principal = await self._authenticate(asked.credential, is_key=bool(asked.keys), from_here=from_here)
        return principal.acting_for(asked.run) if asked.run else principal

    async def _still_may(self, asked: "_Asked", state: Mapping[str, Any], *, from_here: bool) -> bool:
        """Tell whether the reader of a stream may still have it, and still sees the run that it shows."""
        try:
            if await self._who(asked, from_here=from_here) != state["user"]:
                return False
            if SHOWN_RUN in state:
                await self._find(state[SHOWN_RUN], by=state["user"])
        except (Unauthenticated, RunNotFound):
            return False
        except FabricError:  # we cannot tell now, and they could when it began
            return True
        return True

    def _refusal(self, hosts: Sequence[bytes], origins: Sequence[bytes]) -> Response | None:
        if len(hosts) != 1 or hosts[0].lower() not in self._hosts:
            return refusal(
                421,
                f"This server is not {_quote(hosts)}",
                hint="Call it as it is called in `server.hosts`, or, on its own machine, localhost with its port.",
            )
        if len(origins) > 1 or (origins and origins[0].lower() not in self._origins):
            return refusal(
                403,
                f"Pages of {_quote(origins)} may not use this server",
                hint="Only pages from this server itself may use it.",
            )
        return None


class _Answering:
    """Sends an answer, and ends it as soon as the reader may not have it any more."""

    __slots__ = ("_again_at", "_every_s", "_send", "_still_may", "is_over")

    def __init__(self, send: Send, still_may: Callable[[], Awaitable[bool]], every_s: float) -> None:
        self._send = send
        self._still_may = still_may
        self._every_s = every_s
        self._again_at = monotonic() + every_s
        self.is_over = False
        """Whether it was ended before its time."""

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = message["headers"] = list(message.get("headers", ()))
            if not any(name == b"cache-control" for name, _ in headers):
                headers.append(_NOT_KEPT)
        elif monotonic() >= self._again_at and message.get("more_body", False):
            self._again_at = monotonic() + self._every_s
            if not await self._still_may():
                self.is_over = True
                await self._send({"type": "http.response.body", "body": b""})
                raise _NoLonger
        await self._send(message)


class _TooMany(Exception):
    """Bodies that are not complete take too much memory."""


class _NoLonger(Exception):
    """The reader of an answer may not have more of it."""


class _Asked:
    """What the headers of a request say that concerns us."""

    def __init__(self, headers: Iterable[tuple[bytes, bytes]]) -> None:
        found: dict[bytes, list[bytes]] = {name: [] for name in _LOOKED_AT}
        for name, value in headers:
            if name in found:
                found[name].append(value)
        self.hosts, self.origins, self.media_types = found[b"host"], found[b"origin"], found[b"content-type"]
        self.authorizations, self.keys, self.cookies = found[b"authorization"], found[b"x-api-key"], found[b"cookie"]
        self.page_tokens, runs = found[_PAGE_HEADER], found[_RUN_HEADER]
        self.run = (runs[-1].decode("latin-1")[:MAX_RUN_CHARS].strip() or UNKNOWN_RUN) if runs else ""
        """The run on whose behalf the request is made. It only narrows what the caller may."""
        lengths, chunked = set(found[b"content-length"]), bool(found[b"transfer-encoding"])
        length = lengths.pop() if len(lengths) == 1 else b"" if lengths or chunked else b"0"
        self.length = int(length) if length.isdigit() and not chunked else None
        """Bytes of the body; None: unknown until it has ended. Chunks override a stated length, whatever the order."""

    @property
    def page_cookies(self) -> list[str]:
        """Cookies of ours: a browser may have several, since servers on other ports of the same machine set theirs."""
        return page_cookies(self.cookies)

    @property
    def page_token(self) -> str:
        """The page token of a browser.

        Raises:
            Unauthenticated: there is more than one credential.
        """
        if len(self.page_tokens) + len(self.keys) + len(self.authorizations) > 1:
            raise Unauthenticated("More than one credential was sent", hint=_HOW)
        return self.page_tokens[0].decode("latin-1")

    @property
    def credential(self) -> str:
        """The one credential.

        Raises:
            Unauthenticated: there is none, or more than one.
        """
        if len(self.keys) + len(self.authorizations) > 1:
            raise Unauthenticated("More than one credential was sent", hint=_HOW)
        if self.keys:
            return self.keys[0].decode("latin-1")
        if self.authorizations:
            scheme, _, credential = self.authorizations[0].decode("latin-1").partition(" ")
            if scheme.lower() == "bearer" and credential.strip():
                return credential.strip()
        raise Unauthenticated(MISSING, hint=_HOW)


def _body_refusal(asked: _Asked, most: int, *, any_type: bool) -> Response | None:
    if asked.length is not None and asked.length > most:
        return _too_large(most)
    if len(asked.media_types) > 1:
        return refusal(415, f"A body is of one type, not of {_quote(asked.media_types)}")
    essence = b"".join(asked.media_types).partition(b";")[0].strip().lower()
    if any_type:
        return None
    if essence != b"application/json" and not (essence.startswith(b"application/") and essence.endswith(b"+json")):
        return refusal(415, f"{essence.decode('latin-1') or 'A body without a type'} is not supported here")
    return None


class _HeldBodies:
    """Reads bodies, and counts what has come of those that are not complete: of each caller, and of all."""

    def __init__(self, most: int, most_of_caller: int) -> None:
        self._most, self._most_of_caller = most, most_of_caller
        self._bytes = 0
        self._by_caller: Counter[str] = Counter()

    async def read(self, receive: Receive, most: int, caller: str) -> bytes:
        """Return a whole body.

        Raises:
            ClientDisconnect: the client has left.
            _TooLarge: there is more than may be.
            _TooMany: too much is held already.
        """
        pieces, size, more = list[bytes](), 0, True
        try:
            while more:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise ClientDisconnect
                piece = message.get("body", b"")
                more = message.get("more_body", False)
                pieces.append(piece)
                size += len(piece)
                self._count(caller, len(piece))
                if size > most:
                    raise _TooLarge(more=more)
                if more and (self._bytes > self._most or self._by_caller[caller] > self._most_of_caller):
                    raise _TooMany
            return b"".join(pieces)
        finally:
            self._count(caller, -size)

    def _count(self, caller: str, size: int) -> None:
        self._bytes += size
        self._by_caller[caller] += size
        if not self._by_caller[caller]:
            del self._by_caller[caller]


def _too_large(most: int) -> Response:
    return refusal(413, f"The body is larger than {most:,} bytes")


def _too_many() -> Response:
    return answer(ServerBusy("Too many bodies are on their way at once", hint="Send them one after the other."))


def _too_slow() -> Response:
    return refusal(408, "The body was not complete in time", hint="Send it at once.")


def is_signed_path(path: str) -> bool:
    """Tell whether a route checks a signature instead of a credential."""
    return path.startswith(SIGNED_PREFIX) or path in SIGNED_PATHS


def _asks_who(path: str) -> bool:
    return path not in PUBLIC_PATHS and not path.startswith(PUBLIC_PREFIXES) and not is_signed_path(path)


def page_cookies(headers: Iterable[bytes]) -> list[str]:
    """Return the values of our cookies."""
    pairs = (pair.strip().partition(b"=") for header in headers for pair in header.split(b";"))
    found = [value.decode("latin-1") for name, _, value in pairs if name.startswith((b"__Host-fabric", b"fabric_"))]
    return found[:MAX_PAGE_COOKIES]


def canonical(path: str) -> str:
    """Return a path as the routes are written: `/api/v1/runs` is `/runs`."""
    if path.startswith(CANONICAL_PREFIX + "/") and path[8:].partition("/")[0] in SEEDS:
        return path[7:]
    return path


class _TooLarge(Exception):
    def __init__(self, *, more: bool) -> None:
        super().__init__()
        self.more = more
        """Whether there is still something to be read."""


async def _refuse(refused: Response, receive: Receive, send: Send, *, more: bool) -> None:
    """Answer at once, but close the connection only behind the body, or the answer is lost with what was not read."""
    headers = [*refused.raw_headers, (b"connection", b"close")]
    await send({"type": "http.response.start", "status": refused.status_code, "headers": headers})
    await send({"type": "http.response.body", "body": bytes(refused.body), "more_body": True})
    size = 0
    with suppress(TimeoutError):
        async with asyncio.timeout(DRAINED_S):
            while more and size < DRAINED_BYTES:
                message = await receive()
                size += len(message.get("body", b""))
                more = message.get("more_body", False)
    await send({"type": "http.response.body", "body": b""})


def _quote(values: Sequence[bytes]) -> str:
    return " and ".join(repr(value.decode("latin-1")) for value in values) or "''"
