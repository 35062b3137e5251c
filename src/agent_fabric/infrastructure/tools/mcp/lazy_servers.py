"""Tool servers that are built when the first is needed: the SDK takes a second to import, and most runs need none."""

import asyncio
import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent_fabric.application.ports.mcp import ServerConfinement, ServerTools
from agent_fabric.application.ports.sandbox import Sandbox
from agent_fabric.application.ports.secrets import Resolve
from agent_fabric.config.schema.tools import MCPServerConfig
from agent_fabric.domain.errors import MissingExtra, PackBroken, ToolServerUnavailable
from agent_fabric.infrastructure.threads import on_own_thread
from agent_fabric.infrastructure.tools.mcp.confinement import BubblewrapServers
from agent_fabric.infrastructure.tools.mcp.pins import Pins, ProjectServers

if TYPE_CHECKING:
    from agent_fabric.infrastructure.tools.mcp.servers import Inspected, PooledToolServers

_SDK = ("mcp", "mcp_types", "httpx2", "anyio")


class ToolServersMissing(PackBroken, RuntimeError):
    """Tool servers are configured, but what talks to them is not installed."""


class LazyToolServers:
    """ToolServers that stands in until it is used."""

    def __init__(
        self,
        *,
        folder: Path,
        environ: Mapping[str, str],
        asked_by_project: Mapping[str, str] | None = None,
        confinement: ServerConfinement | None = None,
        resolve: Resolve | None = None,
    ) -> None:
        """Take our folder in the user's data and what gives secrets that are not in the environment.

        For `asked_by_project`, see `ProjectServers`.
        """
        self._folder = folder
        self._environ = environ
        self._resolve = resolve
        self._confinement = confinement or BubblewrapServers(environ)
        self._servers: PooledToolServers | None = None
        self._building = asyncio.Lock()
        self._closed = False
        self.pins = Pins(folder)
        self.projects = ProjectServers(folder, asked_by_project or {})

    async def connect(self, server: MCPServerConfig, *, workspace: str, sandbox: Sandbox | None = None) -> ServerTools:
        self.projects.require_agreed(server)  # before a second is spent
        return await (await self._real()).connect(server, workspace=workspace, sandbox=sandbox)

    async def inspect(self, server: MCPServerConfig) -> "Inspected":
        """Start a server and look at it; see PooledToolServers."""
        self.projects.require_agreed(server)
        return await (await self._real()).inspect(server)

    async def aclose(self) -> None:
        """End every server."""
        self._closed = True
        if self._servers is not None:
            await self._servers.aclose()

    async def _real(self) -> "PooledToolServers":
        async with self._building:
            if self._servers is None:
                servers, pool = await on_own_thread(_modules)
                if self._closed:
                    raise ToolServerUnavailable("tool servers are being closed")
                self._servers = servers.PooledToolServers(
                    pool=pool.ServerPool(
                        confinement=self._confinement,
                        folder=self._folder,
                        environ=self._environ,
                        resolve=self._resolve,
                    ),
                    pins=self.pins,
                    projects=self.projects,
                )
            return self._servers


def _modules() -> tuple[Any, Any]:
    """Import what needs the SDK.

    Raises:
        ToolServersMissing: it is not installed.
    """
    try:
        return (
            importlib.import_module("agent_fabric.infrastructure.tools.mcp.servers"),
            importlib.import_module("agent_fabric.infrastructure.tools.mcp.pool"),
        )
    except ModuleNotFoundError as problem:
        if (problem.name or "").partition(".")[0] not in _SDK:
            raise
        missing = MissingExtra("mcp", needed_for="A specialist with `mcp_servers`")
        raise ToolServersMissing(missing.message, hint=missing.hint) from problem
