"""`fabric node`: makes this machine a node of a hub; the same program as `fabric-node.pyz`."""

from typing import Annotated

import typer

from agent_fabric.interfaces.cli.invocation import new_app
from agent_fabric.interfaces.cli.options import AsJson, require_a_person

app = new_app("Make this machine a node: join, run, install, status, trust, leave.")

Folder = Annotated[str | None, typer.Option("--dir", metavar="DIR", help="The node's folder.")]


@app.command()
def join(
    url: Annotated[str, typer.Argument(metavar="URL", help="The hub, such as https://hub.example.org.")],
    token: Annotated[str, typer.Option("--token", help="From `fabric nodes invite`.")],
    hub_key: Annotated[
        str, typer.Option("--hub-key", metavar="SHA256:…", help="The hub's key, to be sure that it is the one.")
    ] = "",
    name: Annotated[str, typer.Option("--name", help="By default that of the invitation, or the host name.")] = "",
    folder: Folder = None,
) -> int:
    """Enrol this machine at a hub."""
    return _node("join", url, "--token", token, "--hub-key", hub_key, "--name", name, folder=folder)


@app.command()
def run(
    floor: Annotated[
        str | None, typer.Option("--floor", metavar="FILE", help="By default node.toml in the node's folder.")
    ] = None,
    folder: Folder = None,
) -> int:
    """Connect to the hub and stay."""
    return _node("run", *(() if floor is None else ("--floor", floor)), folder=folder)


@app.command()
def install(
    system: Annotated[bool, typer.Option("--system", help="As a service of the system, with its own user.")] = False,
    folder: Folder = None,
) -> int:
    """Keep the node running by systemd."""
    return _node("install", *(("--system",) if system else ()), folder=folder)


@app.command()
def status(folder: Folder = None, as_json: AsJson = False) -> int:
    """Show how the node is doing, and why it is not connected."""
    return _node("status", *(("--json",) if as_json else ()), folder=folder)


@app.command()
def trust(
    server: Annotated[str, typer.Argument(metavar="SERVER", help="A name in mcp_config.json.")], folder: Folder = None
) -> int:
    """Accept the tools of a tool server of this machine as they are now described."""
    require_a_person()
    return _node("trust", server, folder=folder)


@app.command()
def leave(folder: Folder = None) -> int:
    """Forget the hub: remove the key and all that the node remembers."""
    return _node("leave", folder=folder)


def _node(*words: str, folder: str | None) -> int:
    from agent_fabric.interfaces.node.main import main  # noqa: PLC0415 - few machines are nodes

    return main([*words, *(() if folder is None else ("--dir", folder))])
