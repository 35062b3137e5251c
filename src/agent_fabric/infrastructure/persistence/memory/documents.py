"""The table of documents."""

from collections.abc import Callable, Sequence
from typing import Any, Final

from agent_fabric.application.ports.memory import DocumentQuery
from agent_fabric.domain.errors import MemoryNotFound
from agent_fabric.domain.identity.ownership import EVERYTHING, Viewer, visibility_from
from agent_fabric.domain.ids import DocumentId, RunId
from agent_fabric.domain.memory.documents import Document, DocumentState
from agent_fabric.infrastructure.persistence.runs.run_visibility import visible_to
from agent_fabric.infrastructure.persistence.sql import Condition, Database, SqlConnection, marks, storable
from agent_fabric.wire.json_codec import dump_json, load_json

_COLUMNS: Final = (
    "id, owner, visibility, title, source, media_type, content_hash, size, state, problem, notes, labels, passages,"
    " embedded, run_id, created_at, updated_at"
)
_PUT: Final = (
    "INSERT INTO documents (id, owner, visibility, title, source, media_type, content_hash, size, state, problem,"
    " notes, labels, run_id, created_at, updated_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
    " ON CONFLICT (id) DO UPDATE SET visibility = excluded.visibility, title = excluded.title,"
    " media_type = excluded.media_type, content_hash = excluded.content_hash, size = excluded.size,"
    " state = excluded.state, problem = excluded.problem, notes = excluded.notes, labels = excluded.labels,"
    " run_id = excluded.run_id, updated_at = excluded.updated_at RETURNING number"
)
_LAST_CHARACTER: Final = "\U0010ffff"
_SEE_ALL: Final = "See all documents with `fabric memory list --documents`."


class SqlDocumentRepository:
    """DocumentRepository over the database."""

    def __init__(self, database: Database, on_removed: Callable[[int], None]) -> None:
        """Take the database, and who is told the number of a document that was removed."""
        self._database = database
        self._on_removed = on_removed

    async def put(self, document: Document) -> None:
        await self._database.write(lambda connection: put_document(connection, document))

    async def find(self, prefix: str, *, viewer: Viewer = EVERYTHING) -> Document:
        wanted, visible = storable(prefix), visible_to(viewer, "documents")
        query = f"SELECT {_COLUMNS} FROM documents WHERE id >= ? AND id < ? AND {visible.sql} ORDER BY id LIMIT 2"  # noqa: S608 - ours
        values = (wanted, wanted + _LAST_CHARACTER, *visible.values)
        rows = await self._database.read(lambda connection: connection.execute(query, values).fetchall())
        if not wanted or not rows:
            raise MemoryNotFound(f"There is no document {prefix!r}", hint=_SEE_ALL)
        if len(rows) > 1:
            raise MemoryNotFound(f"Several documents begin with {prefix!r}", hint="Give more characters of the id.")
        return document_from(rows[0])

    async def list(self, wanted: DocumentQuery) -> Sequence[Document]:
        condition = wanted_documents(wanted)
        query = f"SELECT {_COLUMNS} FROM documents WHERE {condition.sql} ORDER BY created_at DESC, id LIMIT ?"  # noqa: S608 - ours
        values = (*condition.values, wanted.limit)
        return await self._database.read(lambda connection: list(map(document_from, connection.execute(query, values))))

    async def remove(self, document_id: DocumentId) -> None:
        dialect = self._database.dialect
        erase, leave = dialect.erase_deleted

        def write(connection: SqlConnection) -> int:
            if erase:
                connection.execute(erase)
            if dialect.text_search.erase_terms:
                connection.execute(dialect.text_search.erase_terms)
            row = connection.execute("DELETE FROM documents WHERE id = ? RETURNING number", (document_id,)).fetchone()
            if row is None:
                raise MemoryNotFound(f"There is no document {document_id!r}", hint=_SEE_ALL)
            connection.execute("DELETE FROM document_labels WHERE document = ?", row)
            connection.execute("DELETE FROM memory_uses WHERE item = ?", (document_id,))
            query = "DELETE FROM passages WHERE document = ? RETURNING number, hash"
            remove_passages(connection, connection.execute(query, row).fetchall())
            if leave:
                connection.execute(leave)
            return int(row[0])

        self._on_removed(await self._database.write(write))
        await self._database.truncate_log()


def put_document(connection: SqlConnection, document: Document) -> None:
    """Write a document, apart from the counts of its passages."""
    values = (
        document.document_id,
        storable(document.owner),
        document.visibility.value,
        storable(document.title),
        storable(document.source),
        storable(document.media_type),
        document.content_hash,
        document.size,
        document.state.value,
        storable(document.problem),
        _texts(document.notes),
        _texts(document.labels),
        document.run_id,
        document.created_at,
        document.updated_at,
    )
    number = connection.execute(_PUT, values).fetchone()[0]
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
    parts, values = [visible.sql], [*visible.values]
    if wanted.owner:
        parts.append("documents.owner = ?")
        values.append(wanted.owner)
    if wanted.labels:
        parts.append(
            "EXISTS (SELECT 1 FROM document_labels WHERE document_labels.document = documents.number"  # noqa: S608 - only marks
            f" AND label IN ({marks(wanted.labels)}))"
        )
        values += wanted.labels
    if wanted.documents:
        parts.append(f"documents.id IN ({marks(wanted.documents)})")
        values += wanted.documents
    if wanted.content_hash:
        parts.append("documents.content_hash = ?")
        values.append(wanted.content_hash)
    return Condition(" AND ".join(parts), tuple(values))


def document_from(row: Sequence[Any]) -> Document:
    """Return the document of a row."""
    document_id, owner, visibility, title, source, media_type, content_hash, size, state, problem, *rest = row
    notes, labels, passages, embedded, run_id, created_at, updated_at = rest
    return Document(
        document_id=DocumentId(document_id),
        owner=owner,
        visibility=visibility_from(visibility),
        title=title,
        source=source,
        media_type=media_type,
        content_hash=content_hash,
        size=size,
        state=_STATES.get(state, DocumentState.PARSING),
        problem=problem,
        notes=tuple(load_json(notes.encode())),
        labels=tuple(load_json(labels.encode())),
        passages=passages,
        embedded=embedded,
        run_id=None if run_id is None else RunId(run_id),
        created_at=created_at,
        updated_at=updated_at,
    )


def _texts(texts: Sequence[str]) -> str:
    return dump_json([storable(text) for text in texts]).decode()


_STATES: Final = {each.value: each for each in DocumentState}
