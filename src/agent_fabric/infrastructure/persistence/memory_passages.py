"""The tables of passages, their words and their vectors.

A vector belongs to the hash of a text, and not to a passage: what stands in two documents is read once.
"""

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Final

from agent_fabric.application.ports.embeddings import Vector
from agent_fabric.application.ports.memory import DocumentQuery, PassageQuestion, UnreadPassage
from agent_fabric.domain.errors import MemoryNotFound
from agent_fabric.domain.ids import DocumentId
from agent_fabric.domain.memory.documents import Document, DocumentState
from agent_fabric.domain.memory.passages import Passage, plan_replacement
from agent_fabric.domain.memory.ranking import Candidate
from agent_fabric.domain.memory.terms import terms_in
from agent_fabric.infrastructure.embeddings.int8 import int8_similarities, quantized
from agent_fabric.infrastructure.embeddings.vectors import BYTES_EACH
from agent_fabric.infrastructure.json_codec import dump_json, load_json
from agent_fabric.infrastructure.persistence.memory_documents import put_document, remove_passages, wanted_documents
from agent_fabric.infrastructure.persistence.sql import Database, SqlConnection, marks, storable
from agent_fabric.infrastructure.persistence.text_search import TextSearch

_COLUMNS: Final = "ordinal, begins_at, ends_at, headings, text"
_COUNT: Final = (
    "UPDATE documents SET embedded = (SELECT count(*) FROM passages JOIN passage_vectors"
    " ON passage_vectors.hash = passages.hash WHERE passages.document = documents.number"
    " AND passage_vectors.embedder = ?) WHERE state = ?"
)
_AT_ONCE: Final = 500
"""Passages that are read with one query."""


class SqlPassageIndex:
    """PassageIndex over the database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def replace(self, document: Document, passages: Sequence[Passage]) -> Document:
        search = self._database.dialect.text_search
        title = storable(document.title)
        stored = [replace(passage, text=storable(passage.text)) for passage in passages]
        new = replace(document, state=DocumentState.WORDS_READY, passages=len(passages), embedded=0)

        def write(connection: SqlConnection) -> None:
            query = "UPDATE documents SET passages = ?, embedded = 0 WHERE id = ? RETURNING number"
            row = connection.execute(query, (len(stored), document.document_id)).fetchone()
            if row is None:
                raise MemoryNotFound(f"There is no document {document.document_id!r}")
            put_document(connection, new)
            query = "SELECT number, hash FROM passages WHERE document = ? ORDER BY ordinal"
            plan = plan_replacement(connection.execute(query, row).fetchall(), stored, title)
            removed = [
                connection.execute("DELETE FROM passages WHERE number = ? RETURNING number, hash", (number,)).fetchone()
                for number in plan.removed
            ]
            connection.executemany(
                "UPDATE passages SET ordinal = ?, begins_at = ?, ends_at = ? WHERE number = ?",
                [(kept.ordinal, kept.start, kept.end, number) for number, kept in plan.kept],
            )
            query = f"INSERT INTO passages (document, {_COLUMNS}, hash) VALUES (?, ?, ?, ?, ?, ?, ?) RETURNING number"  # noqa: S608 - ours
            for added in plan.added:
                values = (row[0], *_values(added), added.hash(title))
                (number,) = connection.execute(query, values).fetchone()
                connection.execute(search.put_terms, (number, search.term_row(terms_in(added.indexed(title)))))
            remove_passages(connection, removed)

        await self._database.write(write)
        return new

    async def read(self, document_id: DocumentId, *, first: int = 0, last: int | None = None) -> Sequence[Passage]:
        query = (
            f"SELECT {_COLUMNS} FROM passages JOIN documents ON documents.number = passages.document"  # noqa: S608 - ours
            " WHERE documents.id = ? AND ordinal >= ? AND (? OR ordinal <= ?) ORDER BY ordinal"
        )
        values = (document_id, first, last is None, last or 0)
        return await self._database.read(lambda connection: list(map(_passage, connection.execute(query, values))))

    async def unread(self, embedder: str, *, dimensions: int, limit: int) -> Sequence[UnreadPassage]:
        query = (
            "SELECT passages.hash, ordinal, begins_at, ends_at, headings, text, documents.title FROM passages"
            " JOIN documents ON documents.number = passages.document WHERE NOT EXISTS (SELECT 1 FROM passage_vectors"
            " WHERE passage_vectors.hash = passages.hash AND embedder = ? AND length(vector) = ?)"
            " AND NOT EXISTS (SELECT 1 FROM passages AS same"
            " WHERE same.hash = passages.hash AND same.number < passages.number)"
            " ORDER BY documents.created_at DESC, documents.number, ordinal LIMIT ?"
        )

        def read(connection: SqlConnection) -> Sequence[UnreadPassage]:
            rows = connection.execute(query, (embedder, dimensions, limit))
            return [UnreadPassage(row[0], _passage(row[1:6]).indexed(row[6])) for row in rows]

        return await self._database.read(read)

    async def keep(self, embedder: str, vectors: Sequence[tuple[str, Vector]]) -> None:
        rows = [(embedder, hashed, quantized(vector), hashed) for hashed, vector in vectors]

        def write(connection: SqlConnection) -> None:
            # The document may have been removed while it was read.
            connection.executemany(
                "INSERT INTO passage_vectors (embedder, hash, vector) SELECT ?, ?, ?"
                " WHERE EXISTS (SELECT 1 FROM passages WHERE hash = ?)"
                " ON CONFLICT (embedder, hash) DO UPDATE SET vector = excluded.vector",
                rows,
            )
            connection.execute(_COUNT, (embedder, DocumentState.WORDS_READY.value))
            query = "UPDATE documents SET state = ? WHERE state = ? AND embedded = passages"
            connection.execute(query, (DocumentState.READY.value, DocumentState.WORDS_READY.value))

        await self._database.write(write)

    async def candidates(self, question: PassageQuestion, wanted: DocumentQuery) -> Sequence[Candidate]:
        return await self._database.read(lambda connection: self._candidates(connection, question, wanted))

    def _candidates(
        self, connection: SqlConnection, question: PassageQuestion, wanted: DocumentQuery
    ) -> Sequence[Candidate]:
        chosen = dict.fromkeys(self._by_words(connection, question, wanted))
        if question.embedder and question.vector:
            chosen |= dict.fromkeys(self._by_meaning(connection, question, wanted))
        rows = _rows(connection, question.embedder, list(chosen))
        comparable = [row for row in rows if row[8] is not None and len(row[8]) * BYTES_EACH == len(question.vector)]
        near = int8_similarities([bytes(row[8]) for row in comparable], question.vector)
        meanings = {row[0]: score for row, score in zip(comparable, near, strict=True)}
        found = {
            row[0]: Candidate(DocumentId(row[1]), row[3], _passage(row[3:8]).indexed(row[2]), meanings.get(row[0]))
            for row in rows
        }
        return [found[number] for number in chosen if number in found]

    def _by_words(self, connection: SqlConnection, question: PassageQuestion, wanted: DocumentQuery) -> list[int]:
        if not question.terms:
            return []
        match = self._database.dialect.text_search.with_terms(sorted(map(storable, question.terms)))
        condition = wanted_documents(wanted)
        query = (
            "SELECT passages.number FROM passage_words JOIN passages ON passages.number = passage_words.rowid"  # noqa: S608 - ours
            " JOIN documents ON documents.number = passages.document"
            f" WHERE {match.condition.sql} AND {condition.sql} ORDER BY {match.order.sql} LIMIT ?"
        )
        values = (*match.condition.values, *condition.values, *match.order.values, question.limit)
        return [int(number) for (number,) in connection.execute(query, values)]

    def _by_meaning(self, connection: SqlConnection, question: PassageQuestion, wanted: DocumentQuery) -> Iterable[int]:
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


def index_words(connection: SqlConnection, search: TextSearch) -> None:
    """Index the words of all passages that are not indexed, such as those of a store that was copied."""
    query = (
        "SELECT passages.number, title, ordinal, begins_at, ends_at, headings, text FROM passages"
        " JOIN documents ON documents.number = passages.document"
        " WHERE NOT EXISTS (SELECT 1 FROM passage_words WHERE passage_words.rowid = passages.number)"
    )
    rows = connection.execute(query).fetchall()
    terms = ((row[0], search.term_row(terms_in(_passage(row[2:]).indexed(row[1])))) for row in rows)
    connection.executemany(search.put_terms, list(terms))


def _rows(connection: SqlConnection, embedder: str, numbers: Sequence[int]) -> list[Any]:
    """Return what candidates are made of: number, document, title, the passage, and its vector."""
    found: list[Any] = []
    for start in range(0, len(numbers), _AT_ONCE):
        part = numbers[start : start + _AT_ONCE]
        query = (
            "SELECT passages.number, documents.id, documents.title, ordinal, begins_at, ends_at, headings, text, vector"  # noqa: S608 - only marks
            " FROM passages JOIN documents ON documents.number = passages.document LEFT JOIN passage_vectors"
            " ON passage_vectors.hash = passages.hash AND embedder = ?"
            f" WHERE passages.number IN ({marks(part)})"
        )
        found += connection.execute(query, (embedder, *part)).fetchall()
    return found


def _values(passage: Passage) -> tuple[Any, ...]:
    headings = dump_json([storable(each) for each in passage.headings]).decode()
    return passage.ordinal, passage.start, passage.end, headings, passage.text


def _passage(row: Sequence[Any]) -> Passage:
    ordinal, start, end, headings, text = row
    return Passage(ordinal=ordinal, start=start, end=end, headings=tuple(load_json(headings.encode())), text=text)
