"""Tool servers that are built when the first is needed: the SDK takes a second to import, and most runs need none."""

import asyncio
import importlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from agent_fabric.application.ports.mcp import ServerConfinement, ServerTools
from agent_fabric.application.ports.sandbox import Sandbox
from agent_fabric.application.ports.secrets import Resolve
from agent_fabric.config.files import user_file
from agent_fabric.config.folders import base_folder, temporary_folder
from agent_fabric.config.schema.fabric import FabricConfig
from agent_fabric.config.schema.tools import MCPServerConfig
from agent_fabric.config.variable_names import CONFIG_PATH
from agent_fabric.domain.errors import MissingExtra, PackBroken, ToolServerUnavailable
from agent_fabric.infrastructure.threads import on_own_thread
from agent_fabric.infrastructure.tools.mcp.confinement import BubblewrapServers
from agent_fabric.infrastructure.tools.mcp.pins import Pins, ProjectServers, content_hash

if TYPE_CHECKING:
    from agent_fabric.infrastructure.tools.mcp.pool import ServerPool
    from agent_fabric.infrastructure.tools.mcp.servers import Inspected

_SDK = ("mcp", "mcp_types", "httpx2", "anyio")


class ToolServersMissing(PackBroken, RuntimeError):
    """Tool servers are configured, but what talks to them is not installed."""


class LazyToolServers:
    """ToolServers over a pool of connections, which is made when the first is needed."""

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
        self._pool: ServerPool | None = None
        self._building = asyncio.Lock()
        self._closed = False
        self.pins = Pins(folder)
        self.projects = ProjectServers(folder, asked_by_project or {})

    async def connect(self, server: MCPServerConfig, *, workspace: str, sandbox: Sandbox | None = None) -> ServerTools:
        pool = await self._pool_for(server)
        from agent_fabric.infrastructure.tools.mcp.servers import connect_tools  # noqa: PLC0415 - see above

        return await connect_tools(pool, self.pins, server, workspace=workspace, sandbox=sandbox)

    async def inspect(self, server: MCPServerConfig) -> "Inspected":
        """Start a server and look at it, without pinning anything.

        Raises:
            FabricError: it may not or cannot be used.
        """
        pool = await self._pool_for(server)
        from agent_fabric.infrastructure.tools.mcp.servers import inspect_server  # noqa: PLC0415 - see above

        return await inspect_server(pool, self.pins, server)

    async def aclose(self) -> None:
        """End every server."""
        self._closed = True
        if self._pool is not None:
            await self._pool.aclose()

    async def _pool_for(self, server: MCPServerConfig) -> "ServerPool":
        self.projects.require_agreed(server)  # before a second is spent
        async with self._building:
            if self._pool is None:
                make_pool = await on_own_thread(_load)
                if self._closed:
                    raise ToolServerUnavailable("tool servers are being closed")
                self._pool = make_pool(
                    confinement=self._confinement, folder=self._folder, environ=self._environ, resolve=self._resolve
                )
            return self._pool


def _load() -> "type[ServerPool]":
    """Import what needs the SDK.

    Raises:
        ToolServersMissing: it is not installed.
    """
    try:
        importlib.import_module("agent_fabric.infrastructure.tools.mcp.servers")
        from agent_fabric.infrastructure.tools.mcp.pool import ServerPool  # noqa: PLC0415 - see above
    except ModuleNotFoundError as problem:
        if (problem.name or "").partition(".")[0] not in _SDK:
            raise
        missing = MissingExtra("mcp", needed_for="A specialist with `mcp_servers`")
        raise ToolServersMissing(missing.message, hint=missing.hint) from problem
    return ServerPool


def open_tool_servers(
    config: FabricConfig, origins: Mapping[str, str], environ: Mapping[str, str], resolve: Resolve
) -> LazyToolServers:
    """Return the tool servers of a configuration; for `origins` see `Loaded`. Nothing is started yet.

    `resolve` gives the secrets that are not in the environment.
    """
    return LazyToolServers(
        folder=mcp_folder(environ),
        environ=environ,
        asked_by_project=asked_by_project(config, origins, environ),
        resolve=resolve,
    )


def mcp_folder(environ: Mapping[str, str]) -> Path:
    """Return the user's folder for what is known about tool servers, and for what they write."""
    return (base_folder(environ, "XDG_DATA_HOME", ".local", "share") or temporary_folder()) / "mcp"


def asked_by_project(config: FabricConfig, origins: Mapping[str, str], environ: Mapping[str, str]) -> dict[str, str]:
    """Return, by `content_hash`, the servers that a project's file asks for, and that file.

    The user's own file, one chosen by FABRIC_CONFIG_PATH, variables, flags and installed packages are the user's doing;
    a file that lies in a project, `.env` too, may have come with it.
    """
    chosen = environ.get(CONFIG_PATH)
    own = Path(os.path.expanduser(chosen)) if chosen else user_file(environ)  # noqa: PTH111 - as the loader has it
    found: dict[str, str] = {}
    for name, specialist in config.specialists.items():
        kind, _, file = origins.get(f"specialists.{name}.mcp_servers", "").partition(" ")
        if kind == "file" and (own is None or file != str(own)):
            found |= {content_hash(server): file for server in specialist.mcp_servers}
    return found
