"""Servers that misbehave, and a way to a good one that breaks."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@contextlib.asynccontextmanager
async def listening(serve: Serve) -> AsyncIterator[int]:
    """Listen on a free port, which is given; no connection outlives it."""
    under_way: set[asyncio.Task[None]] = set()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        under_way.add(task)
        try:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
                await serve(reader, writer)
        finally:
            under_way.discard(task)
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        waiting = list(under_way)
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)


@dataclass
class StandIn:
    """Answers each request with the next of some bytes; empty ones break the connection."""

    answers: Sequence[bytes]
    requests: list[str] = field(default_factory=list)
    port: int = 0

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"

    def sent(self, name: str) -> list[str]:
        """Return what the requests had in a header."""
        lines = (line for request in self.requests for line in request.splitlines())
        return [line.partition(": ")[2] for line in lines if line.lower().startswith(f"{name.lower()}:")]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        length = next((line.split(":")[1] for line in head.splitlines() if line.lower().startswith("content-len")), 0)
        body = await reader.readexactly(int(length))
        answer = self.answers[min(len(self.requests), len(self.answers) - 1)]
        self.requests.append(head + body.decode())
        if answer:
            writer.write(answer)
            await writer.drain()


def answer(body: str, *, status: str = "200 OK", kind: str = "application/json", more: str = "") -> bytes:
    """Return an answer of HTTP."""
    data = body.encode()
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(data)}\r\nConnection: close\r\n{more}\r\n"
    )
    return head.encode() + data


@contextlib.asynccontextmanager
async def standing_in(*answers: bytes) -> AsyncIterator[StandIn]:
    """Listen on a free port."""
    stand_in = StandIn(answers)
    async with listening(stand_in.serve) as stand_in.port:
        yield stand_in


@dataclass
class Bridge:
    """The way to a server, which breaks after some bytes of each answer."""

    port: int
    """Of the server."""
    breaks_after: Callable[[int], int | None]
    """How many bytes of the answers on the n-th connection get through; None: all."""
    connections: int = 0
    here: int = 0
    """Where the way begins."""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carry one connection over."""
        room = self.breaks_after(self.connections)
        self.connections += 1
        there, back = await asyncio.open_connection("127.0.0.1", self.port)
        # The server looks at the name that it is called by.
        onwards = asyncio.create_task(_carry(reader, back, b"127.0.0.1:%d" % self.here, b"127.0.0.1:%d" % self.port))
        try:
            while data := await there.read(1024):
                got_through = data if room is None else data[:room]
                writer.write(got_through)
                await writer.drain()
                if len(got_through) < len(data):
                    return
                room = None if room is None else room - len(data)
        finally:
            onwards.cancel()
            await asyncio.gather(onwards, return_exceptions=True)
            back.close()
            with contextlib.suppress(ConnectionError):
                await back.wait_closed()


async def _carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, name: bytes, real: bytes) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(64 * 1024):
            writer.write(data.replace(name, real))
            await writer.drain()


@contextlib.asynccontextmanager
async def bridge(port: int, breaks_after: Callable[[int], int | None]) -> AsyncIterator[Bridge]:
    """Give a way to a server."""
    way = Bridge(port, breaks_after)
    async with listening(way.serve) as way.here:
        yield way
