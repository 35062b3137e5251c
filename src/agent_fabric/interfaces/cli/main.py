"""`fabric`: finds the command, runs it, and turns its outcome into an exit code.

Only the command that was asked for is imported, so that `fabric --help` costs next to nothing.
"""

import gc
import importlib
import io
import os
import sys
from collections.abc import Sequence
from typing import TextIO

from agent_fabric import __version__

COMPLETED, FAILED, USAGE, WAITING, REFUSED, NOT_PROVEN, SERIOUS, INTERRUPTED = 0, 1, 2, 3, 4, 5, 6, 130

COMMANDS = {
    "run": "Run a task.",
    "chat": "Talk with an agent.",
    "acp": "Be the agent of an editor: Zed, JetBrains, Neovim, Emacs (Agent Client Protocol).",
    "init": "Write AGENTS.md for the project in this folder.",
    "sessions": "Manage conversations: list, show, search, rename, fork, export, delete.",
    "memory": "Look after documents and facts: add, list, show, search, review, edit, forget, why, export, import.",
    "agents": "List, check and run agents: list, show, validate, run.",
    "workflow": "List, check and run workflows: list, validate, show, graph, run, resume, cancel, signal, lineage.",
    "eval": "Evaluate models and packs on your own tasks: run, resume, list, show, add, cancel.",
    "schedules": "Start things at set times: add, list, show, set, pause, resume, fire, backfill, why, simulate, ….",
    "sensors": "See what notices files and events: list, look, why.",
    "webhooks": "Send messages to other systems: list, add, test, rotate, remove.",
    "channels": "Talk with people on Telegram, Slack, Discord and WhatsApp: list, pair, people, test, deliveries, ….",
    "dead": "Look after what could not be carried out: list, show, replay, drop.",
    "resume": "Resume a run.",
    "cancel": "Cancel a run.",
    "approvals": "Answer approval requests: list, show, approve, deny, done.",
    "diff": "Show what a run changed.",
    "compare": "Compare two runs: where they part, and what each left.",
    "review": "Review a change.",
    "undo": "Revert what a run changed.",
    "files": "List and download the files of a run.",
    "web": "Open the page in the browser.",
    "serve": "Serve runs over HTTP.",
    "worker": "Drive runs that servers have taken on.",
    "cluster": "Look after servers and workers that share a store: status, drain.",
    "nodes": "Operate machines: list, exec, queue, label, policy, invite, revoke, resolve, audit.",
    "fleet": "Roll out commands to many machines: plan, list, show, apply, halt, resume, abort.",
    "node": "Make this machine a node: join, run, install, status, leave.",
    "login": "Log in to a server.",
    "logout": "Log out of a server.",
    "whoami": "Show who you are.",
    "users": "Manage the users of the server: list, add, set, password, remove.",
    "keys": "Manage API keys: list, create, revoke.",
    "token": "Manage tokens: show, rotate, issue.",
    "audit": "Show the audit log and verify its integrity: list, verify.",
    "gc": "Delete old runs.",
    "db": "Manage the store: status, backup, restore, PostgreSQL.",
    "verify": "Verify the claims of a run.",
    "doctor": "Diagnose the installation.",
    "logs": "Inspect runs: list, show, search, export.",
    "models": "List and choose models: list, pull, use, probe, rm, stop.",
    "secrets": "Manage secrets and the keys that seal them: set, list, remove, rotate.",
    "skills": "Manage skills: list, show, validate, add, trust, remove.",
    "mcp": "Manage MCP servers, and serve MCP: list, inspect, trust, serve.",
    "policy": "Explain the policy: check, show, simulate.",
    "config": "Show the configuration and where it comes from.",
    "schema": "Print the JSON Schema of definition files.",
}
_ROOMS = {
    "runs": "run resume cancel diff compare review undo files gc verify logs",
    "chat": "acp chat sessions",
    "memory": "memory",
    "agents": "agents init",
    "workflows": "workflow",
    "evals": "eval",
    "automation": "schedules sensors webhooks dead",
    "channels": "channels",
    "approvals": "approvals",
    "server": "web serve",
    "cluster": "worker cluster",
    "fleet": "nodes fleet",
    "node": "node",
    "identity": "login logout whoami users keys token",
    "audit": "audit",
    "store": "db",
    "models": "models",
    "secrets": "secrets",
    "tools": "mcp skills",
    "policy": "policy",
}
ROOMS = {command: room for room, commands in _ROOMS.items() for command in commands.split()}
"""The rooms in which the modules of commands lie; a command without one lies beside this module.

Each command is the module of its name; its `app` is the command.
"""

_HELP = """\
Usage: fabric [--server URL] COMMAND [OPTIONS]

Durable, local-first AI agents: every task is a run that survives anything.

Commands:
{commands}

Options:
  --server URL                  Work on the runs of a server; FABRIC_URL does so for every command. `auto` is the
                                server that runs for this folder, if any.
  --version                     Show the version.
  --help                        Show this text; `fabric COMMAND --help` shows more.
  --install-completion [SHELL]  Install completion for a shell; by default for this one.
  --show-completion [SHELL]     Print the completion script.

Exit codes: 0 completed, 1 failed, 2 wrong usage or configuration, 3 waiting for input, 4 refused,
5 not proven though proof was required, 6 something serious was found, 130 interrupted.
Start here: fabric run "Write hello.py that prints the first ten primes, and run it."
"""


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line and exit."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    _repair_streams()
    try:
        code = _dispatch(arguments)
        sys.stdout.flush()
    except KeyboardInterrupt:
        code = INTERRUPTED
    except BrokenPipeError:
        # The reader has closed the pipe: `fabric logs show … | head`.
        code = COMPLETED
        _silence(sys.stdout)
    except OSError as problem:
        sys.stderr.write(f"error: the output cannot be written: {problem.strerror or problem}\n")
        code = FAILED
        _silence(sys.stdout)
    try:
        sys.stderr.flush()
    except OSError:
        _silence(sys.stderr)
    sys.exit(code)


def _repair_streams() -> None:
    """Make sure that there is something to write to, and that no character can fail."""
    # Python leaves None where a stream was closed before it started.
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: PTH123, SIM115 - for the rest of the process
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: PTH123, SIM115 - for the rest of the process
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _silence(stream: TextIO) -> None:
    """Discard what a stream still buffers, so that the interpreter does not flush it again at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _dispatch(arguments: list[str]) -> int:
    server, arguments = _server(arguments)
    name = arguments[0] if arguments else "--help"
    if "_FABRIC_COMPLETE" in os.environ and (code := _call("completion_values", "complete_value", os.environ)) >= 0:
        return code
    if "_FABRIC_COMPLETE" in os.environ or name in ("--install-completion", "--show-completion"):
        return _call("completion", "complete", arguments)
    if name == "help" and len(arguments) > 1:
        name, *arguments = [*arguments[1:], "--help"]
        arguments = [name, *arguments]
    if name in ("--help", "-h", "help"):
        sys.stdout.write(_HELP.format(commands="\n".join(f"  {key:<10} {text}" for key, text in COMMANDS.items())))
        return COMPLETED
    if name in ("--version", "version"):
        sys.stdout.write(f"agent-fabric {__version__}\n")
        return COMPLETED
    if name not in COMMANDS:
        return _unknown(arguments, as_json="--json" in arguments)
    try:
        os.getcwd()  # noqa: PTH109 - pathlib is not imported yet
    except OSError:
        return _homeless(as_json="--json" in arguments)
    gc.disable()  # until the command is imported
    return _call("invocation", "invoke", name, arguments[1:], server)


def _server(arguments: list[str]) -> tuple[str | None, list[str]]:
    """Take `--server URL` away where it stands before the command; the command is told."""
    if arguments[:1] == ["--server"]:
        return (arguments[1] if len(arguments) > 1 else ""), arguments[2:]
    if arguments and arguments[0].startswith("--server="):
        return arguments[0].removeprefix("--server="), arguments[1:]
    return None, arguments


def _homeless(*, as_json: bool) -> int:
    """Say that the current folder no longer exists. Some versions of Python cannot even import modules there."""
    message, hint = "the current folder no longer exists", "Change to one that exists."
    if as_json:
        error = f'{{"code": "config_invalid", "message": "{message}", "hint": "{hint}"}}'
        sys.stdout.write(f'{{"error": {error}, "_meta": {{"run_id": null, "status": null}}}}\n')
    else:
        sys.stderr.write(f"error: {message}\n  hint: {hint}\n")
    return USAGE


def _unknown(arguments: Sequence[str], *, as_json: bool) -> int:
    from difflib import get_close_matches  # noqa: PLC0415 - only after a typing mistake

    name = arguments[0]
    near = get_close_matches(name, COMMANDS, n=1)
    hint = f"Did you mean `fabric {near[0]}`?" if near else "See `fabric --help`."
    task = " ".join(each for each in arguments if not each.startswith("-"))
    if " " in name or (not near and " " in task):
        name, hint = task, f"A task is run by `fabric run`: fabric run {_quote(task)}"
    return _call("invocation", "report_misuse", f"there is no command {name!r}", hint, as_json)


def _quote(text: str) -> str:
    from shlex import quote  # noqa: PLC0415 - only after a typing mistake

    return f'"{text}"' if not set(text) & set('"$`\\!') else quote(text)


def module_of(command: str) -> str:
    """Return the module of a command."""
    room = f"{ROOMS[command]}." if command in ROOMS else ""
    return f"agent_fabric.interfaces.cli.{room}{command}"


def _call(module: str, function: str, *arguments: object) -> int:
    """Call a function of a module beside this one, imported only now."""
    code: int = getattr(importlib.import_module(f"agent_fabric.interfaces.cli.{module}"), function)(*arguments)
    return code


if __name__ == "__main__":
    main()
