"""The vectors of runs, and their words for full text search."""

import heapq
from collections.abc import Sequence

from agent_fabric.application.ports.embeddings import RunText, Vector
from agent_fabric.application.ports.runs import FoundRun
from agent_fabric.domain.identity.ownership import EVERYTHING, Viewer
from agent_fabric.domain.runs.task import RunStatus
from agent_fabric.infrastructure.models.embeddings.vectors import BYTES_EACH
from agent_fabric.infrastructure.persistence.runs.run_catalogue import SqlRunCatalogue
from agent_fabric.infrastructure.persistence.runs.run_visibility import visible_to
from agent_fabric.infrastructure.persistence.sql import Database, SqlConnection, marks, storable
from agent_fabric.infrastructure.persistence.table import fetch
from agent_fabric.infrastructure.persistence.text_search import TextSearch, with_pairs
from agent_fabric.infrastructure.persistence.vector_search import Wanted, vector_search_of

PART_CHARS = 600
"""How much of the task, and of the result, counts. Longer ones are found no better (`benchmarks/embeddings`)."""
WORDS_WEIGHT = 0.1
"""What the best match by words gains; the second gains half of it, the third a third. Measured there as well."""
_BY_WORDS = 100

_KEEP = (
    "INSERT INTO run_vectors (run, embedder, vector) VALUES (?, ?, ?)"
    " ON CONFLICT (embedder, run) DO UPDATE SET vector = excluded.vector"
)
_SETTLED = tuple(status.value for status in RunStatus if status.settled)


class SqlRunVectors:
    """RunVectors over the store. A settled run never changes, so what was kept stays right."""

    def __init__(self, database: Database, catalogue: SqlRunCatalogue) -> None:
        self._database = database
        self._catalogue = catalogue

    async def missing(self, embedder: str, *, dimensions: int) -> Sequence[int]:
        query = (
            f"SELECT number FROM runs WHERE status IN ({marks(_SETTLED)})"  # noqa: S608 - only question marks
            # What is encrypted is not to be guessed from words and vectors that lie beside it.
            " AND NOT EXISTS (SELECT 1 FROM run_keys WHERE run = number) AND NOT EXISTS ("
            " SELECT 1 FROM run_vectors WHERE embedder = ? AND run = number AND length(vector) = ?"
            ") ORDER BY number DESC"
        )
        found = await fetch(self._database, query, *_SETTLED, embedder, BYTES_EACH * dimensions)
        return [number for (number,) in found]

    async def texts(self, numbers: Sequence[int]) -> Sequence[RunText]:
        def read(connection: SqlConnection) -> list[RunText]:
            records = zip(numbers, self._catalogue.by_number(connection, numbers), strict=True)
            return [
                RunText(number, f"{record.prompt[:PART_CHARS]}\n{record.summary[:PART_CHARS]}")
                for number, record in records
            ]

        return await self._database.read(read)

    async def keep(self, embedder: str, texts: Sequence[RunText], vectors: Sequence[Vector]) -> None:
        rows = [(each.number, embedder, vector) for each, vector in zip(texts, vectors, strict=True)]
        words = [(each.number, with_pairs(storable(each.text)), each.number) for each in texts]

        def write(connection: SqlConnection) -> None:
            connection.executemany(_KEEP, rows)
            # Once for all embedders.
            connection.executemany(
                "INSERT INTO run_words (rowid, text) SELECT ?, ?"
                " WHERE NOT EXISTS (SELECT 1 FROM run_words WHERE rowid = ?)",
                words,
            )

        await self._database.write(write)

    async def nearest(
        self, embedder: str, question: Vector, *, words: str, limit: int, viewer: Viewer = EVERYTHING
    ) -> Sequence[FoundRun]:
        visible, search = visible_to(viewer), self._database.dialect.text_search
        vectors = vector_search_of(self._database.dialect)
        await self._catch_up(embedder)

        def read(connection: SqlConnection) -> list[FoundRun]:
            by_words = _by_words(connection, search, words)
            condition = "" if viewer.sees_all else f"run IN (SELECT number FROM runs WHERE {visible.sql})"  # noqa: S608 - ours
            wanted = Wanted(embedder, question, limit, by_words, condition, () if viewer.sees_all else visible.values)
            scores = vectors.scores(connection, wanted)
            for place, number in enumerate(by_words, 1):
                if number in scores:
                    scores[number] += WORDS_WEIGHT / place
            best = heapq.nlargest(limit, scores, key=scores.__getitem__)
            records = self._catalogue.by_number(connection, best)
            return [
                FoundRun(record, scores[number] / (1 + WORDS_WEIGHT))
                for number, record in zip(best, records, strict=True)
            ]

        return await self._database.read(read)

    async def _catch_up(self, embedder: str) -> None:
        """Put what is missing into the index of vectors, if there is one, a part at a time."""
        vectors = vector_search_of(self._database.dialect)
        rest = await self._database.read(lambda connection: vectors.is_behind(connection, embedder))
        while rest:
            rest = await self._database.write(lambda connection: vectors.catch_up(connection, embedder))


def _by_words(connection: SqlConnection, search: TextSearch, words: str) -> list[int]:
    """Return the runs that share a word with the question, the best first."""
    wanted = search.any_of(storable(words))
    if not wanted:
        return []
    return [int(row[0]) for row in connection.execute(search.by_words, (wanted, _BY_WORDS))]
