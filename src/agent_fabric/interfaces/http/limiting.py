"""Rate limits: per caller and endpoint, and per address for wrong credentials.

`FailureLimit` runs before authentication and sees refused credentials; `Limiting` runs after it and knows the caller.
Both are plain ASGI, for the same reason as the gate.
"""

import math
import re
from collections import Counter
from collections.abc import Mapping
from typing import Final, NamedTuple

from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agent_fabric.application.ports.limits import QuotaState, Rate
from agent_fabric.application.runs.limits import Limits
from agent_fabric.domain.errors import TooManyRequests
from agent_fabric.domain.identity.principals import Principal
from agent_fabric.domain.plural import count_of
from agent_fabric.interfaces.http.addresses import Addresses
from agent_fabric.interfaces.http.bodies import replay_body
from agent_fabric.interfaces.http.errors import problem
from agent_fabric.interfaces.http.gate import PAGE_LOGIN, PUBLIC_PATHS, PUBLIC_PREFIXES, canonical, is_signed_path
from agent_fabric.wire.json_codec import load_json

LOGIN: Final = "/api/v1/login"
LOGINS: Final = frozenset({LOGIN, PAGE_LOGIN})
_CREDENTIALS: Final = frozenset({b"authorization", b"x-api-key", b"x-fabric-page"})
UNAUTHENTICATED: Final = 401
STREAM_RETRY_AFTER_S: Final = 5.0
"""Suggested wait; the end of a stream is not known."""
_STREAM: Final = b"text/event-stream"


class FailureLimit:
    """Limits wrong credentials per address, before authentication.

    The same credential from another address is not affected. Requests from this machine are not counted unless the
    configuration says so: a program with an old token must not lock out its owner. Signed webhooks are not counted,
    since many senders share an address, and neither are public paths, where no credential is checked.
    """

    def __init__(self, app: ASGIApp, *, limits: Limits, addresses: Addresses) -> None:
        self._app = app
        self._limits = limits
        self._addresses = addresses

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        rate = self._limits.failures
        if scope["type"] != "http" or rate is None or _nothing_to_guess(canonical(scope["path"])):
            await self._app(scope, receive, send)
            return
        source = self._addresses.source(scope)
        if not source and not self._limits.settings.local:
            await self._app(scope, receive, send)
            return
        key = f"failures {source}"
        state = await self._limits.strangers.look(key, rate)
        # The page has limits of its own: guessing passwords must not lock out the owner, who shows a code.
        if not state.allowed and canonical(scope["path"]) != PAGE_LOGIN:
            refused = _refusal("Too many wrong credentials have come from this address", "failures", state)
            await refused(scope, receive, send)
            return

        async def watch(message: Message) -> None:
            is_refused = message["type"] == "http.response.start" and message["status"] == UNAUTHENTICATED
            if is_refused and _shows_something(scope):
                await self._limits.strangers.hit(key, rate)
            await send(message)

        await self._app(scope, receive, watch)


class _EndpointRate(NamedTuple):
    """The rate of one configured endpoint."""

    name: str
    path: re.Pattern[str]
    rate: Rate


class Limiting:
    """Limits requests and open streams per caller, after authentication. Started runs are counted where they start."""

    def __init__(self, app: ASGIApp, *, limits: Limits, addresses: Addresses) -> None:
        self._app = app
        self._limits = limits
        self._addresses = addresses
        self._streams: Counter[str] = Counter()
        self._endpoints = _by_method(limits.endpoints)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        principal: Principal | None = scope.get("state", {}).get("user")
        if principal is None:
            await self._log_in(scope, receive, send)
        elif self._limits.hold_for(principal):
            await self._limit_caller(principal.id, scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _log_in(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Limit logins. An attempt counts before it is made, so that concurrent ones count, too.

        Codes that open the page are counted apart from passwords: those who guess one must not lock out the other.
        """
        rate = self._limits.login
        if rate is None or scope["path"] not in LOGINS or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        shows_code = False
        if scope["path"] == PAGE_LOGIN:
            body = (await receive()).get("body", b"")  # all of it: the gate has read it
            shows_code, receive = _shows_code(body), replay_body(body, receive)
        key = f"{'code' if shows_code else 'login'} {self._addresses.source(scope)}"
        state = await self._limits.strangers.hit(key, rate)
        if not state.allowed:
            await _refusal("Too many logins have failed from this address", "login", state)(scope, receive, send)
            return

        async def watch(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] != UNAUTHENTICATED:
                await self._limits.strangers.hit(key, rate, cost=-1)
            await send(message)

        await self._app(scope, receive, watch)

    async def _limit_caller(self, who: str, scope: Scope, receive: Receive, send: Send) -> None:
        group = _group_of(scope["method"])
        rate = self._limits.requests
        told: list[tuple[bytes, bytes]] = []
        endpoint = self._endpoint(scope)
        if endpoint is not None:
            state = await self._limits.known.hit(f"{who} {endpoint.name}", endpoint.rate)
            told = _headers(endpoint.rate, state)
            if not state.allowed:
                message = f"Too many requests to {endpoint.name} for now"
                await _refusal(message, "endpoints", state, endpoint.rate)(scope, receive, send)
                return
        if rate is not None:
            state = await self._limits.known.hit(f"{who} {group}", rate)
            if not state.allowed:
                await _refusal("You have asked too often for now", "requests", state, rate)(scope, receive, send)
                return
            told = told or _headers(rate, state)
        most = self._limits.settings.streams
        streams = most is not None and _wants_stream(scope)
        if streams and most is not None and self._streams[who] >= most:
            refused = TooManyRequests(
                f"You have {most} open streams, which is the limit",
                hint="Close one. The limit is `limits.streams`.",
                retry_after_s=STREAM_RETRY_AFTER_S,
            )
            await problem(refused)(scope, receive, send)
            return
        self._streams[who] += streams

        async def add_headers(message: Message) -> None:
            nonlocal streams
            if message["type"] == "http.response.start":
                started, starts = scope["state"].get("starts_left"), self._limits.starts
                shown = told if started is None or starts is None else _headers(starts, started)
                message["headers"] = headers = [*message.get("headers", ()), *shown]
                if streams != _is_stream(headers):  # some only turn out to be one, and some not to be
                    self._streams[who] += -1 if streams else 1
                    streams = not streams
            await send(message)

        try:
            await self._app(scope, receive, add_headers)
        finally:
            self._streams[who] -= streams
            if self._streams[who] <= 0:
                del self._streams[who]

    def _endpoint(self, scope: Scope) -> _EndpointRate | None:
        """Return the configured endpoint of a request."""
        configured = self._endpoints.get("GET" if scope["method"] == "HEAD" else scope["method"], ())
        return next((each for each in configured if each.path.fullmatch(scope["path"])), None)


def _by_method(endpoints: Mapping[str, Rate]) -> dict[str, list[_EndpointRate]]:
    """Return the configured endpoints by method; exact paths before those with a placeholder."""
    found: dict[str, list[_EndpointRate]] = {}
    for name in sorted(endpoints, key=lambda name: (name.count("{") + name.count("*"), name)):
        method, _, path = name.partition(" ")
        parts = (re.escape(part) if part[:1] not in ("{", "*") else "[^/]+" for part in canonical(path).split("/"))
        found.setdefault(method, []).append(_EndpointRate(name, re.compile("/".join(parts) + "/?"), endpoints[name]))
    return found


def _nothing_to_guess(path: str) -> bool:
    return (path in PUBLIC_PATHS and path not in LOGINS) or path.startswith(PUBLIC_PREFIXES) or is_signed_path(path)


def _shows_something(scope: Scope) -> bool:
    """Return whether a refused request carried credentials."""
    return scope["path"] in LOGINS or any(name in _CREDENTIALS for name, _ in scope["headers"])


def _shows_code(body: bytes) -> bool:
    """Return whether a login of the page is by a code, not by a password."""
    try:
        wish = load_json(body)
    except ValueError:
        return False
    return isinstance(wish, dict) and bool(wish.get("code"))


def _group_of(method: str) -> str:
    """Return which requests count together: those that read, or that change something."""
    if method in {"GET", "HEAD"}:
        return "read"
    return "write" if method in {"POST", "PUT", "PATCH", "DELETE"} else "other"


def _wants_stream(scope: Scope) -> bool:
    if scope["path"].endswith("/stream"):
        return True
    return any(name == b"accept" and _STREAM in value for name, value in scope["headers"])


def _is_stream(headers: list[tuple[bytes, bytes]]) -> bool:
    return any(name == b"content-type" and value.startswith(_STREAM) for name, value in headers)


def _headers(rate: Rate, state: QuotaState) -> list[tuple[bytes, bytes]]:
    return [
        (b"ratelimit-limit", b"%d" % rate.amount),
        (b"ratelimit-remaining", b"%d" % state.remaining),
        (b"ratelimit-reset", b"%d" % math.ceil(state.reset_s)),
    ]


def _refusal(message: str, limit: str, state: QuotaState, rate: Rate | None = None) -> Response:
    seconds = max(1, math.ceil(state.reset_s))
    hint = f"Ask again in {count_of(seconds, 'second')}. The limit is `limits.{limit}`."
    response = problem(TooManyRequests(message, hint=hint, retry_after_s=state.reset_s))
    response.raw_headers.extend([] if rate is None else _headers(rate, state))
    return response
