"""Gives passages their vectors, and finds documents whose vectors no one is making."""

import asyncio
from collections.abc import Awaitable, Callable, Container
from typing import Final

from agent_fabric.application.attempts import lead
from agent_fabric.application.ports.embeddings import Embedder
from agent_fabric.application.ports.leases import NamedLocks
from agent_fabric.application.ports.memory import DocumentQuery, MemoryStore, OnProgress, PassageIndex
from agent_fabric.application.ports.operations import OperationsLog
from agent_fabric.application.ports.runs import RunListing, RunQuery
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import FabricError
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.memory.ingestion import INGESTION
from agent_fabric.domain.runs.task import RunStatus

AT_ONCE = 32
"""Passages that are read and kept in one go: an interruption loses at most so many."""
LISTED = 16 * AT_ONCE
"""Passages that are looked up in one go: finding out which have no vector takes longer than reading a few."""


@dataclass(frozen=True, slots=True)
class EmbedPassages:
    """Use case: read the passages that have no vector yet, whichever process has added them."""

    passages: PassageIndex
    embedder: Embedder

    async def __call__(self, *, on_progress: OnProgress | None = None) -> int:
        """Read what is missing and return how many passages that were.

        Raises:
            ModelError: the server that makes the vectors gave no usable answer; what was read is kept.
        """
        name, done = self.embedder.name, 0
        if not self.embedder.dimensions:
            await self.embedder.embed(
                ["-"]
            )  # only its answer tells; otherwise all that have a vector would be read again
        while unread := await self.passages.unread(name, dimensions=self.embedder.dimensions, limit=LISTED):
            for start in range(0, len(unread), AT_ONCE):
                part = unread[start : start + AT_ONCE]
                vectors = await self.embedder.embed([each.text for each in part])
                pairs = [(each.hash, vector) for each, vector in zip(part, vectors, strict=True)]
                await self.passages.keep(name, pairs)
                done += len(part)
                if on_progress is not None:
                    on_progress(done)
        await self.passages.keep(name, [])  # documents that have nothing new become ready, too
        return done


LOOK_EVERY_S: Final = 600.0


LOCK: Final = "vectors of documents"


_MAX_RUNS: Final = 200


@dataclass(frozen=True, slots=True)
class FindMissingVectors:
    """Use case: start a run for passages without a vector, at start and from time to time; one process of all does it.

    A server may be killed between an upload and the run that makes its vectors, such a run may fail because the
    embedder is away, and another embedder may have been chosen.
    """

    memory: MemoryStore
    embedder: Callable[[], Embedder | None]
    """Makes the embedder, which takes time and memory; None: there is none, and documents are found by words."""
    runs: RunListing
    awaited: Container[RunId]
    """Runs that this process will go on with."""
    start: Callable[[], Awaitable[object]]
    """Starts a run that makes all vectors that are missing."""
    locks: NamedLocks
    log: OperationsLog
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep

    async def __call__(self) -> None:
        """Look until cancelled."""

        def tell(problem: FabricError) -> None:
            self.log.warning("vectors_wait", code=problem.code, message=problem.message)

        await lead(self.locks, LOCK, self.look, lambda: self.pause(LOOK_EVERY_S), tell)

    async def look(self) -> bool:
        """Start a run if one is needed, and tell whether.

        Raises:
            FabricError: the store, the embedder or the dispatcher is not there; passages wait for the next look.
        """
        if not await self.memory.documents.list(DocumentQuery(limit=1)):
            return False
        embedder = await asyncio.to_thread(self.embedder)
        if embedder is None or await self._is_under_way():
            return False
        if not embedder.dimensions:
            await embedder.embed(["-"])  # only its answer tells
        passages = self.memory.passages
        if not await passages.unread(embedder.name, dimensions=embedder.dimensions, limit=1):
            await passages.keep(embedder.name, [])  # a document all of whose passages stand in others becomes ready
            return False
        await embedder.embed(["-"])  # a run would fail, and so would the next one, as long as it does not answer
        await self.start()
        return True

    async def _is_under_way(self) -> bool:
        query = RunQuery(status=RunStatus.RUNNING, limit=_MAX_RUNS)
        page = await self.runs.page(query, awaited=self.awaited)
        return any(record.prompt.startswith(f"workflow {INGESTION['name']}:") for record in page.records)
