"""Finds out which tools the MCP servers of machines have."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from agent_fabric.application.fleet.dispatch_command import CommandRequest, DispatchCommand
from agent_fabric.domain.errors import FabricError, NodeUnavailable
from agent_fabric.domain.fleet.commands import CommandStatus
from agent_fabric.domain.fleet.nodes import Node, NodeStatus
from agent_fabric.domain.fleet.served_tools import MCP_PROXY, ServedTool, listed_tools, listing_arguments
from agent_fabric.domain.policy.verdicts import Verdict

LIST_TIMEOUT_S: Final = 10.0
"""A run waits for it; a server that takes longer is listed for the next one."""
KNOWN_FOR_S: Final = 300.0
MAX_PAGES: Final = 10
MAX_AT_ONCE: Final = 32


class ServedListing(NamedTuple):
    """What the servers of one machine offer."""

    node: str
    tools: tuple[ServedTool, ...]
    problems: tuple[str, ...]
    """Why tools of a server are not known, one sentence for each server."""


class ServedCatalogue:
    """Use case: the tools of MCP servers on machines. Each machine is asked once in five minutes, or connection."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, int], tuple[float, ServedListing]] = {}

    async def everywhere(self, dispatch: DispatchCommand, by: str) -> Sequence[ServedListing]:
        """Return what the machines offer that are online and have servers."""
        nodes = [each for each in await dispatch.nodes.list() if each.status is NodeStatus.ONLINE and servers_of(each)]
        turns = asyncio.Semaphore(MAX_AT_ONCE)

        async def one(node: Node) -> ServedListing:
            async with turns:
                return await self.of(dispatch, node, by)

        return await asyncio.gather(*map(one, nodes))

    async def of(self, dispatch: DispatchCommand, node: Node, by: str, *, fresh: bool = False) -> ServedListing:
        """Return what one machine offers; `fresh`: ask it now."""
        key, now = (node.id, node.generation), dispatch.clock.now()
        kept = self._known.get(key)
        if kept is not None and not fresh and now - kept[0] < KNOWN_FOR_S:
            return kept[1]
        answers = await asyncio.gather(*(_tools_of(dispatch, node, server, by) for server in servers_of(node)))
        found = ServedListing(
            node.name,
            tuple(tool for tools, _ in answers for tool in tools),
            tuple(problem for _, problem in answers if problem),
        )
        self._known = {k: v for k, v in self._known.items() if k[0] != node.id and now - v[0] < KNOWN_FOR_S}
        self._known[key] = (now, found)
        return found


def servers_of(node: Node) -> list[str]:
    """Return the names of the MCP servers that a machine has reported."""
    listed = node.reported.get("mcp_servers")
    named = (each.get("name") for each in listed if isinstance(each, Mapping)) if isinstance(listed, list) else ()
    return [name for name in named if isinstance(name, str)]


async def _tools_of(dispatch: DispatchCommand, node: Node, server: str, by: str) -> tuple[list[ServedTool], str]:
    """Return a server's tools, or why they are not known."""
    found: list[ServedTool] = []
    cursor: str | None = None
    try:
        async with asyncio.timeout(LIST_TIMEOUT_S):
            for _ in range(MAX_PAGES):
                answer = await _ask_node(dispatch, node, listing_arguments(server, cursor), by)
                found += listed_tools(node.name, server, answer)
                result = answer.get("result")
                following = result.get("nextCursor") if isinstance(result, Mapping) else None
                if not isinstance(following, str):
                    break
                cursor = following
    except FabricError as problem:
        return found, f"{node.name}: {server}: {problem.message}"
    except TimeoutError:
        return found, f"{node.name}: {server}: it did not list its tools within {LIST_TIMEOUT_S:g} s"
    return found, ""


async def _ask_node(dispatch: DispatchCommand, node: Node, arguments: Mapping[str, Any], by: str) -> Mapping[str, Any]:
    request = CommandRequest(node=node, tool_name=MCP_PROXY, arguments=arguments, by=by, lifetime_s=LIST_TIMEOUT_S)
    ruling = dispatch.judge(request)
    if ruling.verdict is not Verdict.ALLOW:
        raise NodeUnavailable(f"its policy does not let its tools be listed: {ruling.reason}")
    dispatch.require_usable(node, queue=False)
    command = dispatch.command(request, ruling, dispatch.status_at_once(node))
    settled = await dispatch.run(command, timeout_s=LIST_TIMEOUT_S)
    output = (settled.result or {}).get("output")
    if settled.status is not CommandStatus.SUCCESS or not isinstance(output, Mapping):
        raise NodeUnavailable(str((settled.result or {}).get("error") or f"it is {settled.status.value}"))
    if isinstance(error := output.get("error"), Mapping):
        raise NodeUnavailable(str(error.get("message", "it answers with an error"))[:500])
    return output
