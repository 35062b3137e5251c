"""Runs in the foreground of a command, driven by this process."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from agent_fabric.application.ports.approvals import Answer, ApprovalCard
from agent_fabric.application.ports.events import EventSink
from agent_fabric.bootstrap.records import owner_here
from agent_fabric.config.loader import Loaded
from agent_fabric.domain.errors import StoreUnavailable
from agent_fabric.domain.events import RunCreated
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.evolve import fold
from agent_fabric.domain.runs.state import result_of
from agent_fabric.domain.runs.task import RunResult, Task
from agent_fabric.interfaces.cli.options import configuration
from agent_fabric.interfaces.cli.place import Place, refuse_if
from agent_fabric.interfaces.cli.runs.result_lines import change_summary
from agent_fabric.interfaces.cli.server.nearby_server import mention_server

if TYPE_CHECKING:
    from agent_fabric.bootstrap.local import LocalFabric
    from agent_fabric.interfaces.cli.place_local import LocalRuns
    from agent_fabric.interfaces.cli.runs.foreground_remote import RemoteForeground

Foreground: TypeAlias = "LocalForeground | RemoteForeground"
"""Where a run is driven. A command may call what both have."""
ForegroundT = TypeVar("ForegroundT", bound="LocalForeground | RemoteForeground")
Opens: TypeAlias = Callable[[EventSink | None, bool], AbstractAsyncContextManager[ForegroundT]]
"""Opens a foreground. The sink is shown what happens; the second says whether a person can be asked."""


def foreground_elsewhere(url: str, *, here: bool = False) -> "Opens[RemoteForeground]":
    """Return what opens the foreground of a server, which cannot work `here`, in this folder."""
    refuse_here(here)
    from agent_fabric.interfaces.cli.runs.foreground_remote import foreground_there  # noqa: PLC0415 - aiohttp takes its time

    return foreground_there(url)


def refuse_here(here: bool) -> None:
    """Refuse to let a server work in this folder."""
    refuse_if(here, "--here does not work with a server", hint="The server does not have the files of this folder.")


def foreground_at(at: Place) -> "Opens[LocalForeground | RemoteForeground]":
    """Return what opens the foreground for runs that exist: in a folder, or at a server."""
    url = at.url()
    if url is not None:
        return foreground_elsewhere(url)
    root = at.existing_root()
    return foreground_here(root, configuration(root))


def foreground_here(root: Path, loaded: Loaded) -> "Opens[LocalForeground]":
    """Return what opens the foreground of this machine; a server that could do the work as well is mentioned."""
    mention_server(root)
    return partial(_open, root, loaded)


@asynccontextmanager
async def _open(root: Path, loaded: Loaded, sink: EventSink | None, asks: bool) -> "AsyncIterator[LocalForeground]":
    from agent_fabric.bootstrap.local import open_local  # noqa: PLC0415 - commands beside these only read

    async with open_local(root, loaded, sink, asks_here=asks) as fabric:
        yield LocalForeground(fabric, loaded)


class LocalForeground:
    """Foreground on this machine: the run is driven by this process."""

    served = False

    def __init__(self, fabric: "LocalFabric", loaded: Loaded) -> None:
        self.fabric, self.loaded = fabric, loaded
        self.run_id: RunId | None = None
        """The run that is driven, as soon as there is one."""
        self.events = fabric.records.runs.read
        self.questions, self.question = fabric.records.approvals.list, fabric.records.approvals.find

    @property
    def runs(self) -> "LocalRuns":
        """The runs of this folder."""
        from agent_fabric.interfaces.cli.place_local import LocalRuns  # noqa: PLC0415 - a new run needs no others

        return LocalRuns(self.fabric.records)

    def note_created(self, run_id: RunId) -> None:
        """Note which run is driven."""
        self.run_id = run_id

    async def start(self, task: Task, **more: Any) -> RunResult:
        """Drive a new run until it ends or waits for an answer; `more` are those of `ExecuteTask`."""
        return await self.fabric.execute_task(task, on_created=self.note_created, **more)

    async def resume(self, run_id: RunId) -> RunResult:
        """Resume a run that stopped."""
        self.run_id = run_id
        return await self.go_on(run_id)

    async def answer(self, approval_id: str, answer: Answer) -> ApprovalCard:
        """Answer a question as the person at this terminal."""
        return await self.fabric.decide_approval(approval_id, answer, by=owner_here())

    async def who_may_answer(self) -> str:
        """Say who may answer, if the person at this terminal may not."""
        return ""

    async def go_on(self, run_id: RunId) -> RunResult:
        """Continue a run whose questions have been answered, until it ends or waits again."""
        return await self.fabric.resume_run(run_id)

    async def leave(self, run_id: RunId) -> RunResult:
        """Return the state of a run that Ctrl-C has detached."""
        return result_of(fold(run_id, await self.events(run_id)))

    async def run_dir(self, run_id: RunId) -> str:
        return self.fabric.records.layout.run_dir(run_id)

    async def changes(self, run_id: RunId) -> str:
        """Return what a run changed in its project, in a few lines; nothing for one with a workspace of its own."""
        records = self.fabric.records
        (created,) = await records.storage.reader.page(run_id, after=-1, limit=1)
        if not isinstance(created.body, RunCreated) or created.body.workspace == records.layout.workspace(run_id):
            return ""
        try:
            return await asyncio.to_thread(change_summary, *await self.runs.diff(run_id))
        except StoreUnavailable as problem:
            return f"changed: unknown: {problem.message}\n"
