"""`fabric mcp`: which tool servers there are, what they offer, and which are trusted."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from agent_fabric.application.ports.mcp import PinState
from agent_fabric.bootstrap.records import open_secrets
from agent_fabric.bootstrap.this_machine import acting_run
from agent_fabric.config.loader import Loaded
from agent_fabric.config.show import show_server
from agent_fabric.domain.errors import MissingExtra
from agent_fabric.domain.plural import count_of
from agent_fabric.infrastructure.tools.mcp.lazy_servers import open_tool_servers
from agent_fabric.interfaces.cli.invocation import new_app
from agent_fabric.interfaces.cli.main import COMPLETED, FAILED
from agent_fabric.interfaces.cli.options import configuration, is_confirmed, require_a_person
from agent_fabric.interfaces.cli.output import colour, fit_width, json_text, plain, plain_lines
from agent_fabric.interfaces.cli.place import Folder, Noun, Place, PlainPlace, refuse_if, work_within
from agent_fabric.interfaces.views.tools import (
    KnownServer,
    inspected_object,
    listed_object,
    signals_of,
    tool_server_named,
)
from agent_fabric.wire.shape import Json


def serve(
    http: Annotated[bool, typer.Option("--http", help="Serve over HTTP, as `fabric serve` does, at /mcp.")] = False,
    port: Annotated[int | None, typer.Option(min=0, max=65_535, help="With --http: the port.")] = None,
    answer: Annotated[
        bool | None,
        typer.Option("--answer/--no-answer", help="Whether callers may answer what runs ask. [default: no]"),
    ] = None,
    *,
    at: PlainPlace,
) -> int:
    """Let other programs run tasks here, over MCP: on standard input and output, or over HTTP.

    \b
    In the configuration of a program that speaks MCP:
      {"mcpServers": {"fabric": {"command": "fabric", "args": ["mcp", "serve"]}}}

    With --answer, that program may also answer what runs ask: only if it asks you before each call. A run of
    agent-fabric itself can start others through it, but answer nothing.
    """  # noqa: D301 - the mark makes lines stay as they are
    refuse_if(
        port is not None and not http, "--port is for --http", hint="Without it, standard input and output are used."
    )
    if http:
        refuse_if(at.server is not None, "--http is a server itself", hint="Leave out one of --http and --server.")
        refuse_if(answer is not None, "--no-answer is for standard input and output", hint="Over HTTP, scopes decide.")
        from agent_fabric.interfaces.cli.server.serve import serve as listen  # noqa: PLC0415 - most callers do not listen

        return listen(port=port, workspace=at.workspace)
    url = at.url()
    run = acting_run()
    caller = _Caller(may_answer=bool(answer) and not run, run=run)
    if url is not None:
        asyncio.run(_at(url, caller))
    else:
        root = at.root()
        asyncio.run(_inside(root, configuration(root), caller))
    return COMPLETED


class _Caller(NamedTuple):
    """The program that started us."""

    may_answer: bool
    run: str
    """The run that it works for; empty: none."""


async def _at(url: str, caller: _Caller) -> None:
    """Serve the runs of a server.

    Raises:
        FabricError: it cannot be reached, or does not let us in: said now, and not at the first call of a tool.
    """
    from agent_fabric.client.fabric_client import FabricClient  # noqa: PLC0415 - `--help` needs none

    async with FabricClient(url) as client:
        await client.me()
    await _over_stdio(url, None, caller)


async def _inside(root: Path, loaded: Loaded, caller: _Caller) -> None:
    """Serve this machine's own runs."""
    from agent_fabric.bootstrap.this_machine import local_token  # noqa: PLC0415 - as below
    from agent_fabric.interfaces.http.inside import serving_inside  # noqa: PLC0415 - `--help` needs no web framework

    async with serving_inside(root, loaded) as url:
        await _over_stdio(url, local_token(root), caller)


async def _over_stdio(url: str, token: str | None, caller: _Caller) -> None:
    """Serve over standard input and output until the client closes them."""
    try:
        from agent_fabric.interfaces.mcp.tools import tools_over_stdio  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as problem:
        if (problem.name or "").startswith("agent_fabric"):
            raise
        raise MissingExtra("mcp", needed_for="`fabric mcp serve`") from None
    await tools_over_stdio(url, token, may_answer=caller.may_answer, run=caller.run)


_QUIET = frozenset({PinState.PINNED.value, "not_pinned"})
"""How tools stand of which nothing need be said."""

_HELP = """\
See and trust tool servers (MCP).

\b
Examples:
  fabric mcp list                    what is configured, and for which specialists; starts nothing
  fabric mcp inspect time            start a server and see its tools
  fabric mcp trust time              accept its tools as they are now
  fabric mcp serve                   be a tool server for other programs
"""

app = new_app(_HELP)
app.command("serve")(serve)

Name = Annotated[str, typer.Argument(metavar="SERVER", help="Its name; or SPECIALIST/NAME if several have it.")]


@app.callback()
def mcp() -> None:
    """See and trust tool servers (MCP)."""


class _LocalServers:
    """The tool servers of a fabric folder."""

    def __init__(self, at: Place) -> None:
        root = at.root()
        self.loaded = configuration(root)
        resolve = open_secrets(self.loaded.config.secrets, root, os.environ).chain.resolve
        self.servers = open_tool_servers(self.loaded.config, self.loaded.origins, os.environ, resolve)

    def find(self, name: str) -> KnownServer:
        return tool_server_named(name, self.loaded.config)

    async def list(self) -> Json:
        return listed_object(self.loaded.config, self.servers)

    async def inspect(self, name: str) -> Json:
        known = self.find(name)
        return inspected_object(known, await self.servers.inspect(known.server))


@asynccontextmanager
async def _open(at: Place) -> AsyncIterator[_LocalServers]:
    found = _LocalServers(at)
    try:
        yield found
    finally:
        await found.servers.aclose()


_tool_servers = Noun(_open, lambda client: client.tool_servers)


@app.command("list")
def list_servers(*, at: Place) -> int:
    """Show the configured tool servers. Starts nothing.

    Example: fabric mcp list
    """
    found = _tool_servers(at, lambda servers: servers.list())
    text = "".join(map(_server_text, found["servers"]))
    return at.print(found, text or "No tool server is configured. See docs/guides/mcp.md.\n")


def _server_text(each: Json) -> str:
    state = each["state"]
    style = {"ready": "green", "needs_trust": "yellow"}.get(state, "dim")
    lines = [
        f"{colour(plain(each['name']), 'bold', sys.stdout)}  {plain(each['specialist'])}  "
        f"{colour(state.replace('_', ' '), style, sys.stdout)}",
        f"  {fit_width(each['runs'], 110, sys.stdout)}",
        f"  {plain(each['box'])}; {_pinned_words(each['pinned_tools'])}",
    ]
    if each["project_file"]:
        lines.append(f"  asked for by the project's file {plain(each['project_file'])}")
    return "".join(f"{line}\n" for line in lines)


@app.command()
def inspect(name: Name, *, at: Place) -> int:
    """Start or reach a server and show its tools, next to what was trusted. Trusts nothing.

    Example: fabric mcp inspect time
    """
    found = _tool_servers(at, lambda servers: servers.inspect(name))
    out = [
        f"{plain(found['server'])}: {plain(found['server_info']) or 'a server without a name'}, "
        f"protocol {plain(found['protocol'])}, started in {found['start_s']:.1f} s"
    ]
    for tool in found["tools"]:
        mark = "" if tool["state"] in _QUIET else f" [{plain(tool['state'])}]"
        out.append(f"  {plain(tool['name'])}{mark}  {plain(tool['digest'][:12])}")
        out += [f"    {plain(line)}".rstrip() for line in tool["description"].splitlines()]
        out += [f"    {_warning(tool['signals'])}"] if tool.get("signals") else []
    out += [f"  {plain(gone)} is gone" for gone in found["gone"]]
    out.append(_verdict(found))
    return at.print(found, "\n".join(out) + "\n")


@app.command()
def trust(
    name: Name, yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False, *, at: Folder
) -> int:
    """Accept a server: first that a project's file may have it started, then its tools as they are now.

    Shows what it is, and how its tools differ from those trusted before.

    \b
    Examples:
      fabric mcp trust time
      fabric mcp trust engineering/time --yes
    """  # noqa: D301 - the mark makes lines stay as they are
    require_a_person()
    agrees = partial(is_confirmed, yes=yes, hint="Add it if you have looked at the server.")

    async def go(found_here: _LocalServers) -> dict[str, Any]:
        known, servers = found_here.find(name), found_here.servers
        file = servers.projects.file_of(known.server)
        agreed = servers.projects.agreed(known.server)
        if not agreed:
            _say(at.as_json, f"The project's file {file} asks for this server:")
            _say(at.as_json, json_text(show_server(known.server), indent=2))
            if not agrees("Start or reach it, now and in runs?"):
                return {"server": known.server.name, "trusted": False, "changes": []}
            servers.projects.agree(known.server)
        found = await servers.inspect(known.server)
        changes = servers.pins.differences(known.server, found.tools)
        for line in changes:
            _say(at.as_json, line)
        for tool in found.tools:
            if signals := signals_of(tool):
                _say(at.as_json, f"{tool.name}: {_warning(signals)}")
        if changes and not agrees("Offer these tools to models as they are now?"):
            return {"server": known.server.name, "trusted": False, "changes": changes}
        servers.pins.trust(known.server, found.tools)
        return {"server": known.server.name, "trusted": True, "changes": changes}

    done = work_within(_open(at), go)
    what = "its tools are pinned as they are now" if done["changes"] else "nothing had changed"
    at.print(done, f"{plain(done['server'])} is trusted: {what}.\n" if done["trusted"] else "Nothing was trusted.\n")
    return COMPLETED if done["trusted"] else FAILED


def _pinned_words(count: int | None) -> str:
    return "its tools are pinned at its first use" if count is None else f"{count_of(count, 'tool')} pinned"


def _warning(signals: Sequence[str]) -> str:
    text = (
        f"warning: this reads like instructions to a model ({', '.join(map(plain, signals))}); read it before you trust"
    )
    return colour(text, "yellow", sys.stdout)


def _verdict(found: Json) -> str:
    if found["first_use"]:
        return "Nothing is pinned yet: the first run that uses it pins these tools."
    if all(tool["state"] == PinState.PINNED for tool in found["tools"]):
        return "All as trusted."
    return f"Models do not get what is new or changed until: fabric mcp trust {plain(found['server'])}"


def _say(as_json: bool, text: str) -> None:
    if not as_json:
        sys.stdout.write(plain_lines(text) + "\n")
