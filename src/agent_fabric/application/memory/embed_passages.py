"""Gives passages their vectors."""

from dataclasses import dataclass

from agent_fabric.application.ports.embeddings import Embedder
from agent_fabric.application.ports.memory import OnProgress, PassageIndex

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
