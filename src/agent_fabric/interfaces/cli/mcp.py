"""`fabric mcp`: which tool servers there are, what they offer, and which are trusted."""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from agent_fabric.bootstrap.mcp import open_tool_servers
from agent_fabric.config.loader import Loaded
from agent_fabric.config.schema.mcp import MCPServerConfig
from agent_fabric.config.show import show_server
from agent_fabric.domain.errors import ConfigError
from agent_fabric.infrastructure.mcp.convert import tool_name
from agent_fabric.infrastructure.mcp.lazy import LazyToolServers
from agent_fabric.infrastructure.mcp.pins import PinState
from agent_fabric.interfaces.cli.invocation import new_app
from agent_fabric.interfaces.cli.main import COMPLETED, FAILED
from agent_fabric.interfaces.cli.options import AsJson, Workspace, configuration, fabric_root, require_a_person
from agent_fabric.interfaces.cli.output import json_text, plain, plain_lines, print_json, shortened, styled

if TYPE_CHECKING:
    from agent_fabric.infrastructure.mcp.servers import Inspected

T = TypeVar("T")

_HELP = """\
See and trust tool servers (MCP).

\b
Examples:
  fabric mcp list                    what is configured, and for whom; starts nothing
  fabric mcp inspect time            start a server and see its tools
  fabric mcp trust time              accept its tools as they are now
"""

app = new_app(_HELP)

Server = Annotated[str, typer.Argument(metavar="SERVER", help="Its name; or SPECIALIST/NAME if several have it.")]


@app.callback()
def mcp() -> None:
    """See and trust tool servers (MCP)."""


@dataclass(frozen=True, slots=True)
class _Known:
    """A server of the configuration."""

    specialist: str
    server: MCPServerConfig


@app.command("list")
def list_servers(workspace: Workspace = None, as_json: AsJson = False) -> None:
    """Show the configured tool servers. Starts nothing.

    Example: fabric mcp list
    """
    loaded = configuration(fabric_root(workspace))
    servers = open_tool_servers(loaded.config, loaded.origins, os.environ)
    shown = [_listed(each, servers) for each in _all(loaded)]
    if as_json:
        print_json({"servers": shown})
        return
    if not shown:
        sys.stdout.write("No tool server is configured. See docs/guides/mcp.md.\n")
    for each in shown:
        state = each["state"]
        style = {"ready": "green", "needs_trust": "yellow"}.get(state, "dim")
        sys.stdout.write(
            f"{styled(plain(each['name']), 'bold', sys.stdout)}  {each['specialist']}  "
            f"{styled(state.replace('_', ' '), style, sys.stdout)}\n"
            f"  {shortened(each['runs'], 110)}\n  {plain(each['box'])}; {_pinned_words(each['pinned_tools'])}\n"
        )
        if each["project_file"]:
            sys.stdout.write(f"  asked for by the project's file {plain(each['project_file'])}\n")


@app.command()
def inspect(server: Server, workspace: Workspace = None, as_json: AsJson = False) -> None:
    """Start or reach a server and show its tools, beside what was trusted. Trusts nothing.

    Example: fabric mcp inspect time
    """
    loaded = configuration(fabric_root(workspace))
    known = _named(server, loaded)
    found = asyncio.run(_with_servers(loaded, lambda servers: servers.inspect(known.server)))
    if as_json:
        print_json(_inspected_object(known, found))
        return
    out = [
        f"{plain(known.server.name)}: {plain(found.server_info) or 'a server without a name'}, "
        f"protocol {plain(found.protocol)}, started in {found.start_s:.1f} s"
    ]
    for tool in found.tools:
        state = found.checked.states[tool.name]
        mark = "" if state is PinState.PINNED or found.checked.first_use else f" [{state.value}]"
        out.append(f"  {plain(tool_name(known.server.name, tool.name))}{mark}  {tool.digest[:12]}")
        out.append(f"    {shortened(tool.description, 110)}")
    out += [f"  {plain(name)} is gone" for name in found.checked.gone]
    out.append(_verdict(found, known.server.name))
    sys.stdout.write("\n".join(out) + "\n")


@app.command()
def trust(
    server: Server,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    workspace: Workspace = None,
    as_json: AsJson = False,
) -> int:
    """Accept a server: first that a project's file may have it started, then its tools as they are now.

    Shows what it is, and how its tools differ from those trusted before.

    \b
    Examples:
      fabric mcp trust time
      fabric mcp trust engineering/time --yes
    """  # noqa: D301 - the mark makes lines stay as they are
    require_a_person()
    loaded = configuration(fabric_root(workspace))
    known = _named(server, loaded)

    async def go(servers: LazyToolServers) -> dict[str, Any]:
        file = servers.projects.file_of(known.server)
        agreed = servers.projects.agreed(known.server)
        if not agreed:
            _say(as_json, f"The project's file {file} asks for this server:")
            _say(as_json, json_text(show_server(known.server), indent=2))
            if not _agreed("Start or reach it, now and in runs?", yes=yes):
                return {"server": known.server.name, "trusted": False, "changes": []}
            servers.projects.agree(known.server)
        found = await servers.inspect(known.server)
        changes = servers.pins.differences(known.server, found.tools)
        for line in changes:
            _say(as_json, line)
        if changes and not _agreed("Offer these tools to models as they are now?", yes=yes):
            return {"server": known.server.name, "trusted": False, "changes": changes}
        servers.pins.trust(known.server, found.tools)
        return {"server": known.server.name, "trusted": True, "changes": changes}

    done = asyncio.run(_with_servers(loaded, go))
    if as_json:
        print_json(done)
    elif done["trusted"]:
        what = "its tools are pinned as they are now" if done["changes"] else "nothing had changed"
        sys.stdout.write(f"{plain(known.server.name)} is trusted: {what}.\n")
    else:
        sys.stdout.write("Nothing was trusted.\n")
    return COMPLETED if done["trusted"] else FAILED


def _all(loaded: Loaded) -> Iterator[_Known]:
    for name, specialist in loaded.config.specialists.items():
        for server in specialist.mcp_servers:
            yield _Known(name, server)


def _named(name: str, loaded: Loaded) -> _Known:
    """Find a server.

    Raises:
        ConfigError: there is none, or the name means several different ones.
    """
    found = [each for each in _all(loaded) if name in (each.server.name, f"{each.specialist}/{each.server.name}")]
    if not found:
        known = ", ".join(dict.fromkeys(each.server.name for each in _all(loaded)))
        raise ConfigError(
            f"There is no tool server {name!r}",
            hint=f"Configured: {known}." if known else "None is configured; see docs/guides/mcp.md.",
        )
    if any(each.server != found[0].server for each in found):
        choices = " or ".join(f"{each.specialist}/{each.server.name}" for each in found)
        raise ConfigError(f"More than one tool server is named {name!r}", hint=f"Say {choices}.")
    return found[0]


async def _with_servers(loaded: Loaded, use: Callable[[LazyToolServers], Awaitable[T]]) -> T:
    servers = open_tool_servers(loaded.config, loaded.origins, os.environ)
    try:
        return await use(servers)
    finally:
        await servers.aclose()


def _listed(known: _Known, servers: LazyToolServers) -> dict[str, Any]:
    server = known.server
    shown = show_server(server)
    agreed = servers.projects.agreed(server)
    pinned = servers.pins.count(server)
    return {
        "name": server.name,
        "specialist": known.specialist,
        "transport": server.transport,
        "runs": " ".join(server.command) if server.transport == "stdio" else shown["url"],
        "box": _box(server),
        "project_file": servers.projects.file_of(server) or None,
        "state": "needs_trust" if not agreed else "ready" if pinned is not None else "never_used",
        "pinned_tools": pinned,
    }


def _box(server: MCPServerConfig) -> str:
    if server.transport != "stdio":
        return "reached over HTTP"
    if server.trusted:
        return "trusted: runs with all your rights"
    parts = ["in a sandbox", "with network" if server.network else "no network"]
    if server.workspace != "none":
        parts.append(f"workspace {server.workspace}")
    return ", ".join(parts)


def _pinned_words(count: int | None) -> str:
    return "its tools are pinned at its first use" if count is None else f"{count} tools pinned"


def _inspected_object(known: _Known, found: "Inspected") -> dict[str, Any]:
    return {
        "server": known.server.name,
        "specialist": known.specialist,
        "protocol": found.protocol,
        "server_info": found.server_info,
        "start_s": round(found.start_s, 3),
        "first_use": found.checked.first_use,
        "tools": [
            {
                "name": tool_name(known.server.name, tool.name),
                "tool": tool.name,
                "description": tool.description,
                "schema": tool.schema,
                "digest": tool.digest,
                "state": "not_pinned" if found.checked.first_use else found.checked.states[tool.name].value,
            }
            for tool in found.tools
        ],
        "gone": list(found.checked.gone),
    }


def _verdict(found: "Inspected", name: str) -> str:
    if found.checked.first_use:
        return "Nothing is pinned yet: the first run that uses it pins these tools."
    if all(state is PinState.PINNED for state in found.checked.states.values()):
        return "All as trusted."
    return f"Models do not get what is new or changed until: fabric mcp trust {name}"


def _agreed(question: str, *, yes: bool) -> bool:
    """Ask the person; without one, only `--yes` agrees.

    Raises:
        ConfigError: nobody can be asked.
    """
    if yes:
        return True
    if not sys.stdin.isatty():
        raise ConfigError("There is nobody to ask", hint="If you have looked at it, say so with --yes.")
    return typer.confirm(question, err=True)


def _say(as_json: bool, text: str) -> None:
    if not as_json:
        sys.stdout.write(plain_lines(text) + "\n")
