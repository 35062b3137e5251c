"""Passages nearest to a question, compared by PostgreSQL where its extension `vector` is installed.

The table `passage_embeddings` is an index over `passage_vectors`. Triggers keep it, so that it is always right:
a process of an older release, a copied store, a restored dump. Every vector is compared, there is no approximate index:
that would choose among all passages first, and look for those of the right owner afterwards (ADR 0068). A `halfvec`,
which pgvector has since 0.7, is two bytes a number; a signed byte stays what it is.
"""

from array import array
from collections.abc import Sequence
from typing import Any, Final

from agent_fabric.application.ports.embeddings import Vector
from agent_fabric.application.ports.memory import DocumentQuery, PassageQuestion
from agent_fabric.infrastructure.models.embeddings.vectors import BYTES_EACH, unpack_vector
from agent_fabric.infrastructure.persistence.memory.documents import wanted_documents
from agent_fabric.infrastructure.persistence.sql import SqlConnection

# 8,160 keeps vectors of up to 4,000 numbers beside their row: fetching them from elsewhere takes ten times as long.
PREPARE_PASSAGE_EMBEDDINGS: Final = """
DO $prepare$
BEGIN
    IF to_regtype('halfvec') IS NULL THEN
        RETURN;
    END IF;

    CREATE OR REPLACE FUNCTION passage_embedding(vector BYTEA) RETURNS halfvec
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $body$
        SELECT CAST(ARRAY(
            SELECT ((get_byte(vector, place) + 128) & 255) - 128 FROM generate_series(0, length(vector) - 1) AS place
            ORDER BY place
        ) AS halfvec)
    $body$;

    CREATE OR REPLACE FUNCTION index_passage_vectors() RETURNS TRIGGER LANGUAGE plpgsql AS $body$
    BEGIN
        INSERT INTO passage_embeddings (passage, embedder, document, embedding)
        SELECT passages.number, changed.embedder, passages.document, passage_embedding(changed.vector)
        FROM changed JOIN passages ON passages.hash = changed.hash
        WHERE length(changed.vector) BETWEEN 1 AND 16000
        ON CONFLICT (passage, embedder) DO UPDATE SET embedding = excluded.embedding;
        RETURN NULL;
    END
    $body$;

    CREATE OR REPLACE FUNCTION index_new_passages() RETURNS TRIGGER LANGUAGE plpgsql AS $body$
    BEGIN
        INSERT INTO passage_embeddings (passage, embedder, document, embedding)
        SELECT added.number, passage_vectors.embedder, added.document, passage_embedding(passage_vectors.vector)
        FROM added JOIN passage_vectors ON passage_vectors.hash = added.hash
        WHERE length(passage_vectors.vector) BETWEEN 1 AND 16000
        ON CONFLICT (passage, embedder) DO NOTHING;
        RETURN NULL;
    END
    $body$;

    IF to_regclass('passage_embeddings') IS NOT NULL THEN
        RETURN;
    END IF;
    CREATE TABLE passage_embeddings (
        passage   BIGINT NOT NULL REFERENCES passages (number) ON DELETE CASCADE,
        embedder  TEXT COLLATE "C" NOT NULL,
        document  BIGINT NOT NULL,
        embedding halfvec NOT NULL,
        PRIMARY KEY (passage, embedder)
    ) WITH (toast_tuple_target = 8160);
    CREATE INDEX passage_embeddings_of_document ON passage_embeddings (document);
    CREATE TRIGGER passage_vectors_added AFTER INSERT ON passage_vectors
        REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION index_passage_vectors();
    CREATE TRIGGER passage_vectors_changed AFTER UPDATE ON passage_vectors
        REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION index_passage_vectors();
    CREATE TRIGGER passages_added AFTER INSERT ON passages
        REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION index_new_passages();
    INSERT INTO passage_embeddings (passage, embedder, document, embedding)
    SELECT passages.number, passage_vectors.embedder, passages.document, passage_embedding(passage_vectors.vector)
    FROM passages JOIN passage_vectors ON passage_vectors.hash = passages.hash
    WHERE length(passage_vectors.vector) BETWEEN 1 AND 16000;
END
$prepare$
"""
"""Makes the index, and fills it, where the extension can hold it: part of a migration."""

_HAS_INDEX: Final = "SELECT to_regclass('passage_embeddings') IS NOT NULL"


def has_passage_embeddings(connection: SqlConnection) -> bool:
    """Tell whether this PostgreSQL compares the vectors of passages."""
    return bool(connection.execute(_HAS_INDEX).fetchone()[0])


def nearest_passages(connection: Any, question: PassageQuestion, wanted: DocumentQuery) -> Sequence[int]:
    """Return the numbers of the nearest passages, the best first. The documents that may be seen narrow the choice."""
    condition = wanted_documents(wanted)
    query = (
        "SELECT passage FROM passage_embeddings WHERE embedder = ? AND vector_dims(embedding) = ?"  # noqa: S608 - ours
        f" AND document IN (SELECT number FROM documents WHERE {condition.sql})"
        " ORDER BY embedding <=> CAST(? AS halfvec), passage LIMIT ?"
    )
    dimensions = len(question.vector) // BYTES_EACH
    values = (question.embedder, dimensions, *condition.values, vector_literal(question.vector), question.limit)
    return [int(number) for (number,) in connection.execute(query, values)]


def vector_literal(vector: Vector) -> str:
    """Return a vector as the extension reads it."""
    numbers: array[float] = unpack_vector(vector)
    return f"[{','.join(map(repr, numbers))}]"
