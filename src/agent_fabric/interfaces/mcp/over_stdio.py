"""The tools on standard input and output, for a program that started us."""

from typing import Any

from mcp.server.mcpserver import Context

from agent_fabric.client.fabric_client import FabricClient
from agent_fabric.interfaces.mcp.tools import fabric_tools


async def tools_over_stdio(url: str, token: str | None, *, may_answer: bool) -> None:
    """Serve until standard input ends. Without a token, the one is used that the command line would use."""

    def connect(_: "Context[Any, Any]") -> FabricClient:
        return FabricClient(url, token=token)

    await fabric_tools(connect, may_answer=may_answer).run_stdio_async()
