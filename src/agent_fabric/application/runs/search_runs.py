"""Search runs by meaning."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import field
from typing import NamedTuple

from agent_fabric.application.ports.embeddings import Embedder, RunVectors
from agent_fabric.application.ports.runs import FoundRun
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.identity.ownership import EVERYTHING, Viewer

MAX_CHARS = 2_000
"""How much of a question counts. No model reads more than a few hundred words at once."""
AT_ONCE = 32
"""Runs read and kept in one go: an interruption loses at most so many."""

OnProgress = Callable[[int, int], None]
"""Told how many runs have been read, and how many there are to read."""


class SearchAnswer(NamedTuple):
    """What was found."""

    runs: Sequence[FoundRun]
    unread: int
    """Settled runs that could not be found because they have not been read yet."""


@dataclass(frozen=True, slots=True)
class SearchRuns:
    """Use case: read what has not been read yet, then find the runs nearest to a question."""

    embedder: Embedder
    vectors: RunVectors
    _reading: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Two questions at once must not read the same runs twice."""

    async def __call__(
        self,
        question: str,
        *,
        limit: int,
        most_read: int | None = None,
        on_progress: OnProgress | None = None,
        viewer: Viewer = EVERYTHING,
    ) -> SearchAnswer:
        """Answer a question; a blank one has no answer. At most `most_read` runs are read for it.

        Raises:
            ModelError: the server that makes the vectors gave no usable answer.
        """
        question = " ".join(question[:MAX_CHARS].split())
        if not question:
            return SearchAnswer([], 0)
        (vector,) = await self.embedder.embed([question])
        async with self._reading:
            unread = await self._read(most_read, on_progress)
        found = await self.vectors.nearest(self.embedder.name, vector, words=question, limit=limit, viewer=viewer)
        return SearchAnswer(found, unread)

    async def _read(self, most: int | None, on_progress: OnProgress | None) -> int:
        name = self.embedder.name
        missing = await self.vectors.missing(name, dimensions=self.embedder.dimensions)
        wanted = missing[:most]
        for start in range(0, len(wanted), AT_ONCE):
            if on_progress is not None:
                on_progress(start, len(wanted))
            texts = await self.vectors.texts(wanted[start : start + AT_ONCE])
            await self.vectors.keep(name, texts, await self.embedder.embed([each.text for each in texts]))
        if on_progress is not None and wanted:
            on_progress(len(wanted), len(wanted))
        return len(missing) - len(wanted)
