"""Which passages may answer a question: the best by words and the nearest by meaning, of documents that may be seen."""

import heapq
from collections.abc import Sequence
from typing import Any, Final

from agent_fabric.application.ports.memory import DocumentQuery, PassageQuestion
from agent_fabric.domain.ids import DocumentId
from agent_fabric.domain.memory.ranking import Candidate
from agent_fabric.infrastructure.memory.embeddings.int8 import int8_similarities
from agent_fabric.infrastructure.memory.embeddings.vector_blocks import VectorBlocks
from agent_fabric.infrastructure.models.embeddings.vectors import BYTES_EACH, find_numpy
from agent_fabric.infrastructure.persistence.dialects import POSTGRESQL
from agent_fabric.infrastructure.persistence.memory.documents import wanted_documents
from agent_fabric.infrastructure.persistence.memory.passage_embeddings import has_passage_embeddings, nearest_passages
from agent_fabric.infrastructure.persistence.memory.passage_rows import passage_from
from agent_fabric.infrastructure.persistence.sql import Database, SqlConnection, marks, storable

_AT_ONCE: Final = 500
"""Passages or documents that are read with one query."""
_MANY: Final = 1_000
"""A word that so many passages have is looked for only if rarer ones find too little."""


class PassageCandidates:
    """Chooses candidates, with everything that narrows the choice in the same query."""

    def __init__(self, database: Database) -> None:
        self._search = database.dialect.text_search
        self._is_postgresql = database.dialect is POSTGRESQL
        self._blocks: VectorBlocks | None = None
        """Vectors that were compared here; None: no one has asked, the database compares, or there is no numpy."""

    def choose(
        self, connection: SqlConnection, question: PassageQuestion, wanted: DocumentQuery
    ) -> Sequence[Candidate]:
        """Return the candidates, those by words first."""
        chosen = dict.fromkeys(self._by_words(connection, question, wanted))
        if question.embedder and question.vector:
            chosen |= dict.fromkeys(self._by_meaning(connection, question, wanted))
        rows = self._rows(connection, question.embedder, list(chosen))
        comparable = [row for row in rows if row[9] is not None and len(row[9]) * BYTES_EACH == len(question.vector)]
        near = int8_similarities([bytes(row[9]) for row in comparable], question.vector)
        meanings = {row[0]: score for row, score in zip(comparable, near, strict=True)}
        found = {
            row[0]: Candidate(
                DocumentId(row[1]),
                row[3],
                passage_from(row[3:8]).indexed(row[2]),
                meanings.get(row[0]),
                question.terms.intersection((row[8] or "").split(" ")),
            )
            for row in rows
        }
        return [found[number] for number in chosen if number in found]

    def forget(self, document: int) -> None:
        """Forget what is kept in this process of a document that was erased."""
        if self._blocks is not None:
            self._blocks.forget(document)

    def _open_blocks(self) -> VectorBlocks | None:
        """Return what compares vectors, made when someone first asks: most processes never do."""
        if self._blocks is None:
            numpy = find_numpy()
            self._blocks = None if numpy is None else VectorBlocks(numpy)
        return self._blocks

    def _by_words(self, connection: SqlConnection, question: PassageQuestion, wanted: DocumentQuery) -> Sequence[int]:
        """Return the best passages by words. What a rare word finds is better, and takes less time to put in order."""
        terms = sorted(map(storable, question.terms))
        if not terms:
            return []
        rare = [term for term in terms if self._count(connection, term) < _MANY]
        found = self._with_words(connection, rare, question, wanted) if rare else []
        if len(rare) < len(terms) and len(found) < question.limit:
            found = [*found, *self._with_words(connection, terms, question, wanted)]
        return found

    def _count(self, connection: SqlConnection, term: str) -> int:
        """Return how many passages have a word; no more than `_MANY` are counted."""
        match = self._search.with_terms([term]).condition
        query = f"SELECT count(*) FROM (SELECT 1 FROM passage_words WHERE {match.sql} LIMIT ?) AS found"  # noqa: S608 - ours
        return int(connection.execute(query, (*match.values, _MANY)).fetchone()[0])

    def _with_words(
        self, connection: SqlConnection, terms: Sequence[str], question: PassageQuestion, wanted: DocumentQuery
    ) -> Sequence[int]:
        match = self._search.with_terms(terms)
        condition = wanted_documents(wanted)
        query = (
            "SELECT passages.number FROM passage_words JOIN passages ON passages.number = passage_words.rowid"  # noqa: S608 - ours
            " JOIN documents ON documents.number = passages.document"
            f" WHERE {match.condition.sql} AND {condition.sql} ORDER BY {match.order.sql} LIMIT ?"
        )
        values = (*match.condition.values, *condition.values, *match.order.values, question.limit)
        return [int(number) for (number,) in connection.execute(query, values)]

    def _by_meaning(self, connection: SqlConnection, question: PassageQuestion, wanted: DocumentQuery) -> Sequence[int]:
        if self._is_postgresql and has_passage_embeddings(connection):
            return nearest_passages(connection, question, wanted)
        blocks = self._open_blocks()
        if blocks is None:
            return _scan(connection, question, wanted)
        condition = wanted_documents(wanted)
        query = f"SELECT number, revision FROM documents WHERE {condition.sql}"  # noqa: S608 - ours
        revisions = dict(connection.execute(query, condition.values).fetchall())

        def load(documents: Sequence[int]) -> list[Any]:
            return _vectors(connection, question, documents)

        near = blocks.nearest(question.embedder, question.vector, revisions, load, limit=question.limit)
        return [each.number for each in near]

    def _rows(self, connection: SqlConnection, embedder: str, numbers: Sequence[int]) -> list[Any]:
        """Return what candidates are made of: number, document, title, the passage, its words and its vector."""
        found: list[Any] = []
        for start in range(0, len(numbers), _AT_ONCE):
            part = numbers[start : start + _AT_ONCE]
            query = (
                "SELECT passages.number, documents.id, documents.title, ordinal, begins_at, ends_at, headings, text,"  # noqa: S608 - only marks
                f" {self._search.terms_text}, vector"
                " FROM passages JOIN documents ON documents.number = passages.document"
                " LEFT JOIN passage_words ON passage_words.rowid = passages.number LEFT JOIN passage_vectors"
                " ON passage_vectors.hash = passages.hash AND embedder = ?"
                f" WHERE passages.number IN ({marks(part)})"
            )
            found += connection.execute(query, (embedder, *part)).fetchall()
        return found


def _vectors(connection: SqlConnection, question: PassageQuestion, documents: Sequence[int]) -> list[Any]:
    """Return the vectors of documents, in their order."""
    found: list[Any] = []
    ordered = sorted(documents)
    for start in range(0, len(ordered), _AT_ONCE):
        part = ordered[start : start + _AT_ONCE]
        query = (
            "SELECT document, passages.number, vector FROM passages"  # noqa: S608 - only marks
            " JOIN passage_vectors ON passage_vectors.hash = passages.hash"
            f" WHERE document IN ({marks(part)}) AND embedder = ? AND length(vector) = ?"
            " ORDER BY document, ordinal"
        )
        values = (*part, question.embedder, len(question.vector) // BYTES_EACH)
        found += connection.execute(query, values).fetchall()
    return found


def _scan(connection: SqlConnection, question: PassageQuestion, wanted: DocumentQuery) -> Sequence[int]:
    """Return the nearest passages where there is no numpy: read all, and compare one by one."""
    condition = wanted_documents(wanted)
    query = (
        "SELECT passages.number, vector FROM passage_vectors JOIN passages ON passages.hash = passage_vectors.hash"  # noqa: S608 - ours
        " JOIN documents ON documents.number = passages.document"
        f" WHERE embedder = ? AND length(vector) = ? AND {condition.sql}"
    )
    values = (question.embedder, len(question.vector) // BYTES_EACH, *condition.values)
    rows = connection.execute(query, values).fetchall()
    near = int8_similarities([bytes(vector) for _, vector in rows], question.vector)
    best = heapq.nlargest(question.limit, zip(near, rows, strict=True), key=lambda each: each[0])
    return [int(number) for _, (number, _) in best]
