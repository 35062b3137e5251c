"""`fabric mcp serve`: agent-fabric as a tool server for other programs."""

import asyncio
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from agent_fabric.bootstrap.this_machine import acting_run
from agent_fabric.config.loader import Loaded
from agent_fabric.domain.errors import MissingExtra
from agent_fabric.interfaces.cli.main import COMPLETED
from agent_fabric.interfaces.cli.options import configuration
from agent_fabric.interfaces.cli.place import PlainPlace, refuse_if


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
        from agent_fabric.interfaces.mcp.over_stdio import tools_over_stdio  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as problem:
        if (problem.name or "").startswith("agent_fabric"):
            raise
        raise MissingExtra("mcp", needed_for="`fabric mcp serve`") from None
    await tools_over_stdio(url, token, may_answer=caller.may_answer, run=caller.run)
