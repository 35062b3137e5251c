"""`fabric serve`: runs over HTTP."""

import contextlib
import json
import os
import sys
from collections.abc import Mapping
from typing import Annotated

import typer

from agent_fabric.config.problems import ConfigProblem
from agent_fabric.domain.errors import ConfigError, FabricError
from agent_fabric.domain.policy.profiles import OPEN_BANNER
from agent_fabric.interfaces.cli.invocation import new_app
from agent_fabric.interfaces.cli.main import COMPLETED, FAILED, USAGE
from agent_fabric.interfaces.cli.options import Workspace, configuration, fabric_root
from agent_fabric.interfaces.cli.output import print_warning
from agent_fabric.interfaces.http.names import is_loopback
from agent_fabric.wire.results import error_object

app = new_app("Serve runs over HTTP.")


@app.command()
def serve(
    host: Annotated[
        str | None,
        typer.Option(help="Address to listen on; one that other machines reach needs a user or an API key first."),
    ] = None,
    port: Annotated[int | None, typer.Option(min=0, max=65_535, help="Port to listen on; 0 takes a free one.")] = None,
    max_running: Annotated[int | None, typer.Option(min=1, max=10_000, help="Runs driven at the same time.")] = None,
    no_drive: Annotated[
        bool, typer.Option("--no-drive", help="Only take tasks on; workers of the same store drive them.")
    ] = False,
    workspace: Workspace = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the address as one JSON object.")] = False,
) -> int:
    """Serve runs over HTTP on http://127.0.0.1:8787, until Ctrl-C or SIGTERM.

    Unfinished runs are resumed at the start. Runs in progress at the end are resumed by the next server.
    """
    try:
        options = {"host": host, "port": port, "max_running": max_running}
        _serve(options, workspace, drives=not no_drive, as_json=as_json)
    except (ConfigProblem, FabricError) as problem:
        if not as_json:
            raise
        known = problem if isinstance(problem, FabricError) else ConfigError(problem.message, hint=problem.hint)
        sys.stdout.write(json.dumps(error_object(known)) + "\n")  # one line, as the address would have been
        return USAGE if isinstance(known, ConfigError) else FAILED
    return COMPLETED


def _serve(options: Mapping[str, object], workspace: Workspace, *, drives: bool, as_json: bool) -> None:
    root = fabric_root(workspace)
    loaded = configuration(root, {"server": {key: value for key, value in options.items() if value is not None}})

    if not drives and not loaded.config.store.url:
        raise ConfigError(
            "`--no-drive` needs workers that share the store, and `store.url` is not set",
            hint="Set `store.url` to a PostgreSQL database and start `fabric worker`, or leave --no-drive out.",
        )

    def tell(url: str) -> None:
        text = json.dumps({"url": url, "pid": os.getpid()}) if as_json else f"fabric serve: {url} ({root})"
        with contextlib.suppress(OSError):  # the starter may have closed the pipe
            sys.stdout.write(f"{text}\n")
            sys.stdout.flush()

    from agent_fabric.interfaces.http.server import serve as listen  # noqa: PLC0415 - `--help` needs no web framework

    server = loaded.config.server
    if server.tls is None and not is_loopback(server.host):
        print_warning("Passwords and keys travel in clear text: set `server.tls`, or put a proxy with TLS in front.")
    if loaded.config.policy.profile == "open":
        print_warning(OPEN_BANNER)
    listen(root, loaded, on_listening=tell, drives=drives)
