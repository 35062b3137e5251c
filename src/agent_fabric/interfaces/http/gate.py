"""What every request passes first: who may ask, how much, and in what form."""

from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agent_fabric.interfaces.http.errors import refusal

NAMES = (b"localhost", b"127.0.0.1", b"[::1]")
"""How this machine may be called."""


class Gate:
    """Lets in what this machine's own programs send.

    There is no login yet: whoever reaches us can run commands. A page in this machine's browser reaches us too, by a
    name of its own that leads to 127.0.0.1, which the Host header tells, or from its own origin, which Origin tells.

    Plain ASGI, because a middleware of the more comfortable kind costs more than most answers.
    """

    def __init__(self, app: ASGIApp, *, port: int, max_body_bytes: int) -> None:
        self._app = app
        self._hosts = frozenset(name + end for name in NAMES for end in (b"", b":%d" % port))
        self._origins = frozenset(b"http://" + host for host in self._hosts)
        self._max_body_bytes = max_body_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            host = origin = media_type = b""
            length: int | None = 0
            for name, value in scope["headers"]:
                if name == b"host":
                    host = value if not host else b"several"
                elif name == b"origin":
                    origin = value
                elif name == b"content-type":
                    media_type = value
                elif name == b"content-length":
                    length = int(value) if value.isdigit() else None
                elif name == b"transfer-encoding":
                    length = None
            refused = self._refusal(host, origin) or (length != 0 and self._body_refusal(length, media_type))
            if refused:
                await refused(scope, receive, send)
                return
            if length is None:
                receive = _limited(receive, self._max_body_bytes)
        await self._app(scope, receive, send)

    def _refusal(self, host: bytes, origin: bytes) -> Response | None:
        if host.lower() not in self._hosts:
            return refusal(
                421,
                f"This server is not {host.decode('latin-1')!r}",
                hint="Call it localhost or 127.0.0.1, with the port it listens on.",
            )
        if origin and origin.lower() not in self._origins:
            return refusal(
                403,
                f"Pages of {origin.decode('latin-1')!r} may not use this server",
                hint="Only pages that this server itself delivered may.",
            )
        return None

    def _body_refusal(self, length: int | None, media_type: bytes) -> Response | None:
        if length is not None and length > self._max_body_bytes:
            return refusal(413, _too_large(self._max_body_bytes), headers={"connection": "close"})
        essence = media_type.partition(b";")[0].strip().lower()
        if essence != b"application/json" and not (essence.startswith(b"application/") and essence.endswith(b"+json")):
            return refusal(415, f"{essence.decode('latin-1') or 'A body without a type'} is not understood here")
        return None


def _limited(receive: Receive, most: int) -> Receive:
    """Count a body whose length was not told."""
    size = 0

    async def counted() -> Message:
        nonlocal size
        message = await receive()
        size += len(message.get("body", b""))
        if size > most:
            raise HTTPException(413, _too_large(most), {"connection": "close"})
        return message

    return counted


def _too_large(most: int) -> str:
    return f"The body is larger than {most:,} bytes"
