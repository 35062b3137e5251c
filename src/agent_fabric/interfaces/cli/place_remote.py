"""The runs of a server, as commands work on them."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from functools import partial
from pathlib import Path

from agent_fabric.application.ports.approvals import Answer
from agent_fabric.application.ports.runs import FoundRun, RunRecord
from agent_fabric.application.runs.diff_run import RunDiff
from agent_fabric.application.runs.search_runs import OnProgress
from agent_fabric.client import FabricClient
from agent_fabric.domain.events import Event
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.changes import FileChange
from agent_fabric.domain.runs.task import RunResult, RunStatus
from agent_fabric.domain.runs.unified_diff import FileDiff
from agent_fabric.infrastructure.runs.log.layout import Layout
from agent_fabric.interfaces.cli.place import Answered

EXPORTS = "fabric-export"
"""The folder, in the current one, that log files of a server's runs are written into."""
EVERYTHING = 1_000_000_000
PAUSE_S = 1.0


class ServerRuns:
    """The runs of a server."""

    def __init__(self, client: FabricClient) -> None:
        self.client = client
        runs, approvals = client.runs, client.approvals
        self.exports = Layout(Path.cwd() / EXPORTS)
        self.find, self.search, self.events, self.cancel = runs.find, runs.search, runs.events, runs.cancel
        self.newest = partial(runs.newest, own=True)
        self.undo, self.verify, self.files, self.content = runs.undo, runs.verify, runs.files, runs.content
        self.compare = runs.compare
        self.questions, self.question = approvals.list, approvals.show

    def pages(
        self,
        run_id: RunId,
        *,
        whole: bool = False,  # noqa: ARG002 - a server always sends all of it
    ) -> AsyncGenerator[Sequence[Event], None]:
        return self.client.runs.pages(run_id)

    async def recent(
        self, *, limit: int, owner: str = "", status: RunStatus | None = None, trials: bool = True
    ) -> Sequence[RunRecord]:
        wanted = EVERYTHING if limit < 0 else limit
        return await self.client.runs.list(limit=wanted, owner=owner, status=status, trials=trials)

    async def answer(self, approval_id: str, answer: Answer) -> Answered:
        card = await self.client.approvals.answer(
            approval_id,
            answer.decision,
            reason=answer.reason,
            reach=answer.reach,
            args=answer.args,
            binding=answer.binding,
        )
        return Answered(card, None)  # the server goes on with the run

    async def diff(self, run_id: RunId) -> tuple[RunDiff, Callable[[FileChange], FileDiff]]:
        found, compared = await self.client.runs.diff(run_id)
        return found, lambda change: compared[change.path]

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

    async def result(self, run_id: RunId) -> RunResult:
        return (await self.client.runs.show(run_id)).result

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
            await asyncio.sleep(PAUSE_S)  # no process drives it; it may be resumed
