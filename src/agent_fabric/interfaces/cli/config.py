"""`fabric config`: the configuration in force."""

import json
import sys
from typing import Annotated

import typer

from agent_fabric.config.show import show_config, show_origins
from agent_fabric.interfaces.cli.invocation import new_app
from agent_fabric.interfaces.cli.options import AsJson, Workspace, configuration, fabric_root
from agent_fabric.interfaces.cli.output import print_json

app = new_app("Show the configuration and where it comes from.")


@app.callback()
def config() -> None:
    """Show the configuration and where it comes from."""


@app.command()
def show(
    origin: Annotated[bool, typer.Option("--origin", help="Tell for each setting where it comes from.")] = False,
    workspace: Workspace = None,
    as_json: AsJson = False,
) -> None:
    """Show the configuration in force. What looks like a secret is hidden."""
    loaded = configuration(fabric_root(workspace))
    if not origin:
        print_json(show_config(loaded.config))
        return
    settings = show_origins(loaded)
    if as_json:
        print_json({setting.path: {"value": setting.value, "origin": setting.origin} for setting in settings})
        return
    for setting in settings:
        value = json.dumps(setting.value, ensure_ascii=False)
        sys.stdout.write(f"{setting.path} = {value}  [{setting.origin}]\n")
