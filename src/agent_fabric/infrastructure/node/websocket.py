"""A small WebSocket client (RFC 6455) over asyncio: text messages, pings and a close code, without compression."""

import asyncio
import base64
import hashlib
import os
import ssl
from contextlib import suppress
from typing import Final, Self
from urllib.parse import urlsplit

from agent_fabric.domain.fleet.protocol import MAX_FRAME_BYTES

CONNECT_TIMEOUT_S: Final = 20.0
CLOSE_TIMEOUT_S: Final = 2.0
_MAX_HEAD_BYTES: Final = 16 * 1024
_MAGIC: Final = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_TEXT, _CLOSE, _PING, _PONG = 1, 8, 9, 10
LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})


class ConnectionRefused(Exception):
    """The server answered with something else than a WebSocket."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(f"the hub answered {status}: {text}" if status else text)
        self.status = status


class ConnectionEnded(Exception):
    """The connection is over."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(f"{code} {reason}".strip())
        self.code = code
        self.reason = reason


class WebSocket:
    """One open connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def connect(cls, url: str, *, tls: ssl.SSLContext | None = None) -> Self:
        """Open a connection to `wss://…`, or to `ws://…` on this machine.

        Raises:
            ConnectionRefused: it is no WebSocket, or plain and not on this machine.
            OSError, TimeoutError: no one answers.
        """
        parts = urlsplit(url)
        host, secure = parts.hostname or "", parts.scheme == "wss"
        if not secure and host not in LOOPBACK:
            raise ConnectionRefused(0, f"{host} is another machine, so the connection must be encrypted: use https://")
        port = parts.port or (443 if secure else 80)
        context = (tls or ssl.create_default_context()) if secure else None
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            reader, writer = await asyncio.open_connection(host, port, ssl=context, limit=2 * MAX_FRAME_BYTES)
            try:
                key = base64.b64encode(os.urandom(16))
                target = parts.path + (f"?{parts.query}" if parts.query else "")
                writer.write(
                    f"GET {target} HTTP/1.1\r\nHost: {parts.netloc}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                    f"Sec-WebSocket-Key: {key.decode()}\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
                )
                await writer.drain()
                await _accept(reader, key)
            except BaseException:
                writer.close()
                raise
        return cls(reader, writer)

    async def send(self, text: str) -> None:
        """Send a message.

        Raises:
            ConnectionEnded: no one hears it.
        """
        data = text.encode("utf-8", "replace")
        if len(data) > MAX_FRAME_BYTES:
            raise ValueError(f"a message has at most {MAX_FRAME_BYTES:,} bytes")
        await self._write(_TEXT, data)

    async def receive(self) -> str:
        """Return the next message; pings are answered on the way.

        Raises:
            ConnectionEnded: there is none.
        """
        pieces, size = list[bytes](), 0
        while True:
            final, opcode, data = await self._frame()
            if opcode == _PING:
                await self._write(_PONG, data)
            elif opcode == _CLOSE:
                code = int.from_bytes(data[:2], "big") if len(data) >= 2 else 1005
                with suppress(ConnectionEnded):
                    await self._write(_CLOSE, data[:2])
                raise ConnectionEnded(code, data[2:].decode(errors="replace"))
            elif opcode != _PONG:
                pieces.append(data)
                size += len(data)
                if size > MAX_FRAME_BYTES:
                    await self.close(1009, "a message is too large")
                    raise ConnectionEnded(1009, "a message was too large")
                if final:
                    return b"".join(pieces).decode(errors="replace")

    async def close(self, code: int = 1000, reason: str = "") -> None:
        """End the connection; does nothing if it has ended."""
        with suppress(ConnectionEnded, TimeoutError):
            async with asyncio.timeout(CLOSE_TIMEOUT_S):
                await self._write(_CLOSE, code.to_bytes(2, "big") + reason.encode()[:120])
        self.abort()

    def abort(self) -> None:
        """End the connection without a word."""
        transport = self._writer.transport
        transport.abort()

    async def _frame(self) -> tuple[bool, int, bytes]:
        try:
            first, second = await self._reader.readexactly(2)
            size = second & 0x7F
            if size == 126:
                size = int.from_bytes(await self._reader.readexactly(2), "big")
            elif size == 127:
                size = int.from_bytes(await self._reader.readexactly(8), "big")
            if size > MAX_FRAME_BYTES or first & 0x70 or second & 0x80:
                await self.close(1009 if size > MAX_FRAME_BYTES else 1002, "not a frame of ours")
                raise ConnectionEnded(1002, "the hub sent a frame that cannot be read")
            return bool(first & 0x80), first & 0x0F, await self._reader.readexactly(size)
        except (asyncio.IncompleteReadError, OSError) as problem:
            raise ConnectionEnded(1006, f"the connection was lost: {problem}") from None

    async def _write(self, opcode: int, data: bytes) -> None:
        size = len(data)
        if size < 126:
            head = bytes((0x80 | opcode, 0x80 | size))
        elif size < 65_536:
            head = bytes((0x80 | opcode, 0x80 | 126)) + size.to_bytes(2, "big")
        else:
            head = bytes((0x80 | opcode, 0x80 | 127)) + size.to_bytes(8, "big")
        mask = os.urandom(4)
        repeated = (mask * (size // 4 + 1))[:size]
        masked = (int.from_bytes(data, "big") ^ int.from_bytes(repeated, "big")).to_bytes(size, "big")
        try:
            self._writer.write(head + mask + masked)
            await self._writer.drain()
        except OSError as problem:
            raise ConnectionEnded(1006, f"the connection was lost: {problem}") from None


async def _accept(reader: asyncio.StreamReader, key: bytes) -> None:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.LimitOverrunError:
        raise ConnectionRefused(0, "the answer of the hub cannot be read") from None
    except asyncio.IncompleteReadError as problem:
        raise ConnectionRefused(0, f"the hub closed the connection: {problem.partial[:200]!r}") from None
    if len(head) > _MAX_HEAD_BYTES:
        raise ConnectionRefused(0, "the answer of the hub is too long")
    first, *lines = head.decode("latin-1").split("\r\n")
    words = first.split(" ", 2)
    status = int(words[1]) if len(words) > 1 and words[1].isdigit() else 0
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    if status != 101:
        body = b""
        with suppress(asyncio.IncompleteReadError, ValueError, TimeoutError):
            async with asyncio.timeout(CLOSE_TIMEOUT_S):
                body = await reader.readexactly(min(int(headers.get("content-length", "0")), 2_000))
        raise ConnectionRefused(status, body.decode(errors="replace") or (words[2] if len(words) > 2 else ""))
    expected = base64.b64encode(hashlib.sha1(key + _MAGIC).digest()).decode()  # noqa: S324 - as the RFC has it
    if headers.get("sec-websocket-accept") != expected:
        raise ConnectionRefused(0, "the answer of the hub is not that of a WebSocket")
