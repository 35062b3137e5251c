"""A proxy under test: servers that count who connects, names that answer as told, and raw requests."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agent_fabric.infrastructure.sandbox.egress.addresses import Endpoint
from agent_fabric.infrastructure.sandbox.egress.policy import EgressPolicy, EgressRefusal
from agent_fabric.infrastructure.sandbox.egress.proxy import EgressProxy

PUBLIC = "93.184.216.34"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def answer_ok(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.write(OK)
    await writer.drain()


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while piece := await reader.read(65_536):
        writer.write(piece)
        await writer.drain()


@dataclass
class Listener:
    """Counts who connects, and keeps what they say first."""

    port: int = 0
    connections: int = 0


@contextlib.asynccontextmanager
async def listening(talk: Talk = answer_ok, host: str = "127.0.0.1", port: int = 0) -> AsyncIterator[Listener]:
    listener, tasks = Listener(), set[asyncio.Task[Any]]()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        listener.connections += 1
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
                await talk(reader, writer)
        finally:
            tasks.discard(task)
            writer.close()

    server = await asyncio.start_server(serve, host, port)
    listener.port = int(server.sockets[0].getsockname()[1])
    try:
        yield listener
    finally:
        server.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@dataclass
class Net:
    """Stands for the internet: answers names, and leads every dialled address to one listener, noting it."""

    names: Mapping[str, Sequence[str]] = field(default_factory=dict)
    to_port: int = 0
    looked_up: list[str] = field(default_factory=list)
    answered: list[str] = field(default_factory=list)
    dialled: list[tuple[str, int]] = field(default_factory=list)

    async def lookup(self, host: str, port: int) -> Sequence[str]:
        self.looked_up.append(host)
        if host not in self.names:
            raise OSError(-2, "Name or service not known")
        self.answered += self.names[host]
        return self.names[host]

    async def connect(self, address: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        self.dialled.append((address, port))
        if not self.to_port:
            raise ConnectionRefusedError(111, "Connection refused")
        return await asyncio.open_connection("127.0.0.1", self.to_port)


@dataclass
class Bench:
    """A proxy, and whom it refused."""

    proxy: EgressProxy
    refusals: list[EgressRefusal]

    async def ask(self, request: bytes | str, *, wait_s: float = 10) -> bytes:
        """Send bytes, and return everything that comes back."""
        data = request.encode("latin-1") if isinstance(request, str) else request
        async with asyncio.timeout(wait_s):
            reader, writer = await self.connected()
            try:
                with contextlib.suppress(ConnectionError):
                    writer.write(data)
                    await writer.drain()
                return await reader.read(-1)
            finally:
                writer.close()

    async def connected(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_unix_connection(self.proxy.socket_path)

    async def get(self, url: str) -> bytes:
        return await self.ask(f"GET {url} HTTP/1.1\r\n\r\n")


@contextlib.asynccontextmanager
async def bench(policy: EgressPolicy, net: Net | None = None, **settings: Any) -> AsyncIterator[Bench]:
    refusals: list[EgressRefusal] = []
    ports: dict[str, Any] = {} if net is None else {"lookup": net.lookup, "connect": net.connect}
    async with EgressProxy(policy, on_refused=refusals.append, **ports, **settings) as proxy:
        yield Bench(proxy, refusals)


def status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


def at(host: str, port: int) -> str:
    return str(Endpoint(host, port))
