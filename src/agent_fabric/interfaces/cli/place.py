"""Where a command works: in a folder on this machine, or at a server.

A command has one parameter `at` of the type `Place`, which stands for --workspace, --server and --json. A `Noun` opens
what the command is about: the use cases of the folder, or a part of the server's client, with the same methods. The
command calls them without knowing which of the two it has; the type checker holds each call against both.
"""

import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Generic, NamedTuple, TypeAlias, TypeVar

import typer

from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import ConfigError, RunNotFound
from agent_fabric.domain.ids import RunId
from agent_fabric.interfaces.cli.options import AsJson, Workspace, existing_root, fabric_root
from agent_fabric.interfaces.cli.output import print_json, print_json_line

if TYPE_CHECKING:
    from agent_fabric.application.ports.approvals import ApprovalCard
    from agent_fabric.bootstrap.records import Records
    from agent_fabric.client import FabricClient
    from agent_fabric.interfaces.cli.place_local import LocalRuns
    from agent_fabric.interfaces.cli.place_remote import ServerRuns

T = TypeVar("T")
HereT = TypeVar("HereT")
ThereT = TypeVar("ThereT")
FABRIC_URL = "FABRIC_URL"
AUTO = "auto"
"""In place of an address: the server that runs for this folder, if one does."""

Server = Annotated[
    str | None,
    typer.Option(
        "--server",
        metavar="URL",
        help=f"Work on the runs of this server; `{AUTO}` is the one that runs for this folder, if any. "
        f"By default {FABRIC_URL}, else `cli.server`, else this folder.",
    ),
]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a command works and how it answers: the options --workspace, --server and --json."""

    workspace: str | None = None
    server: str | None = None
    as_json: bool = False
    streams: bool = False
    """Results are lines of JSON, as the events before them; only where a command has --output."""

    def url(self, *, local_only: bool = False) -> str | None:
        """Return the address of the server to work on; None: this process does the work."""
        return server_of(self.workspace, self.server, local_only=local_only)

    def root(self) -> Path:
        """Return the fabric folder."""
        return fabric_root(self.workspace)

    def existing_root(self) -> Path:
        """Return the fabric folder, which must have runs."""
        return existing_root(self.workspace)

    def print(self, value: object, text: str, *, note: str = "") -> int:
        """Print a result, as JSON if that was asked for, else its text; return the exit code of success.

        The note is for a person at the terminal and goes to standard error.
        """
        if self.streams:
            return print_json_line({"kind": "result", "payload": value})
        if self.as_json:
            return print_json(value)
        sys.stdout.write(text)
        sys.stdout.flush()
        sys.stderr.write(note)
        return 0


PLACE_OPTIONS = {"workspace": (Workspace, None), "server": (Server, None), "as_json": (AsJson, False)}
"""The options that a parameter of the type `Place` stands for, with their defaults."""
PlainPlace = Annotated[Place, "workspace", "server"]
"""A place without --json."""
Folder = Annotated[Place, "workspace", "as_json"]
"""A place on this machine."""
Hub = Annotated[Place, "server", "as_json"]
"""A server that machines are connected to."""
PlainHub = Annotated[Place, "server"]
"""A hub without --json."""


@dataclass(frozen=True, slots=True)
class Noun(Generic[HereT, ThereT]):
    """Something that commands work on: in a folder of this machine, and at a server."""

    here: Callable[[Place], AbstractAsyncContextManager[HereT]]
    """Opens it in a folder."""
    there: "Callable[[FabricClient], ThereT]"
    """The part of the client with the same methods."""

    def __call__(self, at: Place, work: Callable[[HereT | ThereT], Awaitable[T]], *, without: T | None = None) -> T:
        """Do some work where the command is told to; `without` is the answer of a folder that has no runs.

        Raises:
            RunNotFound: the folder has no runs but needs some, and there is no answer for that.
        """
        if (url := at.url()) is not None:
            return with_client(url, lambda client: work(self.there(client)))
        try:
            opened = self.here(at)
        except RunNotFound:
            if without is None:
                raise
            return without
        return work_within(opened, work)


def here(kind: Callable[[Place], HereT]) -> Callable[[Place], AbstractAsyncContextManager[HereT]]:
    """Return the opener of something in a folder that needs no closing."""

    @asynccontextmanager
    async def open_here(at: Place) -> AsyncIterator[HereT]:
        yield kind(at)

    return open_here


def in_store(kind: "Callable[[Records], HereT]") -> Callable[[Place], AbstractAsyncContextManager[HereT]]:
    """Return the opener of something in the store of a folder, which is made if there is none."""

    @asynccontextmanager
    async def open_here(at: Place) -> AsyncIterator[HereT]:
        from agent_fabric.bootstrap.records import open_records  # noqa: PLC0415 - as below

        with open_records(at.root()) as records:
            yield kind(records)

    return open_here


def work_within(opened: AbstractAsyncContextManager[HereT], work: Callable[[HereT], Awaitable[T]]) -> T:
    """Open something, do some work with it, and close it."""
    import asyncio  # noqa: PLC0415 - what asks neither store nor server needs none

    async def go() -> T:
        async with opened as found:
            return await work(found)

    return asyncio.run(go())


def _open_local_runs(at: Place) -> "AbstractAsyncContextManager[LocalRuns]":
    from agent_fabric.interfaces.cli.place_local import LocalRuns  # noqa: PLC0415 - those at servers do not need it

    at.existing_root()
    return in_store(LocalRuns)(at)


def _server_runs(client: "FabricClient") -> "ServerRuns":
    from agent_fabric.interfaces.cli.place_remote import ServerRuns  # noqa: PLC0415 - aiohttp takes its time

    return ServerRuns(client)


RUNS: "Noun[LocalRuns, ServerRuns]" = Noun(_open_local_runs, _server_runs)
"""The runs of a folder that has some, or of a server."""


class Answered(NamedTuple):
    """A question after it was answered."""

    card: "ApprovalCard"
    goes_on_with: RunId | None
    """The run to resume; None: a server continues it."""


RunAccess: TypeAlias = "LocalRuns | ServerRuns"
"""The runs of a folder, or of a server. A command may call what both have."""


class RunChoice(NamedTuple):
    """The run that a command is about."""

    prefix: str | None
    """The beginning of its id; None: the newest run of the caller."""

    async def find(self, place: "LocalRuns | ServerRuns") -> RunId:
        """Return the whole id.

        Raises:
            RunNotFound: there is no such run, or more than one.
        """
        return await (place.newest() if self.prefix is None else place.find(self.prefix))


def with_run(at: Place, chosen: RunChoice, work: "Callable[[LocalRuns | ServerRuns, RunId], Awaitable[T]]") -> T:
    """Do some work with one run, where the command is told to."""

    async def go(runs: "LocalRuns | ServerRuns") -> T:
        return await work(runs, await chosen.find(runs))

    return RUNS(at, go)


def choose_run(run_id: str | None, *, last: bool) -> RunChoice:
    """Return the run that a command was told: by its id, or with --last."""
    if (run_id is None) is not last:
        raise ConfigError("Say which run: its id, or --last", hint="See all runs with `fabric logs list`.")
    return RunChoice(run_id)


def choose_run_and(run_id: str | None, *others: str | None, last: bool) -> tuple[RunChoice, list[str]]:
    """Return the run, and the words behind it. With --last no word names a run, so the first is one of the others."""
    words = [word for word in (run_id, *others) if word is not None]
    return (RunChoice(None), words) if last else (choose_run(run_id, last=False), words[1:])


def server_of(
    workspace: str | None,
    server: str | None,
    environment: Mapping[str, str] = os.environ,
    *,
    local_only: bool = False,
) -> str | None:
    """Return the address of the server to work on; None: this process does the work.

    A named folder counts more than the environment. `auto` finds the server that runs for this folder; what is
    `local_only`, and so cannot be done by a server, is then done in this process.

    Raises:
        ConfigError: a server and a folder are named.
    """
    if server is not None and workspace is not None:
        raise ConfigError("--server and --workspace cannot be combined", hint="A server has a folder of its own.")
    if workspace is not None:
        return None
    if server == "":
        raise ConfigError("--server needs an address", hint="For example: --server http://127.0.0.1:8787")
    chosen = server or environment.get(FABRIC_URL)
    if chosen and chosen != AUTO:
        return chosen
    if local_only:
        return None
    from agent_fabric.interfaces.cli.server.nearby_server import find_server  # noqa: PLC0415 - a named server needs none

    return find_server(wanted=chosen == AUTO)


def with_client(url: str, work: "Callable[[FabricClient], Awaitable[T]]", *, token: str | None = None) -> T:
    """Ask a server for something that is not about runs; by default as who we are there."""
    import asyncio  # noqa: PLC0415 - as above

    from agent_fabric.bootstrap.this_machine import acting_run  # noqa: PLC0415 - as above
    from agent_fabric.client import FabricClient  # noqa: PLC0415 - aiohttp takes its time

    async def go() -> T:
        async with FabricClient(url, token=token, run=acting_run()) as client:
            return await work(client)

    return asyncio.run(go())


def refuse_if(asked: bool, message: str, *, hint: str) -> None:
    """Refuse what does not go together."""
    if asked:
        raise ConfigError(message, hint=hint)
