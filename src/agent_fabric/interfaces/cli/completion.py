"""Shell completion of what `completion_values` does not answer, such as the choices of an option, and its installation.

Only the command that is typed is imported.
"""

import importlib
import os
import sys
from collections.abc import Iterator
from typing import Any

import typer
from typer.completion import _get_shell_name, get_completion_script, install  # type: ignore[attr-defined]  # there, but not listed

from agent_fabric.interfaces.cli.completion_table import REPEATABLE, TAKES_VALUE
from agent_fabric.interfaces.cli.completion_values import NO_FILES, plain_text, typed_words
from agent_fabric.interfaces.cli.invocation import report_misuse, run_app
from agent_fabric.interfaces.cli.main import COMMANDS, COMPLETED, module_of

_VARIABLE = "_FABRIC_COMPLETE"
SHELLS = ("bash", "zsh", "fish", "powershell", "pwsh")
_BASH = f"""
_fabric_completion() {{
    local IFS=$'\\n'
    COMPREPLY=( $( env COMP_WORDS="${{COMP_WORDS[*]}}" COMP_CWORD=$COMP_CWORD {_VARIABLE}=complete_bash $1 ) )
    # Where a value belongs that is not known here, such as the id of a server's run, no file name fits.
    if [ $? -eq {NO_FILES} ]; then compopt +o default 2>/dev/null; fi
    return 0
}}

complete -o default -F _fabric_completion fabric
"""


def complete(arguments: list[str]) -> int:
    """Answer the shell, or install or print its completion script; the shell may be named."""
    if _VARIABLE in os.environ:
        # Without what was typed so far there is nothing to complete.
        typed = "COMP_WORDS" in os.environ or "_TYPER_COMPLETE_ARGS" in os.environ
        return run_app(lambda: _commands(_typed_command()), "fabric", arguments) if typed else COMPLETED
    wish, *named = arguments
    if named and named[0].startswith("-"):
        return run_app(_commands, "fabric", arguments)
    shell = named[0] if named else _get_shell_name()
    if not shell:
        return report_misuse("Which shell this is cannot be told", f"Name it: {', '.join(SHELLS)}.", False)
    if shell not in SHELLS:
        return report_misuse(f"{shell!r} is not a shell that can be completed", f"Choose: {', '.join(SHELLS)}.", False)
    if wish == "--show-completion":
        script = get_completion_script(prog_name="fabric", complete_var=_VARIABLE, shell=shell) + "\n"
        sys.stdout.write(_BASH if shell == "bash" else script)
    else:
        _, path = install(shell=shell, prog_name="fabric", complete_var=_VARIABLE)
        if shell == "bash":
            path.write_text(_BASH)
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
        app: typer.Typer = importlib.import_module(module_of(name)).app
        first, *others = app.registered_commands
        if others:
            root.add_typer(app, name=name, help=text)
        else:
            root.command(name, help=text)(first.callback)  # type: ignore[type-var]  # typer keeps it as optional
    return root


def table_of_commands() -> str:
    """Return the subcommands and options of every command, as `completion_table` reads them."""
    lines: list[str] = []
    for name in COMMANDS:
        root: Any = typer.main.get_command(_commands(name))
        lines += _lines(name, root.commands[name])
    return "".join(f"{line}\n" for line in lines)


def _lines(path: str, command: Any) -> Iterator[str]:
    yield path
    below = [each for each in getattr(command, "commands", {}).values() if not each.hidden]
    for each in below:
        yield f" {each.name}\t\t{plain_text(each.get_short_help_str())}"
    for each in command.get_params(command.make_context(path, [], resilient_parsing=True)):
        if each.param_type_name == "option" and not each.hidden:
            marks = ("" if each.is_flag or each.count else TAKES_VALUE) + (REPEATABLE if each.multiple else "")
            names = sorted(each.opts) if each.name == "help" else each.opts  # a set, in the library
            yield f" {' '.join((*names, *each.secondary_opts))}\t{marks}\t{plain_text(each.help or '')}"
    for each in below:
        yield from _lines(f"{path} {each.name}", each)


def _not_imported() -> None:
    """Stands for a command of which only name and purpose are needed."""
