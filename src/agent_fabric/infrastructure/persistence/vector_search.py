"""How vectors are compared: here, or in PostgreSQL where its extension `vector` is installed.

The extension's table `embeddings` is an index over `run_vectors`: every search first puts in what is missing, and a
vector that is deleted is deleted from it, too.
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from agent_fabric.application.ports.embeddings import Vector
from agent_fabric.infrastructure.models.embeddings.vectors import BYTES_EACH, similarities
from agent_fabric.infrastructure.persistence.dialects import POSTGRESQL, Dialect
from agent_fabric.infrastructure.persistence.memory.passage_embeddings import vector_literal

MAX_ROWS: Final = 500
"""Vectors that are put into the index in one transaction."""

PREPARE_VECTORS: Final = """
DO $$
BEGIN
    IF EXISTS (SELECT 1 FROM pg_available_extensions WHERE name = 'vector') THEN
        BEGIN
            CREATE EXTENSION IF NOT EXISTS vector;
        EXCEPTION WHEN insufficient_privilege THEN
            NULL;
        END;
    END IF;
    IF EXISTS (SELECT 1 FROM pg_extension WHERE extname = 'vector') THEN
        CREATE TABLE IF NOT EXISTS embeddings (
            run       BIGINT NOT NULL,
            embedder  TEXT COLLATE "C" NOT NULL,
            embedding vector NOT NULL,
            PRIMARY KEY (embedder, run),
            FOREIGN KEY (embedder, run) REFERENCES run_vectors (embedder, run) ON DELETE CASCADE
        );
    END IF;
END
$$
"""
"""Makes the index of vectors, where the extension is installed and this user may use it: part of a migration."""

_HAS_INDEX: Final = "SELECT to_regclass('embeddings') IS NOT NULL"
_MISSING: Final = (
    "SELECT run, vector FROM run_vectors AS kept WHERE embedder = ? AND NOT EXISTS (SELECT 1 FROM embeddings AS found"  # noqa: S608 - ours
    " WHERE found.embedder = kept.embedder AND found.run = kept.run"
    f" AND vector_dims(found.embedding) * {BYTES_EACH} = length(kept.vector)) ORDER BY run LIMIT ?"
)
_PUT: Final = (
    "INSERT INTO embeddings (run, embedder, embedding) SELECT run, embedder, CAST(? AS vector) FROM run_vectors"
    " WHERE run = ? AND embedder = ? ON CONFLICT (embedder, run) DO UPDATE SET embedding = excluded.embedding"
)


class Wanted(NamedTuple):
    """What is looked for."""

    embedder: str
    question: Vector
    limit: int
    """How many of the nearest are needed."""
    beside: Sequence[int]
    """Runs whose nearness is needed as well, however far they are."""
    condition: str = ""
    """Condition on `run`; empty: all may be found."""
    values: tuple[Any, ...] = ()
    """Of its question marks."""


class ScannedVectors:
    """Reads all vectors and compares them in this process. `connection` is an SqlConnection."""

    def catch_up(self, connection: Any, embedder: str) -> bool:  # noqa: ARG002 - there is no index
        """Put vectors that were kept since the last time into the index; False: all are in it. Inside a transaction."""
        return False

    def is_behind(self, connection: Any, embedder: str) -> bool:  # noqa: ARG002 - as above
        """Tell whether `catch_up` has something to do."""
        return False

    def scores(self, connection: Any, wanted: Wanted) -> dict[int, float]:
        """Return the cosine with the question of the nearest runs, and of those beside; maybe of others."""
        query = f"SELECT run, vector FROM run_vectors WHERE embedder = ? AND length(vector) = ?{_and(wanted)}"  # noqa: S608 - ours
        rows = list(connection.execute(query, (wanted.embedder, len(wanted.question), *wanted.values)))
        near = similarities([bytes(vector) for _, vector in rows], wanted.question)
        return {run: score for (run, _), score in zip(rows, near, strict=True)}


class PgVectors:
    """The same with the extension `vector`, or without it as anywhere else."""

    def is_behind(self, connection: Any, embedder: str) -> bool:
        return _has_index(connection) and connection.execute(_MISSING, (embedder, 1)).fetchone() is not None

    def catch_up(self, connection: Any, embedder: str) -> bool:
        rows = connection.execute(_MISSING, (embedder, MAX_ROWS)).fetchall()
        connection.executemany(_PUT, [(vector_literal(bytes(vector)), run, embedder) for run, vector in rows])
        return len(rows) == MAX_ROWS

    def scores(self, connection: Any, wanted: Wanted) -> dict[int, float]:
        if not _has_index(connection):
            return ScannedVectors().scores(connection, wanted)
        asked = vector_literal(wanted.question)
        # A vector of no length is near to nothing; its cosine is no number.
        query = (
            "SELECT run, coalesce(nullif(1 - (embedding <=> CAST(? AS vector)), 'NaN'), 0) FROM embeddings"  # noqa: S608 - ours
            f" WHERE embedder = ? AND vector_dims(embedding) = ?{_and(wanted)}"
        )
        values = (asked, wanted.embedder, len(wanted.question) // BYTES_EACH, *wanted.values)
        rows = connection.execute(f"{query} ORDER BY 2 DESC LIMIT ?", (*values, wanted.limit)).fetchall()
        if wanted.beside:
            rows += connection.execute(f"{query} AND run = ANY(?)", (*values, list(wanted.beside))).fetchall()
        return {int(run): float(score) for run, score in rows}


def vector_search_of(dialect: Dialect) -> ScannedVectors | PgVectors:
    """Return how a database compares vectors."""
    return PgVectors() if dialect is POSTGRESQL else ScannedVectors()


def _and(wanted: Wanted) -> str:
    return f" AND {wanted.condition}" if wanted.condition else ""


def _has_index(connection: Any) -> bool:
    return bool(connection.execute(_HAS_INDEX).fetchone()[0])
