"""Runs one command and explains every way in which it can go wrong. No traceback reaches a person."""

import importlib
import os
import sys
import tempfile
import traceback
from collections.abc import Sequence
from pathlib import Path

import click
import typer

from agent_fabric.config.problems import ConfigProblem
from agent_fabric.domain.errors import ConfigError, FabricError, RecruitError, RunNotFound
from agent_fabric.interfaces.cli.main import COMPLETED, FAILED, INTERRUPTED, USAGE
from agent_fabric.interfaces.cli.output import print_error

_USAGE_ERRORS = (ConfigError, RecruitError, RunNotFound)


def new_app(help_text: str) -> typer.Typer:
    """Return an empty command in our plain style."""
    return typer.Typer(
        help=help_text,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        add_completion=False,
        no_args_is_help=True,
    )


def invoke(name: str, arguments: Sequence[str]) -> int:
    """Run a command by name; return its exit code."""
    as_json = "--json" in arguments
    try:
        app: typer.Typer = importlib.import_module(f"agent_fabric.interfaces.cli.{name}").app
        command = typer.main.get_command(app)
        code = command.main(list(arguments), prog_name=f"fabric {name}", standalone_mode=False)
        return code if isinstance(code, int) else COMPLETED
    except ConfigProblem as problem:
        print_error(ConfigError(problem.message, hint=problem.hint), as_json=as_json)
        return USAGE
    except FabricError as problem:
        print_error(problem, as_json=as_json)
        return USAGE if isinstance(problem, _USAGE_ERRORS) else FAILED
    except (click.exceptions.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except click.exceptions.Exit as done:
        return done.exit_code
    except click.ClickException as problem:
        hint = f"See `fabric {name} --help`."
        print_error(ConfigError(problem.format_message(), hint=hint), as_json=as_json)
        return USAGE
    except BrokenPipeError:
        raise
    except Exception as problem:  # noqa: BLE001 - the last line of defence: a person gets a sentence, the trace a file
        print_error(_crash(problem), as_json=as_json)
        return FAILED


def _crash(problem: Exception) -> FabricError:
    path = Path(tempfile.gettempdir()) / f"fabric-crash-{os.getpid()}.txt"
    try:
        path.write_text("".join(traceback.format_exception(problem)))
        where = f"The details are in {path}; please report them."
    except OSError:
        where = "Its details could not be saved."
    return FabricError(f"agent-fabric itself failed: {type(problem).__name__}: {problem}", hint=where)


def flush_and_leave(code: int) -> None:
    """End the process at once, even when a tool's thread still hangs."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
