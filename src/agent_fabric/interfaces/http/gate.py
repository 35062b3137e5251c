"""What every request passes first: who may ask, how much, and in what form."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agent_fabric.domain.errors import ServerStopping
from agent_fabric.interfaces.http.errors import problem as answer
from agent_fabric.interfaces.http.errors import refusal

NAMES = (b"localhost", b"127.0.0.1", b"[::1]")
"""How this machine may be called."""
DRAINED_BYTES = 8 * 1024 * 1024
DRAINED_S = 2.0
"""How much of a refused body is thrown away, and for how long: many clients look for an answer only behind it."""


class Gate:
    """Lets in what this machine's own programs send.

    There is no login yet: whoever reaches us can run commands. A page in this machine's browser reaches us too, by a
    name of its own that leads to 127.0.0.1, which the Host header tells, or from its own origin, which Origin tells.

    A body is read here, whatever route it is for: none gets more than it may, and none is left in the connection.

    Plain ASGI, because a middleware of the more comfortable kind costs more than most answers.
    """

    def __init__(self, app: ASGIApp, *, port: int, max_body_bytes: int) -> None:
        self._app = app
        self._hosts = frozenset(name + end for name in NAMES for end in (b"", b":%d" % port))
        self._origins = frozenset(b"http://" + host for host in self._hosts)
        self._max_body_bytes = max_body_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            hosts, origins, media_types = list[bytes](), list[bytes](), list[bytes]()
            length: int | None = 0
            for name, value in scope["headers"]:
                if name == b"host":
                    hosts.append(value)
                elif name == b"origin":
                    origins.append(value)
                elif name == b"content-type":
                    media_types.append(value)
                elif name == b"content-length":
                    length = int(value) if value.isdigit() else None
                elif name == b"transfer-encoding":
                    length = None
            refused = self._refusal(hosts, origins)
            if length != 0:
                refused, more = refused or self._body_refusal(length, media_types), True
                if refused is None:
                    try:
                        receive = _again(await self._body(receive), receive)
                    except ClientDisconnect:
                        return
                    except _TooLarge as problem:
                        refused, more = self._too_large(), problem.more
                    except asyncio.CancelledError:  # the server cannot wait any longer
                        stopping = ServerStopping("The server is stopping", hint="Ask again when it is back.")
                        await answer(stopping)(scope, receive, send)
                        return
                if refused is not None:
                    await _refuse(refused, receive, send, more=more)
                    return
            if refused is not None:
                await refused(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _refusal(self, hosts: Sequence[bytes], origins: Sequence[bytes]) -> Response | None:
        if len(hosts) != 1 or hosts[0].lower() not in self._hosts:
            return refusal(
                421,
                f"This server is not {_named(hosts)}",
                hint="Call it localhost or 127.0.0.1, with the port it listens on.",
            )
        if len(origins) > 1 or (origins and origins[0].lower() not in self._origins):
            return refusal(
                403,
                f"Pages of {_named(origins)} may not use this server",
                hint="Only pages that this server itself delivered may.",
            )
        return None

    def _body_refusal(self, length: int | None, media_types: Sequence[bytes]) -> Response | None:
        if length is not None and length > self._max_body_bytes:
            return self._too_large()
        if len(media_types) > 1:
            return refusal(415, f"A body is of one type, not of {_named(media_types)}")
        essence = b"".join(media_types).partition(b";")[0].strip().lower()
        if essence != b"application/json" and not (essence.startswith(b"application/") and essence.endswith(b"+json")):
            return refusal(415, f"{essence.decode('latin-1') or 'A body without a type'} is not understood here")
        return None

    async def _body(self, receive: Receive) -> bytes:
        """Return the whole body.

        Raises:
            ClientDisconnect: the client has left.
            _TooLarge: there is more than may be.
        """
        pieces, size, more = list[bytes](), 0, True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ClientDisconnect
            pieces.append(message.get("body", b""))
            size += len(pieces[-1])
            more = message.get("more_body", False)
            if size > self._max_body_bytes:
                raise _TooLarge(more=more)
        return b"".join(pieces)

    def _too_large(self) -> Response:
        return refusal(413, f"The body is larger than {self._max_body_bytes:,} bytes")


class _TooLarge(Exception):
    def __init__(self, *, more: bool) -> None:
        super().__init__()
        self.more = more
        """Whether there is still something to be read."""


def _again(body: bytes, receive: Receive) -> Receive:
    """Let a body be received that has been read already."""
    given = False

    async def received() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return received


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


def _named(values: Sequence[bytes]) -> str:
    return " and ".join(repr(value.decode("latin-1")) for value in values) or "''"
