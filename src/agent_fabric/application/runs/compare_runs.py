"""Tells where two runs part, and what each did and left from there on."""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from agent_fabric.application.ports.runs import RunReader
from agent_fabric.application.runs.diff_run import DiffRun, RunDiff
from agent_fabric.application.runs.fold_log import fold_log
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.events import Event
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.changes import Entry, FileChange
from agent_fabric.domain.runs.comparison import (
    Comparison,
    FileDifference,
    changes_between,
    file_difference,
    first_difference,
    pair_turns,
    settings_that_differ,
    sum_up,
)
from agent_fabric.domain.runs.state import result_of
from agent_fabric.domain.runs.task import RunResult
from agent_fabric.domain.runs.unified_diff import FileDiff, file_diff

PAGE = 256
"""Events that are read at once."""
MAX_DIFF_BYTES = 4_000_000
"""Of the diffs of all files in one comparison; the rest is only named."""


@dataclass(frozen=True, slots=True)
class CompareRuns:
    """Use case: lay two runs beside each other. Reads what was recorded, and changes nothing."""

    reader: RunReader
    diff: DiffRun

    async def __call__(self, a: RunId, b: RunId) -> Comparison:
        """Return how the second run differs from the first one.

        Raises:
            RunNotFound: there is no such run.
            StoreUnavailable: what was recorded cannot be read.
        """
        (ours, our_result), (theirs, their_result) = await self._read(a), await self._read(b)
        our_diff, their_diff = await self.diff(a), await self.diff(b)
        return await asyncio.to_thread(
            self._compare, (ours, theirs), (our_result, their_result), (our_diff, their_diff)
        )

    async def _read(self, run_id: RunId) -> tuple[Sequence[Event], RunResult]:
        events: list[Event] = []
        while page := await self.reader.page(run_id, after=events[-1].seq if events else -1, limit=PAGE):
            events += page
        state = await fold_log(run_id, events)
        return events, replace(result_of(state), status=await self.reader.status(run_id))

    def _compare(
        self,
        logs: tuple[Sequence[Event], Sequence[Event]],
        results: tuple[RunResult, RunResult],
        diffs: tuple[RunDiff, RunDiff],
    ) -> Comparison:
        pairs = pair_turns(*logs)
        different, same = changes_between(diffs[0].changes, diffs[1].changes)
        return Comparison(
            a=sum_up(results[0], [pair.a for pair in pairs if pair.a is not None]),
            b=sum_up(results[1], [pair.b for pair in pairs if pair.b is not None]),
            settings=settings_that_differ(*logs),
            pairs=pairs,
            parts_at=first_difference(pairs),
            files=tuple(self._files(different, diffs)),
            same_files=same,
        )

    def _files(self, different: Sequence[FileChange], diffs: tuple[RunDiff, RunDiff]) -> Iterator[FileDifference]:
        room = MAX_DIFF_BYTES
        for change in different:
            compared = self._compare_file(change, diffs) if room > 0 else None
            room -= len(compared.text) if compared is not None else 0
            yield file_difference(change, compared)

    def _compare_file(self, change: FileChange, diffs: tuple[RunDiff, RunDiff]) -> FileDiff:
        """Compare what the two left; each state of a file is kept with the run that found or left it."""
        left, right = (self._read_content(change.path, entry, diffs) for entry in (change.before, change.after))
        return file_diff(change, left, right)

    def _read_content(self, path: str, entry: Entry | None, diffs: Iterable[RunDiff]) -> bytes | None:
        if entry is None:
            return None
        found = (self.diff.history.content(run.folder, path, entry) for run in diffs)
        return next((content for content in found if content is not None), None)
