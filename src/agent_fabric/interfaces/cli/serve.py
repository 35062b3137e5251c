"""`fabric serve`: runs over HTTP."""

import contextlib
import json
import os
import sys
from typing import Annotated

import typer

from agent_fabric.interfaces.cli.invocation import new_app
from agent_fabric.interfaces.cli.main import COMPLETED
from agent_fabric.interfaces.cli.options import Workspace, configuration, fabric_root

app = new_app("Serve runs over HTTP.")


@app.command()
def serve(
    host: Annotated[str | None, typer.Option(help="Address to listen on; only this machine's own.")] = None,
    port: Annotated[int | None, typer.Option(min=0, max=65_535, help="Port to listen on; 0 takes a free one.")] = None,
    max_running: Annotated[int | None, typer.Option(min=1, max=10_000, help="Runs driven at the same time.")] = None,
    workspace: Workspace = None,
    as_json: Annotated[bool, typer.Option("--json", help="Tell the address as one JSON object.")] = False,
) -> int:
    """Serve runs over HTTP on http://127.0.0.1:8787, until Ctrl-C or SIGTERM.

    Unfinished runs are taken up at the start. Runs that are under way at the end go on with the next start.
    """
    options = {"host": host, "port": port, "max_running": max_running}
    root = fabric_root(workspace)
    loaded = configuration(root, {"server": {key: value for key, value in options.items() if value is not None}})

    def tell(url: str) -> None:
        text = json.dumps({"url": url, "pid": os.getpid()}) if as_json else f"fabric serve: {url} ({root})"
        with contextlib.suppress(OSError):  # whoever started us may not listen
            sys.stdout.write(f"{text}\n")
            sys.stdout.flush()

    from agent_fabric.interfaces.http.server import serve as listen  # noqa: PLC0415 - `--help` needs no web framework

    listen(root, loaded, on_listening=tell)
    return COMPLETED
