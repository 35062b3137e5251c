"""Runs one command and explains every way in which it can go wrong. No traceback reaches a person."""

import gc
import importlib
import inspect
import os
from collections.abc import Callable, Container, Sequence
from enum import Enum
from functools import wraps
from typing import Any, TypeVar, get_args, get_origin

import typer
from typer.exceptions import TyperException

from agent_fabric.config.problems import ConfigProblem
from agent_fabric.domain import errors
from agent_fabric.domain.errors import ConfigError, FabricError
from agent_fabric.interfaces.cli.main import COMPLETED, FAILED, INTERRUPTED, USAGE, module_of
from agent_fabric.interfaces.cli.output import print_error
from agent_fabric.interfaces.cli.place import PLACE_OPTIONS, Place

F = TypeVar("F", bound=Callable[..., Any])

USAGE_ERRORS = (
    ConfigError,
    errors.DefinitionNotFound,
    errors.DeadLetterNotFound,
    errors.DocumentUnreadable,
    errors.EvalNotFound,
    errors.FactRefused,
    errors.InvalidDefinition,
    errors.InvalidInputs,
    errors.MemoryNotFound,
    errors.NodeNotFound,
    errors.RecruitError,
    errors.RunNotFound,
    errors.ScheduleNotFound,
    errors.SecretNotFound,
    errors.SessionNotFound,
)


DEFAULT_SUBCOMMANDS = ("list", "status", "show")
"""What a group does without a subcommand: the first of these that it has. All of them only read."""


_HELP_NAMES = ["--help", "-h"]


class App(typer.Typer):
    """A command, or a group of them. A parameter `at` of the type `Place` stands for the options of a place."""

    def command(self, name: str | None = None, **settings: Any) -> Callable[[F], F]:
        """Register a function as a command."""
        context = settings.pop("context_settings", {})
        # What a machine is told may have a `-h` of its own: `fabric nodes exec db1 df -h`.
        helps = _HELP_NAMES[:1] if context.get("ignore_unknown_options") else _HELP_NAMES
        register = super().command(name, context_settings={"help_option_names": helps, **context}, **settings)

        def add(function: F) -> F:
            register(_with_place_options(function))
            return function

        return add


def _with_place_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a command with the options of a place instead of the parameter `at`."""
    given = inspect.signature(function).parameters
    if "at" not in given:
        return function
    names = getattr(given["at"].annotation, "__metadata__", tuple(PLACE_OPTIONS))
    keyword = inspect.Parameter.KEYWORD_ONLY
    own = [each.replace(kind=keyword) for each in given.values() if each.name != "at"]
    options = [(name, *PLACE_OPTIONS[name]) for name in names]
    added = [inspect.Parameter(name, keyword, annotation=kind, default=default) for name, kind, default in options]

    @wraps(function)
    def call(**values: Any) -> Any:
        at = Place(**{name: values.pop(name) for name in names})
        return function(**values, at=at)

    call.__signature__ = inspect.Signature([*own, *added])  # type: ignore[attr-defined] # what typer reads
    call.__annotations__ = {}
    return call


def new_app(help_text: str) -> App:
    """Return an empty command in our plain style."""
    return App(
        help=help_text,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        add_completion=False,
        no_args_is_help=True,
        context_settings={"help_option_names": _HELP_NAMES},
    )


def invoke(name: str, arguments: Sequence[str], server: str | None = None) -> int:
    """Run a command by name, on the runs of a server if one was named before it; return its exit code."""

    def load() -> typer.Typer:
        # Our settings need no plugins; looking for some would mean reading about every installed package.
        os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
        app: typer.Typer = importlib.import_module(module_of(name)).app
        gc.freeze()  # what is imported stays: looking for garbage in it only takes time
        gc.enable()
        return app

    return run_app(load, f"fabric {name}", arguments, server)


def run_app(load: Callable[[], typer.Typer], program: str, arguments: Sequence[str], server: str | None = None) -> int:
    """Load a command, run it, explain whatever goes wrong, and return the exit code."""
    as_json = "--json" in arguments
    try:
        command = typer.main.get_command(load())
        spare_conversions(command)
        arguments = with_subcommand(getattr(command, "commands", {}), arguments)
        defaults = _with_server(command, program, arguments, server)
        code = command.main(list(arguments), prog_name=program, standalone_mode=False, default_map=defaults)
        return code if isinstance(code, int) else COMPLETED
    except ConfigProblem as problem:
        print_error(ConfigError(problem.message, hint=problem.hint), as_json=as_json)
        return USAGE
    except FabricError as problem:
        print_error(problem, as_json=as_json)
        return USAGE if isinstance(problem, USAGE_ERRORS) else FAILED
    except (typer.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except typer.Exit as done:
        return done.exit_code
    except TyperException as problem:
        where = getattr(problem, "ctx", None)  # of the subcommand, if there is one
        return report_misuse(_message(problem), f"See `{where.command_path if where else program} --help`.", as_json)
    except BrokenPipeError:
        raise
    except SystemExit:
        return COMPLETED  # typer's own way with a reader who has seen enough
    except Exception as problem:  # noqa: BLE001 - the last line of defence: a person gets a sentence, the trace a file
        print_error(_crash(problem), as_json=as_json)
        return FAILED


def with_subcommand(subcommands: Container[str], arguments: Sequence[str]) -> Sequence[str]:
    """Return the arguments of a group with its default subcommand in front if they name none."""
    names_one = bool(arguments) and not arguments[0].startswith("-")
    default = next((name for name in DEFAULT_SUBCOMMANDS if name in subcommands), None)
    helps = any(each in arguments for each in _HELP_NAMES)
    return arguments if names_one or default is None or helps else [default, *arguments]


def _with_server(command: Any, program: str, arguments: Sequence[str], server: str | None) -> dict[str, Any]:
    """Return the defaults that let a command work on a server which was named before it."""
    named = server is not None or any(each == "--server" or each.startswith("--server=") for each in arguments)
    if not named or "--help" in arguments:
        return {}
    parts = getattr(command, "commands", None)
    chosen = next((each for each in arguments if parts is not None and each in parts), None)
    target = command if chosen is None or parts is None else parts[chosen]
    if all(parameter.name != "server" for parameter in target.params):
        words = program if chosen is None else f"{program} {chosen}"
        raise ConfigError(f"`{words}` works on this machine only", hint="Leave out --server.")
    if server is None:
        return {}
    return {"server": server} if chosen is None else {chosen: {"server": server}}


def report_misuse(message: str, hint: str, as_json: bool) -> int:
    """Say what is wrong with the command line; return the exit code."""
    print_error(ConfigError(message, hint=hint), as_json=as_json)
    return USAGE


_KINDS = {"int": "a whole number", "float": "a number", "bool": "true or false", "datetime": "a time", "date": "a date"}
_BOUNDS = {"greater_than_equal": ("at least", "ge"), "less_than_equal": ("at most", "le")}


def _not_of_its_kind(cause: BaseException | None) -> str:
    """Say what is wrong with a value that is not of the kind that is wanted, in our words instead of the library's."""
    list_errors = getattr(cause, "errors", None)
    first: dict[str, Any] = next(iter(list_errors()), {}) if list_errors is not None else {}
    found = str(first.get("type", ""))
    if found in _BOUNDS:
        words, name = _BOUNDS[found]
        return f"{first['input']} is not {words} {first['ctx'][name]}"
    kind = _KINDS.get(found.partition("_")[0])
    return "" if kind is None else f"{first['input']!r} is not {kind}"


def _message(problem: TyperException) -> str:
    format_message = getattr(problem, "format_message", None)
    text = format_message() if format_message is not None else str(problem)
    if said := _not_of_its_kind(problem.__cause__):
        return f"{text.partition(': ')[0]}: {said}"
    return text.replace(": Value error, ", ": ", 1) or "something is missing"


def _crash(problem: Exception) -> FabricError:
    import tempfile  # noqa: PLC0415 - hardly ever needed
    import traceback  # noqa: PLC0415 - as above

    try:
        descriptor, path = tempfile.mkstemp(prefix="fabric-crash-", suffix=".txt", text=True)
        with os.fdopen(descriptor, "w") as file:
            file.writelines(traceback.format_exception(problem))
        where = f"The details are in {path}; please report them."
    except OSError:
        where = "Its details could not be saved."
    return FabricError(f"agent-fabric itself failed: {type(problem).__name__}: {problem}", hint=where)


_UNCHANGED = (str, int, float, bool)


class _Unconverted:
    """Takes the place of typer's converter until there is something to convert."""

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        takes_several = param.multiple or param.nargs == -1
        if value is None:
            return () if takes_several else None
        if takes_several and isinstance(value, tuple) and all(_needs_nothing(each, param) for each in value):
            return list(value)
        if not takes_several and _needs_nothing(value, param):
            return value
        param._runtime_param = None  # noqa: SLF001 - where typer keeps it; so it makes its own
        return param.get_runtime_param().coerce(value, param=param, ctx=ctx)


def spare_conversions(command: Any) -> None:
    """Let a command and its subcommands convert only what needs it."""
    for param in (*command.params, command.get_help_option(typer.Context(command, **command.context_settings))):
        if getattr(param, "_runtime_param", param) is None:
            param._runtime_param = _Unconverted()  # noqa: SLF001 - typer has no other place for it
    for each in getattr(command, "commands", {}).values():
        spare_conversions(each)


def _needs_nothing(value: Any, param: Any) -> bool:
    wanted = param.type_descriptor
    kind = get_args(wanted.annotation)[0] if get_origin(wanted.annotation) is list else wanted.annotation
    if type(value) is not kind or not (kind in _UNCHANGED or issubclass(kind, Enum)):
        return False
    if wanted.is_path or wanted.parameter_info.parser is not None:
        return False
    # Pydantic refuses text that is no valid Unicode. A number is one only as a default; typed, it is still text.
    return value.isascii() if isinstance(value, str) else True
