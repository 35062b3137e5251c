"""Tools of MCP servers on machines of the fleet, by the name under which they are offered: `NODE.SERVER.tool`."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from agent_fabric.domain.dataclass import dataclass

MCP_PROXY: Final = "mcp_proxy"
"""The tool of a node that hands a request to an MCP server there; over the wire it is `mcp.proxy` (FC-012)."""
_PART: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""Of a server's and a tool's name: without dots, so that the last two parts of a name are never the machine's."""
_MACHINE: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,62}[A-Za-z0-9])?")


class ServedName(NamedTuple):
    """A name in its parts."""

    node: str
    server: str
    tool: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedTool:
    """A tool of a server on a machine, as the server describes it."""

    name: str
    """`NODE.SERVER.tool`."""
    node: str
    server: str
    tool: str
    description: str
    parameters: Mapping[str, Any]
    """JSON schema of the arguments, as sent."""


def served_name(name: str) -> ServedName | None:
    """Return the parts of `NODE.SERVER.tool`; None: the name is another one. Machines may have dots in their names."""
    node, _, rest = name.rpartition(".")
    node, _, server = node.rpartition(".")
    fits = _MACHINE.fullmatch(node) and _PART.fullmatch(server) and _PART.fullmatch(rest)
    return ServedName(node, server, rest) if fits else None


def proxied_arguments(server: str, tool: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of `mcp_proxy` that call a tool of a server."""
    params = {"name": tool, "arguments": dict(arguments)}
    return {
        "target_server": server,
        "inner_request": {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params},
    }


def listing_arguments(server: str, cursor: str | None = None) -> dict[str, Any]:
    """Return the arguments of `mcp_proxy` that list the tools of a server."""
    params = {} if cursor is None else {"cursor": cursor}
    return {
        "target_server": server,
        "inner_request": {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": params},
    }


def node_call(node: str, tool_name: str, arguments: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """Return the tool of a node, and its arguments, that a name means: `SERVER.tool` is a request to that server.

    The name may begin with that of the node.
    """
    named = served_name(tool_name)
    server, _, tool = (named.server, ".", named.tool) if named and named.node == node else tool_name.partition(".")
    if not _PART.fullmatch(server) or not _PART.fullmatch(tool):
        return tool_name, arguments
    return MCP_PROXY, proxied_arguments(server, tool, arguments)


def listed_tools(node: str, server: str, answer: Mapping[str, Any]) -> Iterator[ServedTool]:
    """Yield what a server's answer to `tools/list` describes; what has no usable name is left out."""
    result = answer.get("result")
    tools = result.get("tools") if isinstance(result, Mapping) else None
    for each in tools if isinstance(tools, Sequence) and not isinstance(tools, str) else ():
        tool = each.get("name") if isinstance(each, Mapping) else None
        if not isinstance(tool, str) or not _PART.fullmatch(tool):
            continue
        schema, about = each.get("inputSchema"), each.get("description")
        yield ServedTool(
            name=f"{node}.{server}.{tool}",
            node=node,
            server=server,
            tool=tool,
            description=about if isinstance(about, str) else "",
            parameters=schema if isinstance(schema, Mapping) else {},
        )
