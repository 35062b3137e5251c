"""`Idempotency-Key`: a request that is sent again is answered with what came of it the first time.

Who sends a request and gets no answer does not know whether it arrived. With a key, they may send it again, and again:
it is carried out once. Even if we are killed in between: the run that it starts has an id from the very beginning, so
that a repeated request comes to the same run.

Draft of the IETF: draft-ietf-httpapi-idempotency-key-header.
"""

import asyncio
import hashlib
import logging
import re
from collections.abc import Callable
from dataclasses import field
from typing import Any, Final

from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agent_fabric.application.ports.idempotency import Claim, IdempotencyStore, KeptAnswer
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import FabricError, RepeatMismatch, RepeatNotKept
from agent_fabric.domain.identity.principals import Principal
from agent_fabric.interfaces.http.bodies import replay_body
from agent_fabric.interfaces.http.errors import problem, refusal

HEADER: Final = b"idempotency-key"
REPLAYED: Final = (b"idempotency-replayed", b"true")
MAX_BYTES: Final = 1_000_000
"""Larger answers are not kept: a repeated request is answered anew, from the same run."""
_CHANGING: Final = frozenset({"POST", "PUT", "PATCH", "DELETE"})
_KEY: Final = re.compile(rb"[\x21-\x7e]{1,255}")
_MAY_DIFFER_LATER: Final = frozenset({401, 403, 408, 409, 425, 429})
"""Answers that say nothing about the request itself: asking again is worth while."""
_KEPT_HEADERS: Final = frozenset(
    {b"content-type", b"content-location", b"location", b"allow", b"retry-after", b"x-fabric-run-id"}
)
_SECRETS: Final = ("/api/v1/keys", "/api/v1/login", "/api/v1/secrets", "/api/v1/token", "/api/v1/users", "/api/v1/web")
"""Below these paths answers may hold secrets. Like all that says `Cache-Control: no-store`, they are not kept."""

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _UnderWay:
    """A request that is being carried out here."""

    request: bytes
    answer: "asyncio.Future[KeptAnswer | None]" = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )
    """For all who sent the same one meanwhile; None: each of them is to be answered by itself."""


class Idempotency:
    """Stands behind the gate. Requests without a key pass at the cost of a look at their headers."""

    def __init__(self, app: ASGIApp, *, store: IdempotencyStore, hashed: Callable[[str], bytes]) -> None:
        """Take the store, and what makes of a digest one from which no request can be guessed."""
        self._app = app
        self._store = store
        self._hashed = hashed
        self._under_way: dict[tuple[str, str], _UnderWay] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] not in _CHANGING:
            await self._app(scope, receive, send)
            return
        keys = [value for name, value in scope["headers"] if name == HEADER]
        principal: Principal | None = scope.get("state", {}).get("user")
        if not keys or principal is None:
            await self._app(scope, receive, send)
            return
        if len(keys) > 1 or not _KEY.fullmatch(keys[0]):
            hint = "Choose one of 1 to 255 visible ASCII characters, such as a new UUID for each request."
            await refusal(400, "The Idempotency-Key cannot be used", hint=hint)(scope, receive, send)
            return
        body = (await receive()).get("body", b"")  # all of it: the gate has read it
        place, request = (principal.id, keys[0].decode("ascii")), self._hashed(_digest(principal, scope, body))
        try:
            response = await self._answer(place, request, body, scope, receive, send)
        except FabricError as refused:
            response = problem(refused)
        if response is not None:
            await response(scope, receive, send)

    async def _answer(
        self, place: tuple[str, str], request: bytes, body: bytes, scope: Scope, receive: Receive, send: Send
    ) -> Response | None:
        """Return the answer; None if it has been sent already, or the client has gone."""
        while (first := self._under_way.get(place)) is not None:
            _require_same(same=first.request == request)
            if not await _done(first, receive):
                return None
            answer = first.answer.result()
            if answer is not None:
                return _replay(answer)
        mine = self._under_way[place] = _UnderWay(request)
        try:
            claim = await self._store.claim(*place, request)
            _require_same(same=claim.same_request)
            if claim.answer is not None:
                mine.answer.set_result(claim.answer)
                return _replay(claim.answer)
            await self._carry_out(place, mine, claim, scope, replay_body(body, receive), send)
        finally:
            self._let_go(place, mine)
        return None

    async def _carry_out(
        self, place: tuple[str, str], mine: _UnderWay, claim: Claim, scope: Scope, receive: Receive, send: Send
    ) -> None:
        state = scope["state"]
        state["run_id"], state["is_repeat"] = claim.run_id, not claim.is_new

        async def keep(answer: KeptAnswer) -> None:
            try:
                about = [str(each) for each in (scope.get("path_params") or {}).values()]
                await self._store.keep(*place, answer, about=about)
            except FabricError as refused:  # they have their answer, and may ask for the run again
                _log.warning("The answer to a request was not kept: %s", refused.message)
            if not mine.answer.done():
                mine.answer.set_result(answer)

        await self._app(scope, receive, _Keeper(scope, send, keep, lambda: self._let_go(place, mine)))

    def _let_go(self, place: tuple[str, str], mine: _UnderWay) -> None:
        """Let those who wait for a request continue, each by itself unless there is an answer for all."""
        if self._under_way.get(place) is mine:
            del self._under_way[place]
        if not mine.answer.done():
            mine.answer.set_result(None)


class _Keeper:
    """Takes an answer, has it kept if it can be, and then sends it. What is too long, or a stream, passes through."""

    def __init__(self, scope: Scope, send: Send, keep: Any, let_go: Any) -> None:
        self._scope = scope
        self._send = send
        self._keep = keep
        self._let_go = let_go
        self._start: Message | None = None
        """The head of an answer that is held back."""
        self._body = b""

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            await self._begin(message)
        elif self._start is None:
            await self._send(message)
        else:
            self._body += message.get("body", b"")
            more = message.get("more_body", False)
            if not more:
                await self._keep_it(self._start)
            if not more or len(self._body) > MAX_BYTES:
                start, self._start = self._start, None
                await self._send(start)
                await self._send({"type": "http.response.body", "body": self._body, "more_body": more})
                self._body = b""

    async def _begin(self, start: Message) -> None:
        headers = start["headers"] = list(start.get("headers", ()))
        if self._scope["state"].get("is_attached"):
            headers.append(REPLAYED)
        if _header(headers, b"content-type").startswith(b"text/event-stream"):
            self._let_go()  # a repeated request follows the same run
        elif start["status"] < 500 and start["status"] not in _MAY_DIFFER_LATER:
            self._start = start
            return
        await self._send(start)

    async def _keep_it(self, start: Message) -> None:
        if len(self._body) > MAX_BYTES:
            return
        path = self._scope["path"]
        headers = [(name, value) for name, value in start["headers"] if name in _KEPT_HEADERS]
        body, status = self._body, start["status"]
        if body and (b"no-store" in _header(start["headers"], b"cache-control") or path.startswith(_SECRETS)):
            if status >= 400:
                return
            instead = problem(
                RepeatNotKept(
                    "This request has been carried out already; its answer is not kept, because it may hold a secret",
                    hint="Look what came of it, or send it again with another Idempotency-Key.",
                )
            )
            status, headers, body = instead.status_code, instead.raw_headers[1:], bytes(instead.body)
        shown = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in headers]
        await self._keep(KeptAnswer(status, shown, body))


async def _done(first: _UnderWay, receive: Receive) -> bool:
    """Wait until a request has been answered; False if our client loses patience before."""
    left = asyncio.ensure_future(receive())  # the body has been read: all that can come is the end
    try:
        await asyncio.wait((first.answer, left), return_when=asyncio.FIRST_COMPLETED)
    finally:
        left.cancel()
    return first.answer.done()


def _digest(principal: Principal, scope: Scope, body: bytes) -> str:
    """Tell requests apart, also by what their sender may: a token for less brings back nothing of one for more."""
    digest = hashlib.sha256()
    path = scope["path"].encode(errors="surrogateescape")
    for part in (
        scope["method"].encode(),
        path,
        scope["query_string"],
        body,
        *map(str.encode, sorted(principal.scopes)),
    ):
        digest.update(b"%d:" % len(part))
        digest.update(part)
    return digest.hexdigest()


def _require_same(*, same: bool) -> None:
    if not same:
        raise RepeatMismatch(
            "This Idempotency-Key was used for another request", hint="Choose a new key for each new request."
        )


def _replay(answer: KeptAnswer) -> Response:
    response = Response(answer.body, answer.status)
    headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in answer.headers]
    response.raw_headers = [*headers, (b"content-length", b"%d" % len(answer.body)), REPLAYED]
    return response


def _header(headers: list[tuple[bytes, bytes]], wanted: bytes) -> bytes:
    return next((bytes(value) for name, value in headers if name.lower() == wanted), b"")
