"""The tables of documents and facts as SQLAlchemy describes them; see `tables`."""

from pgvector.sqlalchemy import HALFVEC
from sqlalchemy import Column, ForeignKeyConstraint, Index, PrimaryKeyConstraint, Table
from sqlalchemy.dialects.postgresql import TSVECTOR

from agent_fabric.infrastructure.persistence.migrations.columns import METADATA, counter, number, octets, real, words

DOCUMENTS = Table(
    "documents",
    METADATA,
    counter("number"),
    words("id", unique=True),
    *(words(name) for name in ("owner", "visibility", "title", "source", "media_type", "content_hash")),
    number("size"),
    *(words(name) for name in ("state", "problem", "notes", "labels")),
    number("passages", default="0"),
    number("embedded", default="0"),
    words("run_id", null=True),
    real("created_at"),
    real("updated_at"),
    number("revision", default="0"),
)
Index("documents_of_owner", DOCUMENTS.c.owner, DOCUMENTS.c.created_at)
Table("document_labels", METADATA, number("document"), words("label"), PrimaryKeyConstraint("document", "label"))
PASSAGES = Table(
    "passages",
    METADATA,
    counter("number"),
    *(number(name) for name in ("document", "ordinal", "begins_at", "ends_at")),
    *(words(name) for name in ("headings", "text", "hash")),
)
Index("passages_of_document", PASSAGES.c.document, PASSAGES.c.ordinal)
Index("passages_by_hash", PASSAGES.c.hash)
PASSAGE_VECTORS = Table(
    "passage_vectors",
    METADATA,
    words("embedder"),
    words("hash"),
    octets("vector"),
    PrimaryKeyConstraint("embedder", "hash"),
)
Index("passage_vectors_by_hash", PASSAGE_VECTORS.c.hash)
PASSAGE_EMBEDDINGS = Table(
    "passage_embeddings",
    METADATA,
    number("passage"),
    words("embedder"),
    number("document"),
    Column("embedding", HALFVEC, nullable=False),
    PrimaryKeyConstraint("passage", "embedder"),
    ForeignKeyConstraint(["passage"], ["passages.number"], ondelete="CASCADE"),
)
"""There only where the extension is, and new enough."""
Index("passage_embeddings_of_document", PASSAGE_EMBEDDINGS.c.document)
PASSAGE_WORDS = Table("passage_words", METADATA, number("rowid", key=True), Column("terms", TSVECTOR, nullable=False))
Index("passage_words_terms", PASSAGE_WORDS.c.terms, postgresql_using="gin")
FACTS = Table(
    "facts",
    METADATA,
    words("id", key=True),
    *(words(name) for name in ("owner", "scope", "subject", "kind", "text")),
    words("source_run", null=True),
    number("source_seq"),
    *(words(name) for name in ("source_quote", "said_by", "untrusted", "status")),
    real("valid_from"),
    real("valid_to", null=True),
    real("created_at"),
    real("expires_at", null=True),
    words("reviewed_by"),
    words("supersedes", null=True),
    number("pinned"),
    octets("key", null=True),
)
Index("facts_of_owner", FACTS.c.owner, FACTS.c.status, FACTS.c.created_at)
MEMORY_USES = Table(
    "memory_uses",
    METADATA,
    words("item"),
    words("run_id"),
    real("used_at"),
    number("cited"),
    PrimaryKeyConstraint("item", "run_id"),
)
Index("memory_uses_of_run", MEMORY_USES.c.run_id)
RESPONSE_CACHE = Table("response_cache", METADATA, words("key", key=True), words("run_id"), real("created_at"))
Index("response_cache_age", RESPONSE_CACHE.c.created_at)
