"""The tables of passages, their words and their vectors, and which passages may answer a question.

A vector belongs to the hash of a text, and not to a passage: what stands in two documents is read once.
"""

import heapq
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from agent_fabric.application.ports.embeddings import Vector
from agent_fabric.application.ports.memory import DocumentQuery, MemoryStore, PassageQuestion, UnreadPassage
from agent_fabric.domain.errors import MemoryNotFound
from agent_fabric.domain.ids import DocumentId
from agent_fabric.domain.memory.documents import Document, DocumentState
from agent_fabric.domain.memory.passages import Passage, plan_replacement
from agent_fabric.domain.memory.ranking import Candidate, shared_by_family
from agent_fabric.domain.memory.terms import family_of, terms_in
from agent_fabric.infrastructure.memory.embeddings.vector_blocks import VectorBlocks, int8_similarities, quantize
from agent_fabric.infrastructure.models.embeddings.vectors import BYTES_EACH, find_numpy
from agent_fabric.infrastructure.persistence.dialects import POSTGRESQL
from agent_fabric.infrastructure.persistence.memory.documents import (
    SqlDocumentRepository,
    put_document,
    remove_passages,
    wanted_documents,
)
from agent_fabric.infrastructure.persistence.memory.facts import SqlFactRepository, SqlMemoryUses
from agent_fabric.infrastructure.persistence.memory.passage_embeddings import has_passage_embeddings, nearest_passages
from agent_fabric.infrastructure.persistence.sql import Database, SqlConnection, marks, storable
from agent_fabric.infrastructure.persistence.text_search import TextSearch
from agent_fabric.wire.json_codec import dump_json, load_json

COLUMNS: Final = "ordinal, begins_at, ends_at, headings, text"


def passage_values(passage: Passage) -> tuple[Any, ...]:
    """Return the values of the columns."""
    headings = dump_json([storable(each) for each in passage.headings]).decode()
    return passage.ordinal, passage.start, passage.end, headings, passage.text


def passage_from(row: Sequence[Any]) -> Passage:
    """Return the passage of a row."""
    ordinal, start, end, headings, text = row
    return Passage(ordinal=ordinal, start=start, end=end, headings=tuple(load_json(headings.encode())), text=text)


_AT_ONCE: Final = 500
"""Passages, documents or hashes that are read with one query."""
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
        shared = frozenset.intersection if question.embedder else shared_by_family
        meanings = {row[0]: score for row, score in zip(comparable, near, strict=True)}
        found = {
            row[0]: Candidate(
                DocumentId(row[1]),
                row[3],
                passage_from(row[3:8]).text_to_index(row[2]),
                meanings.get(row[0]),
                shared(question.terms, (row[8] or "").split(" ")),
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
        # Where nothing compares meaning, other words of the same stem are found, too.
        match = self._search.with_terms(terms) if question.embedder else self._search.with_stems(map(family_of, terms))
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
                connection.execute(search.put_terms, (number, search.term_row(terms_in(added.text_to_index(title)))))
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
            return [UnreadPassage(row[0], passage_from(row[1:6]).text_to_index(row[6])) for row in rows]

        return await self._database.read(read)

    async def keep(self, embedder: str, vectors: Sequence[tuple[str, Vector]]) -> None:
        rows = [(embedder, hashed, quantize(vector), hashed) for hashed, vector in vectors]

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


def open_memory(database: Database) -> MemoryStore:
    """Return the tables of documents and facts."""
    passages = SqlPassageIndex(database)
    return MemoryStore(
        documents=SqlDocumentRepository(database, passages.forget),
        passages=passages,
        facts=SqlFactRepository(database),
        uses=SqlMemoryUses(database),
    )


def index_words(connection: SqlConnection, search: TextSearch) -> None:
    """Index the words of all passages that are not indexed, such as those of a store that was copied."""
    query = (
        "SELECT passages.number, title, ordinal, begins_at, ends_at, headings, text FROM passages"
        " JOIN documents ON documents.number = passages.document"
        " WHERE NOT EXISTS (SELECT 1 FROM passage_words WHERE passage_words.rowid = passages.number)"
    )
    rows = connection.execute(query).fetchall()
    terms = ((row[0], search.term_row(terms_in(passage_from(row[2:]).text_to_index(row[1])))) for row in rows)
    connection.executemany(search.put_terms, list(terms))
