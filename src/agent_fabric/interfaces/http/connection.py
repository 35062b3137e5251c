"""One connection, as a server that faces a network takes it: small buffers, and no patience with those who stall."""

import asyncio
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http import HTTPStatus

from starlette.types import Scope
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from agent_fabric.interfaces.http.errors import refusal

SEND_BUFFER_BYTES = 16 * 1024
"""What we take, and what the kernel takes, for a client that does not read. The kernel alone would take megabytes."""
ROOMY_BUFFER_BYTES = 256 * 1024
"""The same for files: with small buffers a local connection waits more than it sends."""
HEAD_BYTES = 64 * 1024
"""How much a client may send before it has said what it wants, and of anything else that is no body."""
WRAPPED = 16
"""So many bytes around it does each byte of a body pay for: some clients send a body in very small chunks."""


_TRANSPORT = "fabric.transport"


@contextmanager
def roomy(scope: Scope) -> Iterator[None]:
    """Give a connection more room while something large is sent over it."""
    transport: asyncio.Transport | None = scope.get(_TRANSPORT)
    own: socket.socket | None = transport.get_extra_info("socket") if transport is not None else None
    if own is None:
        yield
        return
    before = own.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)
    own.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, ROOMY_BUFFER_BYTES)
    try:
        yield
    finally:
        with suppress(OSError):  # it is closed already
            own.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, before // 2)  # the kernel tells twice what it was told


class Connection(AutoHTTPProtocol):  # type: ignore[misc, valid-type]  # chosen by what is installed
    """uvicorn's own, with a small buffer, our errors, the host that a target names, and limits for the head."""

    head_s = 15.0
    """How long a client may take to say what it wants."""
    unread_s = 300.0
    """How long a client may leave an answer unread before it is given up; streams can be gone on with."""

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        transport.set_write_buffer_limits(SEND_BUFFER_BYTES)
        self._beside_bytes = 0
        """What has come of the message under way and is no body: its head, what is around chunks, trailers."""
        self._head_is_over = False
        self._unread: asyncio.TimerHandle | None = None
        self._impatience: asyncio.TimerHandle | None = self.loop.call_later(self.head_s, self._stalled)

    def data_received(self, data: bytes) -> None:
        if self._impatience is None and (self.cycle is None or self.cycle.response_complete):
            self._impatience = self.loop.call_later(self.head_s, self._stalled)
        self._beside_bytes += len(data)
        super().data_received(data)
        if self._beside_bytes > HEAD_BYTES:
            self._refuse(431, f"The headers are longer than {HEAD_BYTES:,} bytes", hint="Send less.")

    def on_message_begin(self) -> None:
        self._head_is_over = False
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        # What comes behind a body is no header: whoever stands before us has not looked at it (RFC 9110, 6.5.1).
        if not self._head_is_over:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._be_patient()
        self._beside_bytes, self._head_is_over = 0, True
        # `GET http://HOST/path`: uvicorn forgets this host, and the gate would look at the other one only.
        _, absolute, rest = self.url.partition(b"://")
        if absolute and not self.url.startswith(b"/"):
            host = (b"host", re.split(b"[/?#]", rest, maxsplit=1)[0])
            if host not in self.headers:
                self.headers.append(host)
        self.scope[_TRANSPORT] = self.transport
        super().on_headers_complete()
        if self.parser.should_upgrade() and self.cycle is not None:
            # The parser stops here, and would take a body that comes later for the next request.
            self.cycle.keep_alive = False

    def on_body(self, body: bytes) -> None:
        self._beside_bytes = max(0, self._beside_bytes - WRAPPED * len(body))
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._beside_bytes = 0
        super().on_message_complete()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._unread = self.loop.call_later(self.unread_s, self.transport.abort)

    def resume_writing(self) -> None:
        self._give_up_no_more()
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._be_patient()
        self._give_up_no_more()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        self._refuse(400, msg, hint="Send HTTP/1.1.")

    def _be_patient(self) -> None:
        if self._impatience is not None:
            self._impatience.cancel()
            self._impatience = None

    def _give_up_no_more(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def _stalled(self) -> None:
        self._impatience = None
        self._refuse(408, f"The request was not complete within {self.head_s:g} seconds", hint="Send it at once.")

    def _refuse(self, status: int, detail: str, *, hint: str) -> None:
        self._be_patient()
        if self.transport.is_closing():
            return
        refused = refusal(status, detail, hint=hint)
        headers = [*self.server_state.default_headers, *refused.raw_headers, (b"connection", b"close")]
        line = f"HTTP/1.1 {status} {HTTPStatus(status).phrase}".encode()
        lines = [line, *(b"%s: %s" % header for header in headers)]
        self.transport.write(b"\r\n".join(lines) + b"\r\n\r\n" + bytes(refused.body))
        self.transport.close()
