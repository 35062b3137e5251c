"""MCP over HTTP: the tools of `interfaces.mcp`, for callers with credentials."""

import asyncio
import importlib
from contextlib import AbstractAsyncContextManager
from types import ModuleType
from typing import TYPE_CHECKING

from agent_fabric.domain.errors import MissingExtra
from agent_fabric.domain.identity.principals import Scope
from agent_fabric.interfaces.http.routing import Route, Routes

if TYPE_CHECKING:
    from agent_fabric.interfaces.mcp.over_http import Application

PATH = "/mcp"


class McpEndpoint:
    """The tools, made with the first request: what they are made of takes a second to import."""

    def __init__(self, own_url: str) -> None:
        self._own_url = own_url
        self._opening = asyncio.Lock()
        self._application: Application | None = None
        self._open: asyncio.Task[None] | None = None
        self._closing = asyncio.Event()

    async def application(self) -> "Application":
        """Return what answers.

        Raises:
            MissingExtra: it is not installed.
        """
        async with self._opening:
            if self._application is None:
                over_http = await asyncio.to_thread(_import_server)
                application, running = over_http.tools_over_http(self._own_url)
                opened = asyncio.Event()
                self._open = asyncio.create_task(self._hold(running, opened))
                await opened.wait()
                self._application = application
            return self._application

    async def aclose(self) -> None:
        """End what is under way."""
        self._closing.set()
        if self._open is not None:
            await self._open

    async def _hold(self, running: AbstractAsyncContextManager[None], opened: asyncio.Event) -> None:
        """Keep open what must be opened and closed by one and the same task."""
        async with running:
            opened.set()
            await self._closing.wait()


def add_mcp(routes: Routes, endpoint: McpEndpoint) -> None:
    """Add the route."""

    async def mcp() -> "Application":
        return await endpoint.application()

    for method in ("GET", "POST", "DELETE"):  # left out of the description: MCP describes itself
        routes.add(Route(method=method, path=PATH, access=Scope.RUNS_READ, handler=mcp))


def _import_server() -> ModuleType:
    try:
        return importlib.import_module("agent_fabric.interfaces.mcp.over_http")
    except ModuleNotFoundError as problem:
        if (problem.name or "").startswith("agent_fabric"):
            raise
        raise MissingExtra("mcp", needed_for="MCP") from None
