"""The table of documents."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Any, Final

from agent_fabric.application.ports.memory import DocumentQuery
from agent_fabric.domain.errors import MemoryNotFound
from agent_fabric.domain.identity.ownership import EVERYTHING, Viewer, visibility_from
from agent_fabric.domain.ids import DocumentId
from agent_fabric.domain.memory.documents import Document, DocumentState
from agent_fabric.infrastructure.persistence.runs.run_visibility import visible_to
from agent_fabric.infrastructure.persistence.sql import Condition, Database, SqlConnection, erasing, marks, storable
from agent_fabric.infrastructure.persistence.table import Codec, Table, begins_with, json_text, matching

_TEXTS: Final = json_text(tuple, lambda texts: [storable(each) for each in texts])
_STATES: Final = {each.value: each for each in DocumentState}
_COUNTED: Final = {"passages", "embedded"}
_KEPT: Final = {"id", "owner", "source", "created_at"}
"""What is never changed."""


def _split(document: Document) -> Mapping[str, Any]:
    named = {
        "id" if each.name == "document_id" else each.name: getattr(document, each.name) for each in fields(document)
    }
    return {name: value for name, value in named.items() if name not in _COUNTED}


_DOCUMENTS: Final = Table(
    "documents",
    Document,
    key="id",
    renamed={"document_id": "id"},
    split=_split,
    visibility=Codec(visibility_from),
    state=Codec(lambda stored: _STATES.get(stored, DocumentState.PARSING)),
    notes=_TEXTS,
    labels=_TEXTS,
)
_CHANGING: Final = tuple(name for name in _DOCUMENTS.columns if name not in _KEPT | _COUNTED)
_SEE_ALL: Final = "See all documents with `fabric memory list --documents`."


class SqlDocumentRepository:
    """DocumentRepository over the database."""

    def __init__(self, database: Database, on_removed: Callable[[int], None]) -> None:
        """Take the database, and who is told the number of a document that was removed."""
        self._database = database
        self._documents = _DOCUMENTS.within(database)
        self._on_removed = on_removed

    async def put(self, document: Document) -> None:
        await self._database.write(lambda connection: put_document(connection, document))

    async def find(self, prefix: str, *, viewer: Viewer = EVERYTHING) -> Document:
        begins, visible = begins_with("id", prefix), visible_to(viewer, "documents")
        rest = f"WHERE {begins.sql} AND {visible.sql} ORDER BY id LIMIT 2"
        found = await self._documents.rows(rest, *begins.values, *visible.values)
        if not prefix or not found:
            raise MemoryNotFound(f"There is no document {prefix!r}", hint=_SEE_ALL)
        if len(found) > 1:
            raise MemoryNotFound(f"Several documents begin with {prefix!r}", hint="Give more characters of the id.")
        return found[0]

    async def list(self, wanted: DocumentQuery) -> Sequence[Document]:
        condition = wanted_documents(wanted)
        rest = f"WHERE {condition.sql} ORDER BY created_at DESC, id LIMIT ?"
        return await self._documents.rows(rest, *condition.values, wanted.limit)

    async def remove(self, document_id: DocumentId) -> None:
        dialect = self._database.dialect

        def write(connection: SqlConnection) -> int:
            with erasing(connection, dialect):
                if dialect.text_search.erase_terms:
                    connection.execute(dialect.text_search.erase_terms)
                query = "DELETE FROM documents WHERE id = ? RETURNING number"
                row = connection.execute(query, (document_id,)).fetchone()
                if row is None:
                    raise MemoryNotFound(f"There is no document {document_id!r}", hint=_SEE_ALL)
                connection.execute("DELETE FROM document_labels WHERE document = ?", row)
                connection.execute("DELETE FROM memory_uses WHERE item = ?", (document_id,))
                query = "DELETE FROM passages WHERE document = ? RETURNING number, hash"
                remove_passages(connection, connection.execute(query, row).fetchall())
            return int(row[0])

        self._on_removed(await self._database.write(write))
        await self._database.truncate_log()


def put_document(connection: SqlConnection, document: Document) -> None:
    """Write a document, apart from the counts of its passages."""
    _DOCUMENTS.put(connection, document, changes=_CHANGING)
    query = "SELECT number FROM documents WHERE id = ?"
    number = connection.execute(query, (document.document_id,)).fetchone()[0]
    connection.execute("DELETE FROM document_labels WHERE document = ?", (number,))
    rows = [(number, storable(label)) for label in document.labels]
    connection.executemany("INSERT INTO document_labels (document, label) VALUES (?, ?)", rows)


def remove_passages(connection: SqlConnection, rows: Sequence[tuple[int, str]]) -> None:
    """Remove the words of passages, whose rows are gone already, and the vectors that no other passage has."""
    connection.executemany("DELETE FROM passage_words WHERE rowid = ?", [(number,) for number, _ in rows])
    connection.executemany(
        "DELETE FROM passage_vectors WHERE hash = ? AND NOT EXISTS (SELECT 1 FROM passages WHERE passages.hash = ?)",
        [(hashed, hashed) for hashed in {hashed for _, hashed in rows}],
    )


def wanted_documents(wanted: DocumentQuery) -> Condition:
    """Return the condition under which a document is listed or searched."""
    visible = visible_to(wanted.viewer, "documents")
    sought = {"owner": wanted.owner, "id": wanted.documents, "content_hash": wanted.content_hash}
    same = matching(**{f"documents.{column}": value for column, value in sought.items()})
    parts, values = [visible.sql, same.sql], [*visible.values, *same.values]
    if wanted.labels:
        parts.append(
            "EXISTS (SELECT 1 FROM document_labels WHERE document_labels.document = documents.number"  # noqa: S608 - only marks
            f" AND label IN ({marks(wanted.labels)}))"
        )
        values += wanted.labels
    return Condition(" AND ".join(parts), tuple(values))
