"""The tables of passages, their words and their vectors.

A vector belongs to the hash of a text, and not to a passage: what stands in two documents is read once.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from agent_fabric.application.ports.embeddings import Vector
from agent_fabric.application.ports.memory import DocumentQuery, PassageQuestion, UnreadPassage
from agent_fabric.domain.errors import MemoryNotFound
from agent_fabric.domain.ids import DocumentId
from agent_fabric.domain.memory.documents import Document, DocumentState
from agent_fabric.domain.memory.passages import Passage, plan_replacement
from agent_fabric.domain.memory.ranking import Candidate
from agent_fabric.domain.memory.terms import terms_in
from agent_fabric.infrastructure.memory.embeddings.int8 import quantized
from agent_fabric.infrastructure.persistence.memory.documents import put_document, remove_passages
from agent_fabric.infrastructure.persistence.memory.passage_candidates import PassageCandidates
from agent_fabric.infrastructure.persistence.memory.passage_rows import COLUMNS, passage_from, passage_values
from agent_fabric.infrastructure.persistence.sql import Database, SqlConnection, marks, storable
from agent_fabric.infrastructure.persistence.text_search import TextSearch

_COUNT: Final = (
    "UPDATE documents SET embedded = (SELECT count(*) FROM passages JOIN passage_vectors"
    " ON passage_vectors.hash = passages.hash WHERE passages.document = documents.number"
    " AND passage_vectors.embedder = ?) WHERE state = ?"
)
_UNREAD: Final = """
    SELECT passages.hash, passages.ordinal, begins_at, ends_at, headings, text, documents.title
    FROM passages JOIN documents ON documents.number = passages.document
    WHERE passages.number IN (
        SELECT wanted.number FROM passages AS wanted JOIN documents AS its ON its.number = wanted.document
        WHERE NOT EXISTS (
            SELECT 1 FROM passage_vectors
            WHERE passage_vectors.hash = wanted.hash AND embedder = ? AND length(vector) = ?
        ) AND NOT EXISTS (
            SELECT 1 FROM passages AS same WHERE same.hash = wanted.hash AND same.number < wanted.number
        )
        ORDER BY its.created_at DESC, its.number, wanted.ordinal LIMIT ?
    )
    ORDER BY documents.created_at DESC, documents.number, passages.ordinal
    """
"""Texts are read only of those that are chosen: a large store has many more to put in order."""
_AT_ONCE: Final = 500
"""Hashes that are looked up with one query."""


class SqlPassageIndex:
    """PassageIndex over the database."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._candidates = PassageCandidates(database)

    async def replace(self, document: Document, passages: Sequence[Passage]) -> Document:
        search = self._database.dialect.text_search
        title = storable(document.title)
        stored = [replace(passage, text=storable(passage.text)) for passage in passages]
        new = replace(document, state=DocumentState.WORDS_READY, passages=len(passages), embedded=0)

        def write(connection: SqlConnection) -> None:
            query = (
                "UPDATE documents SET passages = ?, embedded = 0, revision = revision + 1 WHERE id = ? RETURNING number"
            )
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
            query = f"INSERT INTO passages (document, {COLUMNS}, hash) VALUES (?, ?, ?, ?, ?, ?, ?) RETURNING number"  # noqa: S608 - ours
            for added in plan.added:
                values = (row[0], *passage_values(added), added.hash(title))
                (number,) = connection.execute(query, values).fetchone()
                connection.execute(search.put_terms, (number, search.term_row(terms_in(added.indexed(title)))))
            remove_passages(connection, removed)

        await self._database.write(write)
        return new

    async def read(self, document_id: DocumentId, *, first: int = 0, last: int | None = None) -> Sequence[Passage]:
        query = (
            f"SELECT {COLUMNS} FROM passages JOIN documents ON documents.number = passages.document"  # noqa: S608 - ours
            " WHERE documents.id = ? AND ordinal >= ? AND (? OR ordinal <= ?) ORDER BY ordinal"
        )
        values = (document_id, first, last is None, last or 0)
        return await self._database.read(lambda connection: list(map(passage_from, connection.execute(query, values))))

    async def unread(self, embedder: str, *, dimensions: int, limit: int) -> Sequence[UnreadPassage]:
        def read(connection: SqlConnection) -> Sequence[UnreadPassage]:
            rows = connection.execute(_UNREAD, (embedder, dimensions, limit))
            return [UnreadPassage(row[0], passage_from(row[1:6]).indexed(row[6])) for row in rows]

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
            changed = _documents_with(connection, [hashed for hashed, _ in vectors])
            if changed:
                query = f"UPDATE documents SET revision = revision + 1 WHERE number IN ({marks(changed)})"  # noqa: S608 - only marks
                connection.execute(query, changed)
            # What has just been read concerns few documents; with nothing new, all that wait are counted.
            some = f" AND number IN ({marks(changed)})" if vectors else ""
            if changed or not vectors:
                connection.execute(_COUNT + some, (embedder, DocumentState.WORDS_READY.value, *changed))
            query = "UPDATE documents SET state = ? WHERE state = ? AND embedded = passages"
            connection.execute(query, (DocumentState.READY.value, DocumentState.WORDS_READY.value))

        await self._database.write(write)

    async def candidates(self, question: PassageQuestion, wanted: DocumentQuery) -> Sequence[Candidate]:
        return await self._database.read(lambda connection: self._candidates.choose(connection, question, wanted))

    def forget(self, document: int) -> None:
        """Forget what this process keeps of the vectors of a document that was erased, given as its number."""
        self._candidates.forget(document)


def _documents_with(connection: SqlConnection, hashes: Sequence[str]) -> list[int]:
    """Return the numbers of the documents that have a passage with one of these hashes."""
    found: set[int] = set()
    for start in range(0, len(hashes), _AT_ONCE):
        part = hashes[start : start + _AT_ONCE]
        query = f"SELECT DISTINCT document FROM passages WHERE hash IN ({marks(part)})"  # noqa: S608 - only marks
        found |= {int(number) for (number,) in connection.execute(query, part)}
    return sorted(found)


def index_words(connection: SqlConnection, search: TextSearch) -> None:
    """Index the words of all passages that are not indexed, such as those of a store that was copied."""
    query = (
        "SELECT passages.number, title, ordinal, begins_at, ends_at, headings, text FROM passages"
        " JOIN documents ON documents.number = passages.document"
        " WHERE NOT EXISTS (SELECT 1 FROM passage_words WHERE passage_words.rowid = passages.number)"
    )
    rows = connection.execute(query).fetchall()
    terms = ((row[0], search.term_row(terms_in(passage_from(row[2:]).indexed(row[1])))) for row in rows)
    connection.executemany(search.put_terms, list(terms))
