"""The runs of a server, as commands work on them."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

from agent_fabric.application.ports.approvals import Answer, ApprovalCard
from agent_fabric.application.ports.embeddings import FoundRun
from agent_fabric.application.ports.runs import RunRecord
from agent_fabric.application.runs.diff_run import RunDiff
from agent_fabric.application.runs.search_runs import OnProgress
from agent_fabric.application.runs.undo_run import Undone
from agent_fabric.application.runs.verify_run import Verification
from agent_fabric.client import FabricClient
from agent_fabric.domain.changes import FileChange
from agent_fabric.domain.events import Event
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.files import RunFileList
from agent_fabric.domain.runs.task import RunResult
from agent_fabric.domain.unified_diff import FileDiff
from agent_fabric.infrastructure.runlog.layout import Layout
from agent_fabric.interfaces.cli.place import Answered, RunAccess

EXPORTS = "fabric-export"
"""The folder, in the current one, that log files of a server's runs are written into."""
EVERYTHING = 1_000_000_000
PAUSE_S = 1.0


@asynccontextmanager
async def remote_place(url: str) -> AsyncIterator[RunAccess]:
    """Open the way to a server."""
    async with FabricClient(url) as client:
        yield RemotePlace(client)


class RemotePlace:
    """RunAccess over a server."""

    def __init__(self, client: FabricClient) -> None:
        self.client = client

    @property
    def catalogue(self) -> "RemoteCatalogue":
        return RemoteCatalogue(self.client)

    @property
    def runs(self) -> "RemoteLogs":
        return RemoteLogs(self.client)

    @property
    def approvals(self) -> "RemoteQuestions":
        return RemoteQuestions(self.client)

    @property
    def changes(self) -> "RemoteChanges":
        return RemoteChanges(self.client)

    @property
    def files(self) -> "RemoteFiles":
        return RemoteFiles(self.client)

    @property
    def exports(self) -> Layout:
        return Layout(Path.cwd() / EXPORTS)

    async def cancel(self, run_id: RunId, *, reason: str) -> RunResult:
        return await self.client.runs.cancel(run_id, reason=reason)

    async def answer(self, approval_id: str, answer: Answer) -> Answered:
        card = await self.client.approvals.answer(
            approval_id, answer.decision, reason=answer.reason, reach=answer.reach, args=answer.args
        )
        return Answered(card, None)  # the server goes on with the run

    async def verify(self, run_id: RunId) -> Verification:
        return await self.client.runs.verify(run_id)

    async def search_by_meaning(self, question: str, *, limit: int, on_progress: OnProgress) -> Sequence[FoundRun]:
        """A server reads a few hundred runs at a time, so it is asked until it has read all of them."""
        runs, unread = await self.client.runs.search_by_meaning(question, limit=limit)
        total = unread
        while unread:
            on_progress(total - unread, total)
            before = unread
            runs, unread = await self.client.runs.search_by_meaning(question, limit=limit)
            if unread >= before:
                break  # it gets no further; what it has is an answer
        if total:
            on_progress(total, total)
        return runs

    async def run_dir(self, run_id: RunId) -> str:
        return (await self.client.runs.show(run_id)).run_dir

    async def follow(self, run_id: RunId) -> AsyncGenerator[Sequence[Event], None]:
        after = -1
        while True:
            async with aclosing(self.client.runs.follow(run_id, after=after)) as happenings:
                async for each in happenings:
                    if isinstance(each, Event):
                        after = each.seq
                        yield (each,)
                    elif isinstance(each, RunResult) and each.status.settled:
                        return
            await asyncio.sleep(PAUSE_S)  # nobody drives it; somebody may resume it


class RemoteCatalogue:
    """Catalogue over a server."""

    def __init__(self, client: FabricClient) -> None:
        self._client = client

    async def recent(self, *, limit: int) -> Sequence[RunRecord]:
        return await self._client.runs.list(limit=EVERYTHING if limit < 0 else limit)

    async def search(self, query: str, *, limit: int) -> Sequence[RunRecord]:
        return await self._client.runs.search(query, limit=limit)

    async def find(self, prefix: str) -> RunId:
        return await self._client.runs.find(prefix)

    async def newest(self) -> RunId:
        return await self._client.runs.newest()


class RemoteLogs:
    """RunLogs over a server."""

    def __init__(self, client: FabricClient) -> None:
        self._client = client

    async def read(self, run_id: RunId, *, after: int = -1) -> Sequence[Event]:
        return await self._client.runs.events(run_id, after=after)


class RemoteQuestions:
    """Questions over a server."""

    def __init__(self, client: FabricClient) -> None:
        self._client = client

    async def list(self, *, run_id: RunId | None = None, pending_only: bool = True) -> Sequence[ApprovalCard]:
        return await self._client.approvals.list(run_id=run_id or "", pending_only=pending_only)

    async def find(self, prefix: str) -> ApprovalCard:
        return await self._client.approvals.show(prefix)


class RemoteChanges:
    """Changes over a server."""

    def __init__(self, client: FabricClient) -> None:
        self._client = client
        self._compared: dict[str, FileDiff] = {}

    async def diff(self, run_id: RunId) -> RunDiff:
        found, self._compared = await self._client.runs.diff(run_id)
        return found

    def compared(self, found: RunDiff, change: FileChange) -> FileDiff:  # noqa: ARG002 - as here
        return self._compared[change.path]

    async def undo(self, run_id: RunId, *, paths: Sequence[str], redo: bool, dry: bool, force: bool) -> Undone:
        return await self._client.runs.undo(run_id, paths=paths, redo=redo, dry=dry, force=force)


class RemoteFiles:
    """Files over a server."""

    def __init__(self, client: FabricClient) -> None:
        self._client = client

    async def list(self, run_id: RunId) -> RunFileList:
        return await self._client.runs.files(run_id)

    def content(self, run_id: RunId, path: str) -> AsyncGenerator[bytes, None]:
        return self._client.runs.content(run_id, path)
