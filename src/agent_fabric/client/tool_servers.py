"""The tool servers (MCP) that a server's runs use."""

import math

from agent_fabric.client.transport import Transport
from agent_fabric.client.wire import json_from
from agent_fabric.wire.shape import Json

BASE = "/api/v1/tool-servers"


class ToolServers:
    """Tool servers of a server's configuration. Trusting one is done at the server's own terminal."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def list(self) -> Json:
        """Return all that `fabric mcp list --json` prints; nothing is started."""
        return await self._transport.understood(json_from("servers"), await self._transport.get(BASE))

    async def inspect(self, name: str) -> Json:
        """Let the server start or reach one, and return its tools beside what was trusted.

        Raises:
            DefinitionNotFound: there is none.
            ConfigError: the name means several.
            ToolServerUnavailable: it does not start or answer.
        """
        answer = await self._transport.post(f"{BASE}/inspect", {"name": name}, timeout_s=math.inf)
        return await self._transport.understood(json_from("server", "tools", "gone"), answer)
