"""Runs in the foreground of a command: driven by this process, or by a server."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from agent_fabric.application.ports.approvals import Answer, ApprovalCard
from agent_fabric.application.ports.events import EventSink
from agent_fabric.bootstrap.local import LocalFabric, open_local
from agent_fabric.bootstrap.records import owner_here
from agent_fabric.config.loader import Loaded
from agent_fabric.domain.errors import StoreUnavailable
from agent_fabric.domain.events import RunCreated
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.evolve import fold
from agent_fabric.domain.runs.state import result_of
from agent_fabric.domain.runs.task import RunResult
from agent_fabric.interfaces.cli.server.nearby_server import mention_server

if TYPE_CHECKING:
    from agent_fabric.interfaces.cli.runs.foreground_remote import RemoteForeground

NOTHING = "changed: nothing\n"
"""What is said of a run that changed no file of a project."""
OnCreated = Callable[[RunId], None]
"""Told a run's id as soon as it has one."""


Foreground: TypeAlias = "LocalForeground | RemoteForeground"
"""Where a run is driven."""


class Ready(NamedTuple):
    """Something that can be begun."""

    fabric: "LocalForeground | RemoteForeground"
    begin: Callable[[OnCreated], Awaitable[RunResult]]
    """Drives a run until it ends or waits for an answer."""


Job = Callable[[EventSink | None, bool], AbstractAsyncContextManager[Ready]]
"""Gets ready to drive something. The sink is shown what happens; the second shows whether a person can be asked."""


def local_job(root: Path, loaded: Loaded, work: Callable[[LocalFabric, OnCreated], Awaitable[RunResult]]) -> Job:
    """Return a job for this machine; a server that could do it as well is mentioned."""
    mention_server(root)

    @asynccontextmanager
    async def opened(sink: EventSink | None, asks: bool) -> AsyncIterator[Ready]:
        async with open_local(root, loaded, sink, asks_here=asks) as fabric:
            yield Ready(LocalForeground(fabric), lambda on_created: work(fabric, on_created))

    return opened


class LocalForeground:
    """Foreground on this machine: the run is driven by this process."""

    served = False

    def __init__(self, fabric: LocalFabric) -> None:
        self.fabric = fabric
        self.events = fabric.records.runs.read
        self.questions, self.question = fabric.records.approvals.list, fabric.records.approvals.find

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
        from agent_fabric.interfaces.cli.place_local import LocalRuns  # noqa: PLC0415 - as above
        from agent_fabric.interfaces.cli.runs.change_summary import change_summary  # noqa: PLC0415 - only for projects

        try:
            return await asyncio.to_thread(change_summary, *await LocalRuns(records).diff(run_id))
        except StoreUnavailable as problem:
            return f"changed: unknown: {problem.message}\n"
