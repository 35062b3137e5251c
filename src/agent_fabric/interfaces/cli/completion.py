"""Shell completion of subcommands and options, and its installation. Only the command that is typed is imported."""

import importlib
import os
import sys

import typer
from typer.completion import get_completion_script, install  # type: ignore[attr-defined]  # there, but not listed

from agent_fabric.interfaces.cli.completion_values import typed_words
from agent_fabric.interfaces.cli.invocation import misused, run_app
from agent_fabric.interfaces.cli.main import COMMANDS, COMPLETED

_VARIABLE = "_FABRIC_COMPLETE"
SHELLS = ("bash", "zsh", "fish", "powershell", "pwsh")


def complete(arguments: list[str]) -> int:
    """Answer the shell, or install or print its completion script; the shell may be named."""
    if _VARIABLE in os.environ:
        # Without what was typed so far there is nothing to complete.
        typed = "COMP_WORDS" in os.environ or "_TYPER_COMPLETE_ARGS" in os.environ
        return run_app(lambda: _commands(_typed_command()), "fabric", arguments) if typed else COMPLETED
    wish, *named = arguments
    if not named or named[0].startswith("-"):
        return run_app(_commands, "fabric", arguments)  # typer finds out which shell this is
    shell = named[0]
    if shell not in SHELLS:
        return misused(f"{shell!r} is not a shell that can be completed", f"Choose: {', '.join(SHELLS)}.", False)
    if wish == "--show-completion":
        sys.stdout.write(get_completion_script(prog_name="fabric", complete_var=_VARIABLE, shell=shell) + "\n")
    else:
        _, path = install(shell=shell, prog_name="fabric", complete_var=_VARIABLE)
        sys.stdout.write(f"Completion for {shell} is installed in {path}; it works in new terminals.\n")
    return COMPLETED


def _typed_command() -> str:
    words, _ = typed_words(os.environ[_VARIABLE].removeprefix("complete_"), os.environ)
    return next((word for word in words if word in COMMANDS), "")


def _commands(chosen: str = "") -> typer.Typer:
    """Return every command by name and purpose, and the chosen one with its subcommands and options."""
    root = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False, add_completion=True, name="fabric")
    for name, text in COMMANDS.items():
        if name != chosen:
            root.command(name, help=text)(_not_imported)
            continue
        app: typer.Typer = importlib.import_module(f"agent_fabric.interfaces.cli.{name}").app
        first, *others = app.registered_commands
        if others:
            root.add_typer(app, name=name, help=text)
        else:
            root.command(name, help=text)(first.callback)  # type: ignore[type-var]  # typer keeps it as optional
    return root


def _not_imported() -> None:
    """Stands for a command of which only name and purpose are needed."""
