"""What a command works on: the runs of a folder on this machine, or those of a server. It need not know which.

A command takes the options `Workspace` and `Server`, hands both to `at_place`, and gets a `RunAccess`. What differs
between the two stands in `place_local` and `place_remote`, and nowhere else.
"""

import asyncio
import os
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, Protocol, TypeVar

import typer

from agent_fabric.application.ports.approvals import Answer, ApprovalCard
from agent_fabric.application.ports.runs import RunRecord
from agent_fabric.domain.errors import ConfigError, RunNotFound
from agent_fabric.domain.events import Event
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.task import RunResult

if TYPE_CHECKING:  # few commands need these
    from agent_fabric.application.ports.embeddings import FoundRun
    from agent_fabric.application.runs.diff_run import RunDiff
    from agent_fabric.application.runs.search_runs import OnProgress
    from agent_fabric.application.runs.undo_run import Undone
    from agent_fabric.application.runs.verify_run import Verification
    from agent_fabric.client import FabricClient
    from agent_fabric.domain.changes import FileChange
    from agent_fabric.domain.runs.files import RunFileList
    from agent_fabric.domain.unified_diff import FileDiff
    from agent_fabric.infrastructure.runlog.layout import Layout

T = TypeVar("T")
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


class Catalogue(Protocol):
    """Finds runs."""

    async def recent(self, *, limit: int) -> Sequence[RunRecord]:
        """Return the newest runs, newest first; a negative limit is none."""
        ...

    async def search(self, query: str, *, limit: int) -> Sequence[RunRecord]:
        """Return the runs whose task or summary fits the words best."""
        ...

    async def find(self, prefix: str) -> RunId:
        """Return the one run whose id begins so.

        Raises:
            RunNotFound: none, or more than one, begins so.
        """
        ...

    async def newest(self) -> RunId:
        """Return the run that was created last, but for those that work for another one.

        Raises:
            RunNotFound: there is none at all.
        """
        ...


class RunLogs(Protocol):
    """Reads what happened to runs."""

    async def read(self, run_id: RunId, *, after: int = -1) -> Sequence[Event]:
        """Return the events that follow sequence number `after`.

        Raises:
            RunNotFound: there is none with this id.
        """
        ...


class Questions(Protocol):
    """What runs ask people."""

    async def list(self, *, run_id: RunId | None = None, pending_only: bool = True) -> Sequence[ApprovalCard]:
        """Return questions, the oldest first."""
        ...

    async def find(self, prefix: str) -> ApprovalCard:
        """Return the one question whose id begins so.

        Raises:
            ApprovalNotFound: none, or more than one, begins so.
        """
        ...


class Answered(NamedTuple):
    """A question after it was answered."""

    card: ApprovalCard
    goes_on_with: RunId | None
    """The run that somebody has to go on with; None: it goes on by itself."""


class Changes(Protocol):
    """What runs did to files."""

    async def diff(self, run_id: RunId) -> "RunDiff":
        """Return what a run changed."""
        ...

    def compared(self, found: "RunDiff", change: "FileChange") -> "FileDiff":
        """Return how one path changed."""
        ...

    async def undo(self, run_id: RunId, *, paths: Sequence[str], redo: bool, dry: bool, force: bool) -> "Undone":
        """Take back what a run changed; paths may lie below the folder that it worked in, or be counted from there."""
        ...


class Files(Protocol):
    """What runs have made."""

    async def list(self, run_id: RunId) -> "RunFileList":
        """Return the files in a run's workspace.

        Raises:
            RunFilesWithheld: they are not the run's own, or are gone.
        """
        ...

    def content(self, run_id: RunId, path: str) -> AsyncGenerator[bytes, None]:
        """Yield what is in one of them, piece by piece.

        Raises:
            RunFileNotFound: the run has no such file.
            RunFilesWithheld: they are not the run's own, or are gone.
        """
        ...


class RunAccess(Protocol):
    """The runs of a folder, or of a server."""

    @property
    def catalogue(self) -> Catalogue:
        """Finds runs."""
        ...

    @property
    def runs(self) -> RunLogs:
        """Reads what happened to them."""
        ...

    @property
    def approvals(self) -> Questions:
        """What they ask people."""
        ...

    @property
    def changes(self) -> Changes:
        """What they did to files."""
        ...

    @property
    def files(self) -> Files:
        """What they have made."""
        ...

    @property
    def exports(self) -> "Layout":
        """Where log files are written that somebody asks for."""
        ...

    async def cancel(self, run_id: RunId, *, reason: str) -> RunResult:
        """End a run."""
        ...

    async def answer(self, approval_id: str, answer: Answer) -> Answered:
        """Answer a question."""
        ...

    async def verify(self, run_id: RunId) -> "Verification":
        """Check again what a run claims."""
        ...

    async def search_by_meaning(self, question: str, *, limit: int, on_progress: "OnProgress") -> "Sequence[FoundRun]":
        """Return the runs nearest to a question."""
        ...

    async def run_dir(self, run_id: RunId) -> str:
        """Return a run's folder, where it is."""
        ...

    def follow(self, run_id: RunId) -> AsyncGenerator[Sequence[Event], None]:
        """Yield the events of a run, those that are there and then those that come, until it has settled."""
        ...


Work = Callable[[RunAccess], Coroutine[Any, Any, T]]


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
        raise ConfigError("--server and --workspace exclude each other", hint="A server has a folder of its own.")
    if workspace is not None:
        return None
    if server == "":
        raise ConfigError("--server needs an address", hint="For example: --server http://127.0.0.1:8787")
    chosen = server or environment.get(FABRIC_URL)
    if chosen and chosen != AUTO:
        return chosen
    if local_only:
        return None
    from agent_fabric.interfaces.cli.nearby_server import find_server  # noqa: PLC0415 - a named server needs none

    return find_server(wanted=chosen == AUTO)


def at_place(workspace: str | None, server: str | None, work: Work[T], *, without: T | None = None) -> T:
    """Let a command do its work where it is told to; `without` is the answer of a folder that has no runs.

    Raises:
        RunNotFound: the folder has no runs, and there is no answer for that.
        FabricError: what the work raised.
    """
    url = server_of(workspace, server)
    if url is not None:
        from agent_fabric.interfaces.cli.place_remote import remote_place  # noqa: PLC0415 - aiohttp takes its time

        return asyncio.run(_at(remote_place(url), work))
    from agent_fabric.interfaces.cli.place_local import local_place  # noqa: PLC0415 - those at servers do not need it

    try:
        place = local_place(workspace)
    except RunNotFound:
        if without is None:
            raise
        return without
    return asyncio.run(_at(place, work))


async def _at(opened: AbstractAsyncContextManager[RunAccess], work: Work[T]) -> T:
    async with opened as place:
        return await work(place)


def with_client(url: str, work: "Callable[[FabricClient], Coroutine[Any, Any, T]]") -> T:
    """Ask a server for something that is not about runs."""
    from agent_fabric.client import FabricClient  # noqa: PLC0415 - aiohttp takes its time

    async def go() -> T:
        async with FabricClient(url) as client:
            return await work(client)

    return asyncio.run(go())


def refuse_if(asked: bool, message: str, *, hint: str) -> None:
    """Refuse what does not go together.

    Raises:
        ConfigError: it was asked for.
    """
    if asked:
        raise ConfigError(message, hint=hint)
