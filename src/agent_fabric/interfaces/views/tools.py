"""Tool servers (MCP) as JSON objects: the same for the command line and for HTTP."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from agent_fabric.config.schema.fabric import FabricConfig
from agent_fabric.config.schema.tools import MCPServerConfig
from agent_fabric.config.show import show_server
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import ConfigError, DefinitionNotFound
from agent_fabric.infrastructure.tools.mcp.lazy_servers import LazyToolServers
from agent_fabric.infrastructure.tools.mcp.tool_conversion import ListedTool, tool_name
from agent_fabric.wire.tool_servers import (
    INSPECTED_TOOL_SERVER,
    TOOL_SERVERS,
    InspectedToolServer,
    OfferedTool,
    ToolServerLine,
)

if TYPE_CHECKING:
    from agent_fabric.infrastructure.tools.mcp.servers import Inspected


@dataclass(frozen=True, slots=True)
class KnownServer:
    """A tool server of the configuration."""

    specialist: str
    server: MCPServerConfig


def tool_servers_in(config: FabricConfig) -> Iterator[KnownServer]:
    """Return every tool server, and who has it."""
    for name, specialist in config.specialists.items():
        for server in specialist.mcp_servers:
            yield KnownServer(name, server)


def tool_server_named(name: str, config: FabricConfig) -> KnownServer:
    """Find a server.

    Raises:
        DefinitionNotFound: there is none.
        ConfigError: the name means several different ones.
    """
    found = [
        each for each in tool_servers_in(config) if name in (each.server.name, f"{each.specialist}/{each.server.name}")
    ]
    if not found:
        known = ", ".join(dict.fromkeys(each.server.name for each in tool_servers_in(config)))
        raise DefinitionNotFound(
            f"There is no tool server {name!r}",
            hint=f"Configured: {known}." if known else "None is configured; see docs/guides/mcp.md.",
        )
    if any(each.server != found[0].server for each in found):
        choices = " or ".join(f"{each.specialist}/{each.server.name}" for each in found)
        raise ConfigError(f"More than one tool server is named {name!r}", hint=f"Say {choices}.")
    return found[0]


def listed_object(config: FabricConfig, servers: LazyToolServers) -> dict[str, Any]:
    """Return what is known about all tool servers without starting any."""
    return TOOL_SERVERS.dump(_line(known, servers) for known in tool_servers_in(config))


def signals_of(tool: ListedTool) -> tuple[str, ...]:
    """Name the signs that a tool's own words give instructions to models."""
    from agent_fabric.domain.policy.injection.scan import signals_in  # noqa: PLC0415 - its words take their time

    found = {*signals_in(f"{tool.name}\n{tool.description}"), *signals_in("\n".join(_texts_in(tool.schema)))}
    return tuple(sorted(found))


def _texts_in(value: Any) -> Iterator[str]:
    """Return every text in a schema: models read names, titles, defaults and examples as well as descriptions."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for name, item in value.items():
            yield str(name)
            yield from _texts_in(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts_in(item)


def _line(known: KnownServer, servers: LazyToolServers) -> ToolServerLine:
    server = known.server
    shown = show_server(server)
    agreed = servers.projects.agreed(server)
    pinned = servers.pins.count(server)
    return ToolServerLine(
        name=server.name,
        specialist=known.specialist,
        transport=server.transport,
        runs=" ".join(server.command) if server.transport == "stdio" else shown["url"],
        box=_box(server),
        project_file=servers.projects.file_of(server) or None,
        state="needs_trust" if not agreed else "ready" if pinned is not None else "never_used",
        pinned_tools=pinned,
    )


def _box(server: MCPServerConfig) -> str:
    if server.transport != "stdio":
        return "reached over HTTP"
    if server.trusted:
        return "trusted: runs with all your rights"
    parts = ["in a sandbox", "with network" if server.network else "no network"]
    if server.workspace != "none":
        parts.append(f"workspace {server.workspace}")
    return ", ".join(parts)


def inspected_object(known: KnownServer, found: "Inspected") -> dict[str, Any]:
    """Return what a tool server offers, beside what was trusted."""
    name, checked = known.server.name, found.checked
    tools = [
        OfferedTool(
            name=tool_name(name, tool.name),
            tool=tool.name,
            description=tool.description,
            schema=tool.schema,
            digest=tool.digest,
            state="not_pinned" if checked.first_use else checked.states[tool.name].value,
            signals=signals_of(tool),
        )
        for tool in found.tools
    ]
    start_s = round(found.start_s, 3)
    return INSPECTED_TOOL_SERVER.dump(
        InspectedToolServer(
            name, known.specialist, found.protocol, found.server_info, start_s, checked.first_use, tools, checked.gone
        )
    )
