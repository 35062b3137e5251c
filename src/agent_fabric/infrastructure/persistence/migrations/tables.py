"""The tables as SQLAlchemy describes them, for migrations only: the product never imports this.

They are read from an empty store that the `steps` have made in memory, so that alembic can say what a database differs
in. Only what PostgreSQL has in its own way is described here.
"""

import re
from collections.abc import Collection
from typing import Any, Final

import apsw
from pgvector.sqlalchemy import HALFVEC, VECTOR
from sqlalchemy import (
    BigInteger,
    Column,
    Computed,
    Double,
    ForeignKeyConstraint,
    Identity,
    Index,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    UniqueConstraint,
    text,
)
from sqlalchemy.dialects.postgresql import TSVECTOR

from agent_fabric.infrastructure.persistence.schema import read_steps

OF_EXTENSION: Final = ("embeddings", "passage_embeddings")
"""There only where the extension is."""
_TYPES: Final = {"INTEGER": BigInteger, "TEXT": Text, "REAL": Double, "BLOB": LargeBinary}


def describe_tables(*, left_out: Collection[str] = ()) -> MetaData:
    """Return all tables but those that a database without the extension, or with an old one, does not have."""
    metadata = MetaData()
    store = apsw.Connection(":memory:")
    for step in read_steps():
        store.execute(step)
    names = "SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'table' AND name NOT LIKE 'sqlite_%'"
    for (name,) in store.execute(names).fetchall():
        _describe(metadata, store, str(name))
    _describe_own(metadata)
    for name in left_out:
        metadata.remove(metadata.tables[name])
    return metadata


def _describe(metadata: MetaData, store: apsw.Connection, name: str) -> None:
    """Describe a table that both databases have."""
    (made,) = store.execute("SELECT sql FROM sqlite_master WHERE name = ?", (name,)).fetchall()
    rows: list[Any] = store.execute(f"PRAGMA table_info({name})").fetchall()
    keys = [column for _, column, *_, place in sorted(rows, key=lambda row: row[-1]) if place]
    columns = []
    for _, column, kind, required, default, place in rows:
        counted = [Identity(always=False)] if place and "AUTOINCREMENT" in str(made) else []
        given = None if default is None else text(default)
        is_null = not required and not place
        columns.append(Column(column, _TYPES[kind], *counted, nullable=is_null, server_default=given))
    found = Table(name, metadata, *columns, *([PrimaryKeyConstraint(*keys)] if keys else []))
    for _, index, is_unique, origin, _ in store.execute(f"PRAGMA index_list({name})").fetchall():
        over = [str(row[2]) for row in store.execute(f"PRAGMA index_info({index})")]
        if origin == "u":
            found.append_constraint(UniqueConstraint(*over))
        elif origin == "c":
            (sql,) = store.execute("SELECT sql FROM sqlite_master WHERE name = ?", (index,)).fetchall()
            where = re.search(r"\sWHERE\s(.*)", str(sql[0]), re.DOTALL)
            condition = None if where is None else text(where[1])
            Index(str(index), *(found.c[each] for each in over), unique=bool(is_unique), postgresql_where=condition)


def _describe_own(metadata: MetaData) -> None:
    """Describe what only PostgreSQL has: how it finds words and vectors, and where it keeps its format."""

    def number(name: str, **more: Any) -> "Column[int]":
        return Column(name, BigInteger, autoincrement=False, **more)

    Table(
        "fabric_format",
        metadata,
        number("version", nullable=False),
        number("min_writer", nullable=False, server_default=text("0")),
    )
    words = Computed("to_tsvector('english'::regconfig, text)", persisted=True)
    indexed = {
        "run_words": [Column("text", Text, nullable=False), Column("words", TSVECTOR, words)],
        "run_text": [Column("text", Text, nullable=False), Column("grams", TSVECTOR, nullable=False)],
        "run_activity": [Column("text", TSVECTOR, nullable=False)],
        "passage_words": [Column("terms", TSVECTOR, nullable=False)],
    }
    for name, columns in indexed.items():
        table = Table(name, metadata, number("rowid", primary_key=True), *columns)
        found = columns[-1].name
        Index(f"{name}_{found}", table.c[found], postgresql_using="gin")
    Table(
        "embeddings",
        metadata,
        number("run", nullable=False),
        Column("embedder", Text, nullable=False),
        Column("embedding", VECTOR, nullable=False),
        PrimaryKeyConstraint("embedder", "run"),
        ForeignKeyConstraint(["embedder", "run"], ["run_vectors.embedder", "run_vectors.run"], ondelete="CASCADE"),
    )
    passages = Table(
        "passage_embeddings",
        metadata,
        number("passage", nullable=False),
        Column("embedder", Text, nullable=False),
        number("document", nullable=False),
        Column("embedding", HALFVEC, nullable=False),
        PrimaryKeyConstraint("passage", "embedder"),
        ForeignKeyConstraint(["passage"], ["passages.number"], ondelete="CASCADE"),
    )
    Index("passage_embeddings_of_document", passages.c.document)
