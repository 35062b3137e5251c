"""The tools on standard input and output, for a program that started us."""

from typing import Any

from mcp.server.mcpserver import Context

from agent_fabric.client.fabric_client import FabricClient
from agent_fabric.interfaces.mcp.tools import announced_run, fabric_tools


async def tools_over_stdio(url: str, token: str | None, *, may_answer: bool, run: str) -> None:
    """Serve until standard input ends. Without a token, the one is used that the command line would use.

    `run` is the run that this process works for; empty: none, as far as its process tells.
    """

    def connect(context: "Context[Any, Any]") -> FabricClient:
        return FabricClient(url, token=token, run=announced_run(context) or run)

    await fabric_tools(connect, answering=connect if may_answer else None).run_stdio_async()
