"""Shell completion: the one thing that needs all commands at once."""

import importlib
import os

import typer

from agent_fabric.interfaces.cli.invocation import misused, run_app
from agent_fabric.interfaces.cli.main import COMMANDS, COMPLETED

SHELLS = ("bash", "zsh", "fish", "powershell", "pwsh")
GROUPS = frozenset({"logs", "config"})


def complete(arguments: list[str]) -> int:
    """Answer the shell, or install or print its completion script."""
    if "_FABRIC_COMPLETE" in os.environ and "COMP_WORDS" not in os.environ:
        return COMPLETED  # nothing was typed yet, so there is nothing to complete
    if arguments[1:] and not arguments[1].startswith("-") and arguments[1] not in SHELLS:
        return misused(f"{arguments[1]!r} is not a shell that can be completed", f"Choose: {', '.join(SHELLS)}.", False)
    return run_app(_everything, "fabric", arguments)


def _everything() -> typer.Typer:
    root = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False, add_completion=True, name="fabric")
    for name, text in COMMANDS.items():
        app: typer.Typer = importlib.import_module(f"agent_fabric.interfaces.cli.{name}").app
        if name in GROUPS:
            root.add_typer(app, name=name, help=text)
        else:
            (command,) = app.registered_commands
            root.command(name, help=text)(command.callback)  # type: ignore[type-var]  # typer keeps it as optional
    return root
