"""A web site on loopback, and a reader of it."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from agent_fabric.application.ports.web import Page
from agent_fabric.config.schema.tools import WebConfig
from agent_fabric.infrastructure.sandbox.egress.addresses import AddressGuard, system_lookup
from agent_fabric.infrastructure.web.fetch import HttpPageFetcher

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
RawHandler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

OTTERS = "<html><head><title>Otters</title></head><body><p>Sea otters hold hands while they sleep.</p></body></html>"


@dataclass
class Site:
    """A running site, and what it was asked."""

    port: int
    requests: list[web.BaseRequest] = field(default_factory=list)
    scheme: str = "http"

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    def url(self, path: str = "/", host: str = "127.0.0.1") -> str:
        return f"{self.scheme}://{host}:{self.port}{path}"


@contextlib.asynccontextmanager
async def site(
    routes: dict[str, Handler | web.Response | str], *, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None
) -> AsyncIterator[Site]:
    """Serve each path: a function, a response, or the HTML of a page."""
    requests: list[web.BaseRequest] = []

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        requests.append(request)
        found: Any = routes.get(request.path, routes.get("*", web.Response(status=404, text="no such page")))
        if isinstance(found, str):
            return web.Response(text=found, content_type="text/html")
        if isinstance(found, web.Response):  # a response can be sent once
            return web.Response(status=found.status, body=found.body, headers=found.headers)
        response: web.StreamResponse = await found(request)
        return response

    runner = web.ServerRunner(web.Server(answer), shutdown_timeout=0.1)
    await runner.setup()
    listening = web.TCPSite(runner, host, 0, ssl_context=tls)
    await listening.start()
    try:
        yield Site(runner.addresses[0][1], requests, "http" if tls is None else "https")
    finally:
        await runner.cleanup()


@contextlib.asynccontextmanager
async def raw(handler: RawHandler) -> AsyncIterator[Site]:
    """Serve connections by hand; what the handler leaves open is closed at the end."""
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
                await handler(reader, writer)
        finally:
            tasks.discard(task)
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield Site(int(server.sockets[0].getsockname()[1]))
    finally:
        server.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def answering(answer: bytes) -> contextlib.AbstractAsyncContextManager[Site]:
    """Serve the same bytes to everybody."""

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        await writer.drain()

    return raw(handler)


@contextlib.asynccontextmanager
async def reader(
    *allow_hosts: str, names: Mapping[str, Sequence[str]] | None = None, **settings: Any
) -> AsyncIterator[HttpPageFetcher]:
    """Read with these hosts allowed; `names` are looked up here instead of asking the system."""

    async def lookup(host: str, port: int) -> Sequence[str]:
        if names is None:
            return await system_lookup(host, port)
        if host not in names:
            raise OSError(-2, "Name or service not known")
        return names[host]

    config = WebConfig(allow_hosts=allow_hosts, **settings)
    fetcher = HttpPageFetcher(config, AddressGuard(allow_hosts, lookup))
    try:
        yield fetcher
    finally:
        await fetcher.aclose()


async def read_page(running: Site, path: str = "/", *, wait_s: float = 10, **settings: Any) -> Page:
    """Read one page of a site that is allowed."""
    async with reader(running.host, **settings) as fetcher:
        return await fetcher.fetch(running.url(path), timeout_s=wait_s)
