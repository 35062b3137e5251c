"""The runs of a folder on this machine, as commands work on them."""

import asyncio
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from agent_fabric.application.ports.runs import FoundRun, RunQuery, RunRecord
from agent_fabric.bootstrap.records import Records, owner_here, this_person
from agent_fabric.bootstrap.this_machine import require_made_here
from agent_fabric.domain.identity.ownership import LOCAL_OWNER
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.status import RunStatus
from agent_fabric.interfaces.cli.options import configuration
from agent_fabric.interfaces.cli.place import Answered

if TYPE_CHECKING:  # few commands need these
    from agent_fabric.application.ports.approvals import Answer, ApprovalCard
    from agent_fabric.application.runs.diff_run import RunDiff
    from agent_fabric.application.runs.search_runs import OnProgress
    from agent_fabric.application.runs.undo_run import Undone
    from agent_fabric.application.runs.verify_run import Verification
    from agent_fabric.domain.events import Event
    from agent_fabric.domain.runs.changes import FileChange
    from agent_fabric.domain.runs.comparison import Comparison
    from agent_fabric.domain.runs.files import RunFileList
    from agent_fabric.domain.runs.task import RunResult
    from agent_fabric.domain.runs.unified_diff import FileDiff

PIECE_BYTES = 256 * 1024
PAGE = 200
"""Events that are read at a time."""
WHOLE_PAGE = 50
"""The same where long texts are not cut."""
MANY_EVENTS = 20_000
"""Events whose indexing takes so long that a person wants to know."""
FOLLOW_S = 0.3
"""Interval at which a followed run is read again."""


class LocalRuns:
    """The runs of a fabric folder."""

    def __init__(self, records: Records) -> None:
        self.records = records
        self.exports = records.layout

    async def find(self, prefix: str) -> RunId:
        return await self.records.catalogue.find(prefix)

    async def newest(self) -> RunId:
        return await self.records.catalogue.newest(owner=LOCAL_OWNER)

    @property
    def events(self) -> "Callable[[RunId], Awaitable[Sequence[Event]]]":
        return self.records.runs.read

    @property
    def questions(self) -> "Callable[..., Awaitable[Sequence[ApprovalCard]]]":
        return self.records.approvals.list

    @property
    def question(self) -> "Callable[[str], Awaitable[ApprovalCard]]":
        return self.records.approvals.find

    async def recent(
        self, *, limit: int, owner: str = "", status: RunStatus | None = None, trials: bool = True
    ) -> Sequence[RunRecord]:
        if not owner and status is None and trials:
            return await self.records.catalogue.recent(limit=limit)
        query, found = RunQuery(limit=limit, owner=owner, status=status, trials=trials), list[RunRecord]()
        while len(found) < limit:
            page = await self.records.catalogue.page(query)
            found += page.records
            if page.older_than is None:
                break
            query = replace(query, older_than=page.older_than)
        return found[:limit]

    async def search(
        self,
        words: str,
        *,
        limit: int,
        owner: str = "",
        status: RunStatus | None = None,
        since: float | None = None,
        until: float | None = None,
    ) -> Sequence[RunRecord]:
        catalogue = self.records.catalogue
        if (events := await catalogue.count_unindexed()) > MANY_EVENTS:
            sys.stderr.write(f"Indexing {events:,} events once; you can stop with Ctrl-C, nothing is lost …\n")
            sys.stderr.flush()
        await catalogue.update_index()
        only = RunQuery(owner=owner, status=status, since=since, until=until)
        return await catalogue.search(words, limit=limit, only=only)

    async def cancel(self, run_id: RunId, *, reason: str) -> "RunResult":
        from agent_fabric.bootstrap.runs import cancel_run  # noqa: PLC0415 - what drives runs takes its time

        return await cancel_run(self.records)(run_id, by=this_person(), reason=reason)

    async def answer(self, approval_id: str, answer: "Answer") -> Answered:
        from agent_fabric.bootstrap.runs import decide_approval  # noqa: PLC0415 - as above

        decide = decide_approval(self.records, lambda: configuration(self.records.layout.root))
        card = await decide(approval_id, answer, by=owner_here())
        top = None if self.records.has_server() else await self._uppermost(card.run_id)
        return Answered(await self.records.approvals.find(card.approval_id), top)

    async def diff(self, run_id: RunId) -> "tuple[RunDiff, Callable[[FileChange], FileDiff]]":
        from agent_fabric.bootstrap.runs import diff_run  # noqa: PLC0415 - one command needs it
        from agent_fabric.domain.runs.unified_diff import file_diff  # noqa: PLC0415 - as above

        compare = diff_run(self.records)
        found = await compare(run_id)
        return found, lambda change: file_diff(change, *compare.content(found, change))

    async def compare(self, a: RunId, b: RunId) -> "Comparison":
        from agent_fabric.bootstrap.runs import compare_runs  # noqa: PLC0415 - one command needs it

        return await compare_runs(self.records)(a, b)

    async def undo(self, run_id: RunId, *, paths: Sequence[str], redo: bool, dry: bool, force: bool) -> "Undone":
        from agent_fabric.bootstrap.runs import undo_run  # noqa: PLC0415 - one command needs it

        # Files are changed because of what is recorded, so it must not be forged.
        require_made_here(self.records.layout.root)
        return await undo_run(self.records)(run_id, by=this_person(), paths=paths, redo=redo, dry=dry, force=force)

    async def files(self, run_id: RunId) -> "RunFileList":
        from agent_fabric.bootstrap.runs import fetch_files  # noqa: PLC0415 - one command needs it

        return await fetch_files(self.records).list(run_id)

    async def content(self, run_id: RunId, path: str) -> AsyncGenerator[bytes, None]:
        from agent_fabric.bootstrap.runs import fetch_files  # noqa: PLC0415 - as above

        with (await fetch_files(self.records).open(run_id, path)).file as file:
            while piece := file.read(PIECE_BYTES):
                yield piece

    async def verify(self, run_id: RunId) -> "Verification":
        from agent_fabric.bootstrap.runs import verify_run  # noqa: PLC0415 - one command needs it

        return await verify_run(self.records)(run_id)

    async def search_by_meaning(self, question: str, *, limit: int, on_progress: "OnProgress") -> "Sequence[FoundRun]":
        from agent_fabric.bootstrap.memory import search_runs  # noqa: PLC0415 - nothing else needs what this imports

        search = search_runs(self.records, configuration(self.records.layout.root).config)
        return (await search(question, limit=limit, on_progress=on_progress)).runs

    async def result(self, run_id: RunId) -> "RunResult":
        from agent_fabric.application.runs.fold_log import fold_log  # noqa: PLC0415 - few commands fold a log
        from agent_fabric.domain.runs.state import result_of  # noqa: PLC0415 - the same

        return result_of(await fold_log(run_id, await self.records.runs.read(run_id)))

    async def run_dir(self, run_id: RunId) -> str:
        return self.records.layout.run_dir(run_id)

    async def pages(self, run_id: RunId, *, whole: bool = False) -> "AsyncGenerator[Sequence[Event], None]":
        after, limit = -1, WHOLE_PAGE if whole else PAGE
        while events := await self.records.storage.reader.page(run_id, after=after, limit=limit, whole=whole):
            yield events
            after = events[-1].seq

    async def follow(self, run_id: RunId) -> "AsyncGenerator[Sequence[Event], None]":
        from agent_fabric.domain.runs.consequences import consequences  # noqa: PLC0415 - events take their time

        after, status = -1, RunStatus.RUNNING
        while True:
            events = await self.records.storage.reader.page(run_id, after=after, limit=WHOLE_PAGE)
            if events:
                after = events[-1].seq
                status = consequences(run_id, None, events).status or status
            yield events
            if len(events) < WHOLE_PAGE:
                if status.settled:
                    return
                await asyncio.sleep(FOLLOW_S)

    async def _uppermost(self, run_id: RunId) -> RunId:
        """Return the run that others work for: going on with it goes on with all of them."""
        from agent_fabric.domain.events import RunCreated  # noqa: PLC0415 - as above

        reader = self.records.storage.reader
        while True:
            (created,) = await reader.page(run_id, after=-1, limit=1)
            if not isinstance(created.body, RunCreated) or created.body.parent is None:
                return run_id
            run_id = created.body.parent.run_id
