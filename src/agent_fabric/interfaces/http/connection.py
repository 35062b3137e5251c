"""One connection of a server that faces a network: small buffers, one request at a time, and a time limit for each."""

import asyncio
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from copy import copy
from http import HTTPStatus
from typing import Any, Final
from weakref import WeakKeyDictionary

import uvicorn
from starlette.types import Scope
from uvicorn.protocols.http.auto import AutoHTTPProtocol
from uvicorn.protocols.http.flow_control import FlowControl

from agent_fabric.domain.fleet.protocol import MAX_FRAME_BYTES
from agent_fabric.domain.fleet.protocol import SOCKET_PATH as NODE_SOCKET
from agent_fabric.interfaces.http.errors import refusal
from agent_fabric.interfaces.http.gate import SOCKETS as SOCKET_PATHS
from agent_fabric.interfaces.http.page.messages import MAX_MESSAGE_BYTES

SEND_BUFFER_BYTES = 16 * 1024
"""What we take, and what the kernel takes, for a client that does not read. The kernel alone would take megabytes."""
ROOMY_BUFFER_BYTES = 256 * 1024
"""The same for files: with small buffers a local connection waits more than it sends."""
HEAD_BYTES = 64 * 1024
"""Largest head of a request: request line and headers. Trailers and what surrounds chunks count the same way."""
WRAPPED = 16
"""Each byte of a body allows so many bytes around it: some clients send a body in very small chunks."""
LINGER_S = 1.0
"""How long a refused client may go on sending: a connection closed at once would lose it the answer."""
HEADERS: Final = [("x-content-type-options", "nosniff")]
"""Sent with every answer: no browser may take it for something else than it says it is."""
_END_OF_HEAD = b"\n\r\n"
"""Ends every head, and every body in chunks. Nothing else lets the parser come to the next request."""

_TRANSPORT = "fabric.transport"

SOCKETS: Final[dict[str, Any]] = {
    "ws": "websockets-sansio",
    "ws_max_size": MAX_MESSAGE_BYTES,
    "ws_ping_interval": 20.0,
    "ws_ping_timeout": 20.0,
    "ws_per_message_deflate": False,
}
"""How uvicorn serves sockets. Compression would take more memory than everything else about one.

Messages are as short as those of the page. Sockets of nodes take longer ones, and are not pinged: their heartbeats tell
that they are there, and a ping for each of a thousand is as much work again.
"""


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


def abort(scope: Scope) -> None:
    """End the connection of a socket at once, whatever was not sent over it yet."""
    transport: asyncio.Transport | None = scope.get("state", {}).get(_TRANSPORT)
    if transport is not None:
        transport.abort()


def uvicorn_config(app: Any, **more: Any) -> uvicorn.Config:
    """Return how uvicorn serves an app of ours; what matters is logged where it happens."""
    return uvicorn.Config(
        app,
        http=Connection,
        lifespan="on",
        log_config=None,
        log_level="critical",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        headers=HEADERS,
        **more,
    )


class _Flow(FlowControl):
    """Flow control that does not resume while a request waits for its turn, whatever the answer under way asks for."""

    is_held = False

    def resume_reading(self) -> None:
        if not self.is_held:
            super().resume_reading()


class _PendingBytes:
    """Bytes that connections have read and not parsed yet, over the whole process."""

    total = 0


_pending_bytes = _PendingBytes()


class Connection(AutoHTTPProtocol):  # type: ignore[misc, valid-type]  # chosen by what is installed
    """uvicorn's own, with a small buffer, our errors, the host that a target names, and limits for the head.

    A request is parsed when the answer to the one before it is complete. Until then, what has been read of it waits as
    bytes and the client's kernel keeps the rest. A parsed request takes a hundred times the memory of its bytes.
    """

    config: Any
    """uvicorn's own settings."""
    app_state: dict[str, Any]
    """What every socket's scope has a copy of."""
    parser: Any
    """None, once it has become a socket."""
    head_s = 15.0
    """How long a client may take to send the head of a request."""
    unread_s = 60.0
    """How long a client may leave an answer unread before the connection is closed; a stream can be resumed."""
    max_pending_bytes = 16 * 1024 * 1024
    """Most that all connections together may have read of requests that wait for the answer before theirs."""

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        self.flow = _Flow(transport)
        transport.set_write_buffer_limits(SEND_BUFFER_BYTES)
        self._pending, self._pending_at = b"", 0
        """What has been read and not parsed, from `_pending_at` on."""
        self._last = b""
        """The last bytes that were parsed: the end of a head may come in two pieces."""
        self._body_left = 0
        """What is still to come of a body whose length was stated."""
        self._beside_bytes = 0
        """What has come of the message under way and is no body: its head, what is around chunks, trailers."""
        self._head_is_over = False
        self._is_refused = False
        self._is_upgraded = False
        """Whether it has become a socket."""
        self._unread: asyncio.TimerHandle | None = None
        self._impatience: asyncio.TimerHandle | None = self.loop.call_later(self.head_s, self._on_stall)

    def data_received(self, data: bytes) -> None:
        if self._is_refused:
            return
        if self._pending:
            self._hold(self._take_pending() + data, 0)
        else:
            self._parse(data, 0)

    def _parse(self, data: bytes, start: int) -> None:
        """Parse up to the end of the first request that has to wait for its answer, and keep the rest."""
        size = len(data)
        while start < size and not self._is_refused and not self.transport.is_closing():
            if self._is_upgraded:
                self.transport.get_protocol().data_received(data[start:])
                return
            if self.cycle is not None and not (self.cycle.more_body or self.cycle.response_complete):
                self._hold(data, start)
                return
            if self._impatience is None and (self.cycle is None or self.cycle.response_complete):
                self._impatience = self.loop.call_later(self.head_s, self._on_stall)
            end = self._end_of_piece(data, start)
            self._feed(data if end - start == size else data[start:end])
            start = end

    def _end_of_piece(self, data: bytes, start: int) -> int:
        """Return up to where the parser can come to the end of one message at most."""
        if self._body_left:
            return min(len(data), start + self._body_left)
        if not start and self._last:
            found = (self._last + data[:2]).find(_END_OF_HEAD)
            if found >= 0:
                return found + len(_END_OF_HEAD) - len(self._last)
        found = data.find(_END_OF_HEAD, max(0, start - 2))
        return len(data) if found < 0 else found + len(_END_OF_HEAD)

    def _feed(self, piece: bytes) -> None:
        if self._body_left:
            self._body_left -= len(piece)
            self._last = b""
            super().data_received(piece)
            return
        self._beside_bytes += len(piece)
        self._last = (self._last + piece[-2:])[-2:]
        if self._head_is_over or self._beside_bytes <= HEAD_BYTES:
            super().data_received(piece)
        if self._beside_bytes > HEAD_BYTES:
            self._refuse(431, f"The headers are longer than {HEAD_BYTES:,} bytes", hint="Send less.")

    def _hold(self, data: bytes, start: int) -> None:
        """Keep what was read until the answer under way is complete, and read no more."""
        self.flow.is_held = True
        self.flow.pause_reading()
        if _pending_bytes.total + len(data) > self.max_pending_bytes:
            self.cycle.keep_alive = False  # the client sends the rest again on its next connection (RFC 9112, 9.3.2)
            return
        self._pending, self._pending_at = data, start
        _pending_bytes.total += len(data)

    def _take_pending(self) -> bytes:
        data, start = self._pending, self._pending_at
        _pending_bytes.total -= len(data)
        self._pending, self._pending_at = b"", 0
        return data[start:] if start else data

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if not self._pending or self.transport.is_closing():
            return
        data, start = self._pending, self._pending_at
        self._take_pending()
        self.flow.is_held = False
        self._parse(data, start)
        if not self._pending:
            self.flow.resume_reading()

    def on_header(self, name: bytes, value: bytes) -> None:
        # What comes behind a body is no header: a proxy before us has not looked at it (RFC 9110, 6.5.1).
        if not self._head_is_over:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._be_patient()
        self._beside_bytes, self._head_is_over = 0, True
        self._body_left = _stated_length(self.headers)
        # `GET http://HOST/path`: uvicorn forgets this host, and the gate would look at the other one only.
        _, absolute, rest = self.url.partition(b"://")
        if absolute and not self.url.startswith(b"/"):
            host = (b"host", re.split(b"[/?#]", rest, maxsplit=1)[0])
            if host not in self.headers:
                self.headers.append(host)
        self.scope[_TRANSPORT] = self.transport
        super().on_headers_complete()
        if self.parser.should_upgrade() and self.cycle is not None and not self._should_upgrade():
            # The parser stops here, and would take a body that comes later for the next request.
            self.cycle.keep_alive = False

    def _should_upgrade(self) -> bool:
        # Nothing else is served over sockets: what asks for one elsewhere is answered like every other request.
        is_ours = self._path in SOCKET_PATHS and self.scope["method"] == "GET"
        return is_ours and bool(super()._should_upgrade())

    @property
    def _path(self) -> str:
        path: bytes = self.url.partition(b"?")[0]
        return path.decode("latin-1")

    def handle_websocket_upgrade(self) -> None:
        self._be_patient()
        self._is_upgraded = True
        if self._path == NODE_SOCKET:
            self.config = _for_nodes(self.config)
            self.app_state = {**self.app_state, _TRANSPORT: self.transport}
        super().handle_websocket_upgrade()
        opened = self.transport.get_protocol()
        if hasattr(opened, "close_timeout"):
            opened.close_timeout = LINGER_S  # a client that does not say goodbye is not waited for
        self.parser = None  # it refers to us, and nothing is parsed any more: both are freed at once

    def on_body(self, body: bytes) -> None:
        self._beside_bytes = max(0, self._beside_bytes - WRAPPED * len(body))
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._beside_bytes, self._body_left, self._head_is_over = 0, 0, False
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
        self._take_pending()
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

    def _on_stall(self) -> None:
        self._impatience = None
        self._refuse(408, f"The request was not complete within {self.head_s:g} seconds", hint="Send it at once.")

    def _refuse(self, status: int, detail: str, *, hint: str) -> None:
        self._be_patient()
        if self._is_refused or self.transport.is_closing():
            return
        self._is_refused = True
        refused = refusal(status, detail, hint=hint)
        headers = [*self.server_state.default_headers, *refused.raw_headers, (b"connection", b"close")]
        line = f"HTTP/1.1 {status} {HTTPStatus(status).phrase}".encode()
        lines = [line, *(b"%s: %s" % header for header in headers)]
        self.transport.write(b"\r\n".join(lines) + b"\r\n\r\n" + bytes(refused.body))
        if self.transport.can_write_eof():
            self.transport.write_eof()
            self.loop.call_later(LINGER_S, self.transport.close)
        else:
            self.transport.close()


_node_configs: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()
"""Settings of the sockets of nodes; one copy for all of them, since a copy takes as much as a socket."""


def _for_nodes(config: Any) -> Any:
    """Return uvicorn's settings as sockets of nodes want them."""
    if config not in _node_configs:
        own = _node_configs[config] = copy(config)
        own.ws_max_size, own.ws_ping_interval, own.ws_ping_timeout = MAX_FRAME_BYTES, None, None
    return _node_configs[config]


def _stated_length(headers: list[tuple[bytes, bytes]]) -> int:
    """Return how long a body is; 0 if it comes in chunks, or there is none. The parser has checked the headers."""
    length = 0
    for name, value in headers:
        if name == b"transfer-encoding":
            return 0
        if name == b"content-length" and value.isdigit():
            length = int(value)
    return length
