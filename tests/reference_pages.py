"""Writes the tables of the reference pages that follow from the code.

`python tests/reference_pages.py` updates the pages in `docs/reference`; a test compares them. A table stands between
`<!-- generated: NAME -->` and `<!-- end -->`; the rest of a page is written by hand.
"""

import asyncio
import importlib
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import typer
from starlette.routing import BaseRoute, WebSocketRoute

from agent_fabric.bootstrap.server import build_server
from agent_fabric.config.loader import read_config
from agent_fabric.domain.errors import FabricError, Interrupted
from agent_fabric.domain.fleet.protocol import SOCKET_PATH
from agent_fabric.domain.identity.principals import Scope
from agent_fabric.interfaces.cli.invocation import USAGE_ERRORS
from agent_fabric.interfaces.cli.main import COMMANDS, FAILED, INTERRUPTED, USAGE, module_of
from agent_fabric.interfaces.http.app import create_app
from agent_fabric.interfaces.http.errors import STATUSES
from agent_fabric.interfaces.http.gate import PAGE_SOCKET, SOCKETS
from agent_fabric.interfaces.http.routing import Route
from agent_fabric.interfaces.http.runs.live import LiveRuns
from architecture.test_rooms import rooms_table

PAGES: Final = Path(__file__).parents[1] / "docs/reference"
_PLACE: Final = "<!-- generated: {} -->\n"
_END: Final = "<!-- end -->"
_UNDESCRIBED: Final = {
    "/": "Show the page.",
    "/s/{session_id}": "Show the page, with a session.",
    "/r/{run_id}": "Show the page, with a run.",
    "/app/{digest}/{path:path}": "Get a file of the page.",
    "/docs": "Read the description of the API as a page.",
    "/redoc": "Read the description of the API as a page.",
    "/openapi.json": "Describe the API (OpenAPI).",
    "/mcp": "Use tasks, runs and approvals as tools over MCP.",
    "/a2a": "Answer a call of A2A. Packs need the scope `runs`, agents and workflows `workflows`, answers `approvals`.",
}
"""What routes do that the description of the API leaves out."""


class ServedRoute(NamedTuple):
    """A path of the server with some of its methods."""

    methods: str
    path: str
    scope: str
    summary: str


def routes(found: Sequence[BaseRoute]) -> Iterator[ServedRoute]:
    """Yield every route, those that the description of the API leaves out too. `HEAD` goes with its `GET`."""
    ours = [route for route in found if isinstance(route, Route)]
    sockets = [route for route in found if isinstance(route, WebSocketRoute)]
    assert len(ours) + len(sockets) == len(found), "a kind of route that says nothing about its scope"
    assert {route.path for route in sockets} == SOCKETS, "a socket whose lock is not known"
    yield ServedRoute("GET", SOCKET_PATH, "signed", "Open the socket of a node.")
    yield ServedRoute("GET", PAGE_SOCKET, str(Scope.RUNS_READ), "Open the socket of the page.")
    for route in ours:
        yield ServedRoute(", ".join(sorted(route.methods)), _spelled(route.path), str(route.access), _summary(route))


@cache
def table() -> Sequence[BaseRoute]:
    """Return all rows of a server with everything in it; they can be read, not called."""
    with tempfile.TemporaryDirectory() as folder:
        fabric = build_server(Path(folder) / ".fabric", read_config({}))
        try:
            return create_app(fabric, LiveRuns(), hosts=frozenset(), own_url="http://127.0.0.1:8787").routes
        finally:
            asyncio.run(fabric.aclose())


def served_routes() -> list[ServedRoute]:
    """Return the routes of a server with everything in it."""
    return sorted(set(routes(table())), key=lambda route: (route.path, route.methods))


def routes_table() -> str:
    """Return every route with its scope."""
    rows = [f"| `{each.methods}` | `{each.path}` | {each.scope} | {each.summary} |" for each in served_routes()]
    return "\n".join(["| method | path | scope | does |", "|---|---|---|---|", *rows])


class CliCommand(NamedTuple):
    """A command with its words and what it takes."""

    words: str
    summary: str
    parameters: tuple[str, ...]


def cli_commands() -> Iterator[CliCommand]:
    """Yield every command of the command line."""
    for name in COMMANDS:
        command: Any = typer.main.get_command(importlib.import_module(module_of(name)).app)
        parts: Mapping[str, Any] = getattr(command, "commands", None) or {"": command}
        for part, each in parts.items():
            words = f"fabric {name} {part}".strip()
            summary = str(each.help or "").split("\n\n")[0].replace("\b", "")
            yield CliCommand(words, " ".join(summary.split()), tuple(_parameters(each)))


def commands_table() -> str:
    """Return every command with its arguments and options."""
    rows = [
        f"| `{each.words}` | {' '.join(f'`{_cell(one)}`' for one in each.parameters)} | {_cell(each.summary)} |"
        for each in cli_commands()
    ]
    return "\n".join(["| command | arguments, options | does |", "|---|---|---|", *rows])


def error_classes() -> list[type[FabricError]]:
    """Return every class of errors, by code."""
    importlib.import_module("agent_fabric.client.errors")  # which defines some of them
    found: dict[str, type[FabricError]] = {}
    waiting: list[type[FabricError]] = [FabricError]
    while waiting:
        each = waiting.pop()
        waiting += each.__subclasses__()
        # Only what a module has under this name: tests make classes of their own, and some import modules anew.
        there = vars(sys.modules[each.__module__]).get(each.__name__) is each
        if there and each.__module__.startswith("agent_fabric.") and "code" in vars(each):
            found[each.code] = each
    return [found[code] for code in sorted(found)]


def errors_table() -> str:
    """Return every error code with its status and exit code."""
    rows = [
        f"| `{each.code}` | {STATUSES.get(each.code, 500)} | {_exit_code(each)} "
        f"| {_cell((each.__doc__ or '').splitlines()[0])} |"
        for each in error_classes()
    ]
    return "\n".join(["| code | HTTP status | exit code | means |", "|---|---|---|---|", *rows])


TABLES: Final = {
    ("http.md", "routes"): routes_table,
    ("cli.md", "commands"): commands_table,
    ("outcomes.md", "errors"): errors_table,
    ("layout.md", "rooms"): rooms_table,
}


def with_table(page: str, name: str, table: str) -> str:
    """Return a page with one of its tables replaced."""
    before, place, rest = page.partition(_PLACE.format(name))
    assert place, f"there is no place for {name}"
    return f"{before}{place}{table}\n{_END}{rest.partition(_END)[2]}"


def _exit_code(error: type[FabricError]) -> int:
    if issubclass(error, Interrupted):
        return INTERRUPTED
    return USAGE if issubclass(error, USAGE_ERRORS) else FAILED


def _parameters(command: Any) -> Iterator[str]:
    for each in command.params:
        if each.param_type_name == "argument":
            name = str(each.metavar or each.name.upper())
            yield name if each.required or name.startswith("[") else f"[{name}]"
        elif not each.hidden and each.name != "help":
            yield "/".join((*each.opts, *each.secondary_opts))


def _summary(route: Route) -> str:
    text = _UNDESCRIBED.get(route.path) or route.summary
    assert text, f"{route.path} does not say what it does"
    return _cell(text if text.endswith(".") else f"{text}.")


def _spelled(path: str) -> str:
    return re.sub(r"\{(\w+)(?::path)?\}", lambda found: found[1].upper(), path)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def main() -> None:
    """Update every page."""
    for (name, table), render in TABLES.items():
        page = PAGES / name
        page.write_text(with_table(page.read_text(encoding="utf-8"), table, render()), encoding="utf-8")


if __name__ == "__main__":
    main()
