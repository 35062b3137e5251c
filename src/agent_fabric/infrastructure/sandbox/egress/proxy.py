"""The only way out of a box: an HTTP proxy that reaches allowed hosts at checked addresses.

It serves one request for each connection, over a unix socket (which can be put into a box that has no network) or a
loopback port (for the browser, with a password, because every program on this machine can connect there). It speaks
HTTP/1.1 only, never asks another proxy, and reads nothing of what goes through a CONNECT. So a client that may reach
one host of a large provider may find others behind the same address; the names it may *connect* to are what is held.
"""

import asyncio
import contextlib
import hmac
import os
import re
import secrets
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from http import HTTPStatus
from pathlib import Path
from typing import Final, NamedTuple, Self

from agent_fabric.infrastructure.sandbox.egress.addresses import (
    AddressGuard,
    Endpoint,
    Lookup,
    Malformed,
    system_lookup,
)
from agent_fabric.infrastructure.sandbox.egress.policy import (
    EgressLimits,
    EgressPolicy,
    EgressRecord,
    EgressRefusal,
    HostUse,
    LimitReached,
)
from agent_fabric.infrastructure.sandbox.egress.private_folder import PrivateFolder
from agent_fabric.infrastructure.sandbox.egress.request_head import ProxyRequest, answer_head, read_head

PIECE_BYTES: Final = 64 * 1024
_CHUNK: Final = re.compile(rb"([0-9A-Fa-f]{1,8})[ \t]*(?:;[\t\x20-\x7e\x80-\xff]*)?\r\n")
_MAX_TRAILERS: Final = 20


async def body_of(reader: asyncio.StreamReader, length: int | None) -> AsyncIterator[bytes]:
    """Yield a body piece by piece, as the server gets it; None: in chunks, which are written anew.

    Raises:
        Malformed: the chunks are not written as HTTP/1.1 has them.
        asyncio.IncompleteReadError: the client left in the middle.
    """
    if length is not None:
        async for piece in _exactly(reader, length):
            yield piece
        return
    while size := await _chunk_size(reader):
        yield f"{size:x}\r\n".encode()
        async for piece in _exactly(reader, size):
            yield piece
        if await reader.readexactly(2) != b"\r\n":
            raise Malformed("a chunk is longer than it says")
        yield b"\r\n"
    for _ in range(_MAX_TRAILERS):
        if await reader.readuntil(b"\r\n") == b"\r\n":
            break
    else:
        raise Malformed("there are too many lines after the last chunk")
    yield b"0\r\n\r\n"


async def _exactly(reader: asyncio.StreamReader, length: int) -> AsyncIterator[bytes]:
    while length:
        piece = await reader.read(min(length, PIECE_BYTES))
        if not piece:
            raise asyncio.IncompleteReadError(b"", length)
        length -= len(piece)
        yield piece


async def _chunk_size(reader: asyncio.StreamReader) -> int:
    found = _CHUNK.fullmatch(await reader.readuntil(b"\r\n"))
    if found is None:
        raise Malformed("the size of a chunk is no number")
    return int(found[1], 16)


class Streams(NamedTuple):
    """The two ends of a connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter


Connect = Callable[[str, int], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]
"""Connects to an IP address, which is never looked up, and a port."""


async def connect(address: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect as the system does."""
    return await asyncio.open_connection(address, port)


async def dial(endpoint: Endpoint, guard: AddressGuard, connect: Connect = connect) -> Streams:
    """Connect to a host at an address that the guard has just checked.

    Raises:
        PermissionError: the host may not be reached.
        OSError: no one answers, or the host has no address.
    """
    problem: OSError | None = None
    for address in await guard.resolve(*endpoint):
        try:
            return Streams(*await connect(str(address), endpoint.port))
        except OSError as failed:
            problem = failed
    raise problem or OSError("it has no address")


USER: Final = "fabric"
_BACKLOG: Final = 128
_FLUSH_S: Final = 10.0
"""How long a client may take to read the last of its answer."""
_LINGER_S: Final = 1.0
"""How long a refused client may go on talking, so that it gets to read why."""
_MAX_LINGERING_BYTES: Final = 1_000_000


class _Answered(Exception):
    """The proxy answers by itself."""

    def __init__(self, status: int, reason: str, *, refusal: EgressRefusal | None = None) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason
        self.refusal = refusal


class EgressProxy:
    """A running proxy; use it as a context.

    `on_refused` hears of each kind of refusal once, and must neither block nor raise.
    """

    def __init__(
        self,
        policy: EgressPolicy,
        *,
        loopback: bool = False,
        socket_owner: int | None = None,
        limits: EgressLimits | None = None,
        on_refused: Callable[[EgressRefusal], None] | None = None,
        lookup: Lookup = system_lookup,
        connect: Connect = connect,
    ) -> None:
        """Make a proxy that listens on a unix socket, or else on a loopback port.

        Args:
            policy: Who may be reached.
            loopback: Listen on a port, with a password, instead of a socket.
            socket_owner: The user whose processes may use the socket; None: those of this user.
            limits: How much it does.
            on_refused: Hears what was refused.
            lookup: Answers names.
            connect: Opens connections to checked addresses.
        """
        self.record = EgressRecord((limits or EgressLimits()).max_bytes)
        """What went out so far."""
        self.credential = secrets.token_urlsafe(24) if loopback else ""
        """The password for the loopback port; the user is `USER`."""
        self._policy = policy
        self._guard = policy.guard(lookup)
        self._connect = connect
        self._limits = limits or EgressLimits()
        self._on_refused = on_refused
        self._loopback = loopback
        self._socket_owner = socket_owner
        self._folder: PrivateFolder | None = None
        self._socket: socket.socket | None = None
        self._port = 0
        self._server: asyncio.Server | None = None
        self._clients: set[asyncio.Task[None]] = set()

    @property
    def socket_path(self) -> Path:
        """The unix socket, if it listens on one."""
        assert self._folder is not None
        return self._folder.path / "proxy.sock"

    @property
    def port(self) -> int:
        """The loopback port, if it listens on one."""
        assert self._port
        return self._port

    def listen(self) -> None:
        """Take the address, so that clients can connect; they are served once the proxy runs. Never blocks."""
        if self._loopback:
            self._socket = socket.create_server(("127.0.0.1", 0))
            self._port = int(self._socket.getsockname()[1])
            return
        # A short path of its own: such addresses may have only about a hundred characters.
        self._folder = PrivateFolder.make("fabric-egress-", "/tmp")  # noqa: S108 - it is made private there
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(str(self.socket_path))
        self._socket.listen(_BACKLOG)
        self.socket_path.chmod(0o600)
        if self._socket_owner is not None:
            os.chown(self.socket_path, self._socket_owner, -1)
            os.chown(self._folder.path, self._socket_owner, -1)

    async def __aenter__(self) -> Self:
        try:
            if self._socket is None:
                self.listen()
            start = asyncio.start_server if self._loopback else asyncio.start_unix_server
            self._server = await start(self._accept, sock=self._socket, limit=self._limits.head_bytes)
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._server is not None:
            self._server.close()
        elif self._socket is not None:
            self._socket.close()
        clients = list(self._clients)
        for client in clients:
            client.cancel()
        await asyncio.gather(*clients, return_exceptions=True)
        if self._folder is not None:
            self._folder.remove()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # A plain function, so that the task is known here from its first moment and ended with the proxy.
        client = asyncio.create_task(self._serve(Streams(reader, writer)))
        self._clients.add(client)
        client.add_done_callback(self._clients.discard)

    async def _serve(self, client: Streams) -> None:
        """Do one request, whatever it is, and close."""
        try:
            with contextlib.suppress(
                OSError, asyncio.IncompleteReadError, LimitReached
            ):  # either end may leave any time
                async with asyncio.timeout(self._limits.connection_s):
                    await self._answer_or_pass(client)
                client.writer.close()
                async with asyncio.timeout(_FLUSH_S):
                    await client.writer.wait_closed()
        finally:
            client.writer.transport.abort()

    async def _answer_or_pass(self, client: Streams) -> None:
        try:
            request = await self._request(client)
            server = await self._dial(request)
        except _Answered as answered:
            await self._tell(client, answered)
            return
        use = self.record.count_connection(request.endpoint)
        try:
            async with asyncio.timeout(self._limits.idle_s) as idle:
                if request.tunnel:
                    client.writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
                    await self._join(client, server, use, idle)
                else:
                    await self._pass_on(request, client, server, use, idle)
        finally:
            server.writer.transport.abort()  # it has said everything, or no one listens any more

    # ── what is asked ─────────────────────────────────────────────────────────────────────────────────────────────────

    async def _request(self, client: Streams) -> ProxyRequest:
        """Read what a client wants, and decide whether it may have it."""
        if len(self._clients) > self._limits.connections:
            raise _Answered(
                503,
                f"more than {self._limits.connections} connections at once (`max_connections`). Try again in a moment.",
            )
        try:
            async with asyncio.timeout(self._limits.head_s):
                head = await client.reader.readuntil(b"\r\n\r\n")
        except TimeoutError:
            raise _Answered(408, f"no complete request within {self._limits.head_s:g} s.") from None
        except asyncio.LimitOverrunError:
            raise _Answered(431, f"the head of the request is longer than {self._limits.head_bytes} bytes.") from None
        try:
            request = read_head(head)
        except Malformed as problem:
            raise _forbidden("", 0, f"{problem}.") from None
        host, port = request.endpoint
        if self.credential and not hmac.compare_digest(request.password.encode(), self.credential.encode()):
            told = EgressRefusal(host="", port=0, reason="a wrong password for the proxy") if request.password else None
            raise _Answered(407, "the proxy wants its password.", refusal=told)
        if objection := self._policy.objection(request.endpoint, self._guard):
            raise _forbidden(host, port, objection)
        if self.record.used_up:
            raise _forbidden(
                host, port, f"the {self._limits.max_bytes:,} bytes that may go over the network (`max_bytes`) are used."
            )
        return request

    async def _dial(self, request: ProxyRequest) -> Streams:
        host, port = request.endpoint
        try:
            async with asyncio.timeout(self._limits.connect_s):
                return await dial(request.endpoint, self._guard, self._connect)
        except PermissionError as problem:
            raise _forbidden(host, port, str(problem)) from None
        except TimeoutError:
            raise _Answered(504, f"{request.endpoint} did not answer within {self._limits.connect_s:g} s.") from None
        except (OSError, ValueError) as problem:
            reason = (problem.strerror if isinstance(problem, OSError) else None) or str(problem)
            raise _Answered(502, f"{request.endpoint} cannot be reached: {reason}.") from None

    async def _tell(self, client: Streams, answered: _Answered) -> None:
        """Answer in the proxy's own name; the status line has the reason too: many programs show nothing else."""
        text = f"agent-fabric did not make this connection: {answered.reason}\n"
        phrase = HTTPStatus(answered.status).phrase
        if answered.status != 407:
            phrase += f" by agent-fabric - {answered.reason}"
        wants = f'Proxy-Authenticate: Basic realm="{USER}"\r\n' if answered.status == 407 else ""
        body = text.encode("ascii", "replace")
        client.writer.write(
            f"HTTP/1.1 {answered.status} {phrase[:200]}\r\n{wants}Content-Type: text/plain\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode("ascii", "replace")
            + body
        )
        if answered.refusal is not None and self.record.is_news(answered.refusal) and self._on_refused is not None:
            self._on_refused(answered.refusal)
        await _linger(client)

    # ── what is passed on ─────────────────────────────────────────────────────────────────────────────────────────────

    async def _pass_on(
        self, request: ProxyRequest, client: Streams, server: Streams, use: HostUse, idle: asyncio.Timeout
    ) -> None:
        """Send one request on, and its answer back."""

        async def send() -> None:
            try:
                if request.awaits_continue:
                    client.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
                async for piece in body_of(client.reader, request.length):
                    self._move_bytes(idle)
                    self.record.count_sent(use, len(piece))
                    server.writer.write(piece)
                    await server.writer.drain()
                # What else the client sends belongs to no request, and is not read. Now the answer comes.
                await asyncio.Event().wait()
            except (Malformed, asyncio.LimitOverrunError):
                raise ConnectionAbortedError from None

        head = request.for_server()
        self.record.count_sent(use, len(head))
        server.writer.write(head)
        sending = asyncio.create_task(send())
        receiving = asyncio.create_task(self._send_back(client, server, use, idle))
        await _first_of(receiving, sending)

    async def _send_back(self, client: Streams, server: Streams, use: HostUse, idle: asyncio.Timeout) -> None:
        status = 100
        while status < 200:
            try:
                head = await server.reader.readuntil(b"\r\n\r\n")
                status, shown = answer_head(head)
            except (Malformed, asyncio.LimitOverrunError, asyncio.IncompleteReadError):
                await self._tell(client, _Answered(502, "the server sent something that is not HTTP/1.1."))
                return
            self._move_bytes(idle)
            self.record.count_received(use, len(head))
            if status >= 200:  # what comes before is between the server and us
                client.writer.write(shown)
        await self._pump(server.reader, client.writer, lambda count: self.record.count_received(use, count), idle)

    async def _join(self, client: Streams, server: Streams, use: HostUse, idle: asyncio.Timeout) -> None:
        """Join the two ends until the server has said everything, or the client has left."""

        async def send() -> None:
            await self._pump(client.reader, server.writer, lambda count: self.record.count_sent(use, count), idle)
            if server.writer.can_write_eof():
                server.writer.write_eof()
            await asyncio.Event().wait()  # the answer may still come

        receive = self._pump(server.reader, client.writer, lambda count: self.record.count_received(use, count), idle)
        await _first_of(asyncio.create_task(receive), asyncio.create_task(send()))

    async def _pump(
        self,
        source: asyncio.StreamReader,
        sink: asyncio.StreamWriter,
        count: Callable[[int], None],
        idle: asyncio.Timeout,
    ) -> None:
        while piece := await source.read(PIECE_BYTES):
            self._move_bytes(idle)
            count(len(piece))
            sink.write(piece)
            await sink.drain()

    def _move_bytes(self, idle: asyncio.Timeout) -> None:
        if not idle.expired():
            idle.reschedule(asyncio.get_running_loop().time() + self._limits.idle_s)


def _forbidden(host: str, port: int, reason: str) -> _Answered:
    return _Answered(403, reason, refusal=EgressRefusal(host=host, port=port, reason=reason))


async def _first_of(*tasks: asyncio.Task[None]) -> None:
    """Wait until one task ends, end the others, and raise what the first raised."""
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in done:
        task.result()


async def _linger(client: Streams) -> None:
    """Let a client finish what it says: closing while it talks would take the answer away from it."""
    if client.writer.can_write_eof():
        client.writer.write_eof()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_LINGER_S):
            seen = 0
            while seen < _MAX_LINGERING_BYTES and (piece := await client.reader.read(PIECE_BYTES)):
                seen += len(piece)
