"""Shell completion: the one thing that needs all commands at once."""

import importlib

import typer

from agent_fabric.interfaces.cli.main import COMMANDS, COMPLETED

GROUPS = frozenset({"logs", "config"})


def complete(arguments: list[str]) -> int:
    """Answer the shell, or install or print its completion script."""
    root = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False, add_completion=True, name="fabric")
    for name, text in COMMANDS.items():
        app: typer.Typer = importlib.import_module(f"agent_fabric.interfaces.cli.{name}").app
        if name in GROUPS:
            root.add_typer(app, name=name, help=text)
        else:
            (command,) = app.registered_commands
            root.command(name, help=text)(command.callback)  # type: ignore[type-var]  # typer keeps it as optional
    code = typer.main.get_command(root).main(arguments, prog_name="fabric", standalone_mode=False)
    return code if isinstance(code, int) else COMPLETED
