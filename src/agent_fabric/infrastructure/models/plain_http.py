"""HTTP to a model server without TLS and without a proxy: on this machine or in its network.

A turn of an agent is two or three requests, and a general client costs more than the rest of it. Everything else goes
through aiohttp (`other_http.py`).
"""

import asyncio
import time
import zlib
from collections import deque
from collections.abc import AsyncIterator, Mapping
from http import HTTPStatus
from typing import Final, cast
from urllib.parse import urlsplit

import httptools

from agent_fabric.infrastructure.models.http_answer import BrokenOff, NoConnection, Silence, Unusable, join_pieces
from agent_fabric.infrastructure.web.connection_errors import connect_error, connection_error

IDLE_S: Final = 15.0
"""How long a connection is kept for the next request: most servers close theirs later."""
MAX_HEAD_BYTES: Final = 65_536
MAX_WAITING_BYTES: Final = 262_144
"""Of a body that no one has read yet; then the server has to wait."""
_UNPACKED_AT_ONCE: Final = 65_536


def can_ask(base_url: str) -> bool:
    """Tell whether an address is plain enough: http, no password, and nothing that would have to be encoded."""
    try:
        parts = urlsplit(base_url)
        named = bool(parts.hostname) and parts.username is None and (parts.port or 1) > 0
    except ValueError:
        return False
    return parts.scheme == "http" and named and base_url.isascii() and base_url.isprintable() and " " not in base_url


class PlainHttp:
    """Requests to one host, over connections that are kept for a while."""

    def __init__(self, base_url: str, *, connect_s: float, idle: "IdleConnections") -> None:
        parts = urlsplit(base_url)
        self._host, self._port = parts.hostname or "", parts.port or 80
        self._netloc = parts.netloc
        self._root = f"{parts.scheme}://{parts.netloc}"
        self._connect_s = connect_s
        self._idle = idle
        self._heads: dict[tuple[str, str], tuple[Mapping[str, str], bytes]] = {}

    async def ask(
        self, method: str, url: str, data: bytes | None, headers: Mapping[str, str], *, silent_s: float | None
    ) -> "PlainAnswer":
        request = self._request(method, url, data, headers)
        # Nothing is sent a second time: each attempt is the engine's, and stands in the log.
        connection = self._idle.take(self._host, self._port) or await self._connect()
        return await connection.ask(request, silent_s)

    def _request(self, method: str, url: str, data: bytes | None, headers: Mapping[str, str]) -> bytes:
        head = self._heads.get((method, url))
        if head is None or head[0] is not headers:  # those of a server are the same for each request
            head = self._heads[method, url] = headers, self._head(method, url, headers)
        if data is None:
            return head[1] + b"\r\n\r\n"
        return b"%b\r\nContent-Length: %d\r\n\r\n%b" % (head[1], len(data), data)

    def _head(self, method: str, url: str, headers: Mapping[str, str]) -> bytes:
        lines = [f"{method} {url.removeprefix(self._root) or '/'} HTTP/1.1", f"Host: {self._netloc}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        head = "\r\n".join(lines)
        if head.count("\n") != len(lines) - 1 or head.count("\r") != len(lines) - 1:
            raise Unusable("a header has a line break in it")
        return head.encode()

    async def _connect(self) -> "_Connection":
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._connect_s):
                _, connection = await loop.create_connection(
                    lambda: _Connection(self._idle, (self._host, self._port)), self._host, self._port
                )
        except OSError as problem:
            raise NoConnection(connect_error(problem)) from None
        return connection


class IdleConnections:
    """Open connections that no request uses, by host and port."""

    def __init__(self) -> None:
        self._free: dict[tuple[str, int], list[tuple[float, _Connection]]] = {}

    def take(self, host: str, port: int) -> "_Connection | None":
        """Return the connection that was used last, if it is young enough; older ones are closed."""
        free = self._free.get((host, port))
        while free:
            since, connection = free.pop()
            if time.monotonic() - since < IDLE_S and not connection.is_closing:
                return connection
            connection.close()
        return None

    def keep(self, place: tuple[str, int], connection: "_Connection") -> None:
        """Take a connection whose answer has been read."""
        self._free.setdefault(place, []).append((time.monotonic(), connection))

    async def aclose(self) -> None:
        """Close all of them."""
        for free in self._free.values():
            for _, connection in free:
                connection.close()
        self._free.clear()
        await asyncio.sleep(0)  # a socket is closed in the next round of the loop


class _Connection(asyncio.Protocol):
    """One connection, which serves one request at a time."""

    def __init__(self, idle: IdleConnections, place: tuple[str, int]) -> None:
        self._idle, self._place = idle, place
        self._transport: asyncio.Transport | None = None
        self._progress: asyncio.Future[None] | None = None
        self._lost = True
        self._begin()

    def _begin(self) -> None:
        """Forget the answer before."""
        self._parser = httptools.HttpResponseParser(self)
        self.heard = 0
        """Bytes of the answer's head so far."""
        self.status = 0
        """0 until the head is complete."""
        self.headers: dict[str, str] = {}
        self.complete = False
        self._reusable = False
        self.failure: BrokenOff | Unusable | None = None
        self.waiting: deque[bytes] = deque()
        self._waiting_bytes = 0
        self.is_paused = False

    @property
    def is_closing(self) -> bool:
        return self._lost or self._transport is None or self._transport.is_closing()

    async def ask(self, request: bytes, silent_s: float | None) -> "PlainAnswer":
        """Send a request and wait for the head of its answer."""
        self._begin()
        assert self._transport is not None
        try:
            self._transport.write(request)
            while not self.status:
                await self.wait(silent_s)
        except BaseException:
            self.close()
            raise
        return PlainAnswer(self, silent_s)

    async def wait(self, silent_s: float | None) -> None:
        """Wait until more of the answer has come.

        Raises:
            HttpFailure: nothing more comes.
        """
        if self.failure is not None:
            raise self.failure
        if self._lost:
            raise BrokenOff("the connection was closed")
        self._progress = asyncio.get_running_loop().create_future()
        try:
            if silent_s is None:
                await self._progress
            else:
                async with asyncio.timeout(silent_s):
                    await self._progress
        except TimeoutError:
            raise Silence("nothing came for too long") from None
        finally:
            self._progress = None

    def next_piece(self) -> bytes | None:
        """Return what has come of the body and was not read yet; None: nothing."""
        if not self.waiting:
            return None
        piece = self.waiting.popleft()
        self._waiting_bytes -= len(piece)
        if self._waiting_bytes < MAX_WAITING_BYTES // 2:
            self._go_on_reading()
        return piece

    def whole(self) -> bytes:
        """Return all that waits to be read."""
        body = self.waiting[0] if len(self.waiting) == 1 else b"".join(self.waiting)
        self.waiting.clear()
        self._waiting_bytes = 0
        if self.is_paused:
            self._go_on_reading()
        return body

    def _go_on_reading(self) -> None:
        if self.is_paused and self._transport is not None:
            self.is_paused = False
            self._transport.resume_reading()

    def release(self) -> None:
        """See `HttpAnswer`."""
        # llama.cpp hangs up a moment after a stream, whatever it says: the next request would be lost.
        hangs_up = self.headers.get("server") == "llama.cpp" and "transfer-encoding" in self.headers
        if self._reusable and not (hangs_up or self.waiting or self.is_closing) and self.failure is None:
            self._idle.keep(self._place, self)
        else:
            self.close()

    def close(self) -> None:
        """Hang up; a server that is still at work learns of it."""
        self.complete = True
        if self._transport is not None:
            self._transport.abort()

    # What the event loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport, self._lost = cast("asyncio.Transport", transport), False  # uvloop's is of another class

    def data_received(self, data: bytes) -> None:
        if self.complete:
            self.close()  # more than was asked for: nothing of this connection can be trusted
            return
        if not self.status:
            self.heard += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._fail(Unusable("it wants to speak another protocol"))
        except httptools.HttpParserError as problem:
            self._fail(Unusable(f"its answer is not HTTP: {problem}"))
        if not self.status and self.heard > MAX_HEAD_BYTES:
            self._fail(Unusable("the head of its answer has no end"))
        self._wake()

    def connection_lost(self, problem: Exception | None) -> None:
        self._lost = True
        if self.complete:
            return
        if self.status and problem is None and not self._has_length:
            self.complete = True  # such an answer ends where the connection does
        else:
            why = "the answer was cut off" if self.status else connection_error(problem or ConnectionResetError())
            self._fail(BrokenOff(why))
        self._wake()

    # What the parser calls.

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers[name.decode("latin-1").lower()] = value.decode("utf-8", "replace")

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if status < HTTPStatus.OK:
            self.headers.clear()  # the answer itself follows
        elif not self.status:
            self.status = status

    def on_body(self, body: bytes) -> None:
        self.waiting.append(body)
        self._waiting_bytes += len(body)
        if self._waiting_bytes > MAX_WAITING_BYTES and not self.is_paused and self._transport is not None:
            self.is_paused = True
            self._transport.pause_reading()

    def on_message_complete(self) -> None:
        if self.status:
            self.complete = True
            self._reusable = self._parser.should_keep_alive()

    @property
    def _has_length(self) -> bool:
        return "content-length" in self.headers or "transfer-encoding" in self.headers

    def _fail(self, failure: BrokenOff | Unusable) -> None:
        self.failure = self.failure or failure

    def _wake(self) -> None:
        if self._progress is not None and not self._progress.done():
            self._progress.set_result(None)


class PlainAnswer:
    """HttpAnswer of a plain connection."""

    def __init__(self, connection: _Connection, silent_s: float | None) -> None:
        self._connection = connection
        self._silent_s = silent_s
        self.status = connection.status
        self.headers: Mapping[str, str] = connection.headers
        self._packed = connection.headers.get("content-encoding", "identity")
        length = connection.headers.get("content-length", "")
        self.size = int(length) if length.isdecimal() and self._packed == "identity" else None

    async def read(self, most_bytes: int) -> bytes | None:
        connection = self._connection
        if (self.size or 0) > most_bytes:
            return None
        if self.size is None:
            return await join_pieces(self.pieces(), most_bytes)
        while not connection.complete and connection.failure is None:
            if connection.is_paused:  # it is larger than what may wait
                return await join_pieces(self.pieces(), most_bytes)
            await connection.wait(self._silent_s)
        if connection.failure is not None:
            raise connection.failure
        return connection.whole()

    def pieces(self) -> AsyncIterator[bytes]:
        return self._raw_pieces() if self._packed == "identity" else self._unpack_pieces()

    async def _raw_pieces(self) -> AsyncIterator[bytes]:
        connection = self._connection
        while True:
            while (piece := connection.next_piece()) is not None:
                yield piece
            if connection.failure is not None:
                raise connection.failure
            if connection.complete:
                return
            await connection.wait(self._silent_s)

    async def _unpack_pieces(self) -> AsyncIterator[bytes]:
        """Unpack an answer that was packed although no one has asked for it."""
        if self._packed not in ("gzip", "deflate"):
            raise Unusable(f"its answer is packed as {self._packed[:40]!r}")
        unpacker = zlib.decompressobj(zlib.MAX_WBITS | 32)
        try:
            async for packed in self._raw_pieces():
                piece = unpacker.decompress(packed, _UNPACKED_AT_ONCE)
                while piece:
                    yield piece
                    piece = unpacker.decompress(unpacker.unconsumed_tail, _UNPACKED_AT_ONCE)
        except zlib.error as problem:
            raise BrokenOff(f"the answer cannot be unpacked: {problem}") from None
        if not unpacker.eof:
            raise BrokenOff("the answer was cut off")

    def release(self) -> None:
        self._connection.release()
