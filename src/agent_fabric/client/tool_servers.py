"""The tool servers (MCP) that a server's runs use."""

import math

from agent_fabric.client.transport import Resource
from agent_fabric.client.wire import json_from
from agent_fabric.wire.shape import Json

BASE = "/api/v1/tool-servers"


class ToolServers(Resource):
    """Tool servers of a server's configuration. Trusting one is done at the server's own terminal."""

    async def list(self) -> Json:
        """Return all that `fabric mcp list --json` prints; nothing is started."""
        return await self._get(json_from("servers"), BASE)

    async def inspect(self, name: str) -> Json:
        """Let the server start or reach one, and return its tools beside what was trusted.

        Raises:
            DefinitionNotFound: there is none.
            ConfigError: the name means several.
            ToolServerUnavailable: it does not start or answer.
        """
        return await self._post(
            json_from("server", "tools", "gone"), f"{BASE}/inspect", {"name": name}, timeout_s=math.inf
        )
