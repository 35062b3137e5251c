"""Tool servers in a folder of the test's own."""

import json
import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from agent_fabric.application.ports.mcp import ServerTools
from agent_fabric.config.schema.tools import MCPServerConfig
from agent_fabric.domain.ids import CallId, RunId
from agent_fabric.domain.tools.specs import ToolContext
from agent_fabric.infrastructure.tools.mcp.lazy_servers import LazyToolServers

HOSTILE = str(Path(__file__).with_name("hostile_server.py"))


def server(**settings: Any) -> MCPServerConfig:
    """Return the settings of a server."""
    return MCPServerConfig.model_validate({"start_timeout_s": 60, **settings})


def hostile(way: str, file: Path | None = None, **settings: Any) -> MCPServerConfig:
    """Return a server that misbehaves, outside the sandbox unless the settings say otherwise."""
    command = [sys.executable, HOSTILE, way, *([] if file is None else [str(file)])]
    return server(**{"name": "hostile", "command": command, "trusted": True, **settings})


def context(timeout_s: float = 20.0) -> ToolContext:
    """Return what a call knows."""
    return ToolContext(run_id=RunId("r"), call_id=CallId("call_1"), timeout_s=timeout_s, network_allowed=True)


@asynccontextmanager
async def tool_servers(folder: Path, environ: Mapping[str, str] | None = None) -> AsyncIterator[LazyToolServers]:
    """Give tool servers that remember what they know in `folder`."""
    servers = LazyToolServers(folder=folder / "mcp", environ=os.environ if environ is None else environ)
    try:
        yield servers
    finally:
        await servers.aclose()


async def ask(tools: ServerTools, tool: str, /, timeout_s: float = 20.0, **args: Any) -> Any:
    """Call a tool by the server's name for it; return its text, read as JSON where it is JSON."""
    result = await tools.call(f"mcp__{tools.report.server}__{tool}", args, context(timeout_s))
    text = result.output.get("text")
    try:
        return json.loads(text) if isinstance(text, str) else result.output
    except ValueError:
        return text


def workspace_in(folder: Path) -> Path:
    """Make a workspace."""
    workspace = folder / "workspace"
    workspace.mkdir()
    return workspace
