"""Both databases have the same tables, column by column, key by key."""

from pathlib import Path
from typing import Any, NamedTuple

import apsw

from agent_fabric.infrastructure.persistence.database import connect
from postgres_cluster import Cluster

FULL_TEXT = {"run_words", "run_text", "run_activity"}
"""Each database has its own way to find words."""
TYPES = {"INTEGER": "bigint", "TEXT": "text", "REAL": "double precision", "BLOB": "bytea"}


class Column(NamedTuple):
    """What both databases say of a column."""

    name: str
    type: str
    required: bool
    default: str


class Table(NamedTuple):
    """And of a table."""

    columns: list[Column]
    unique: set[tuple[str, ...]]
    indexes: set[str]


def of_sqlite(connection: apsw.Connection) -> dict[str, Table]:
    names = "SELECT name FROM pragma_table_list WHERE schema = 'main' AND type <> 'view' AND type <> 'shadow'"
    every = [str(name) for (name,) in connection.execute(names)]
    return {name: _sqlite_table(connection, name) for name in every if not name.startswith("sqlite_")}


def _sqlite_table(connection: apsw.Connection, name: str) -> Table:
    rows: list[Any] = connection.execute(f"PRAGMA table_info({name})").fetchall()
    columns = [
        Column(column, TYPES.get(kind, kind), bool(required or key), default or "")
        for _, column, kind, required, default, key in rows
    ]
    unique = {tuple(row[1] for row in sorted((row for row in rows if row[5]), key=lambda row: row[5]))}
    indexes = set[str]()
    for _, index, is_unique, origin, _ in connection.execute(f"PRAGMA index_list({name})").fetchall():
        if is_unique:
            unique.add(tuple(str(row[2]) for row in connection.execute(f"PRAGMA index_info({index})")))
        elif origin == "c":
            indexes.add(str(index))
    return Table(columns, unique - {()}, indexes)


def of_postgresql(cluster: Cluster, url: str) -> dict[str, Table]:
    columns: dict[str, list[Column]] = {}
    for table, name, kind, nullable, default in cluster.execute(
        "SELECT c.table_name, column_name, data_type, is_nullable, column_default FROM information_schema.columns c"
        " JOIN information_schema.tables t USING (table_schema, table_name)"
        " WHERE table_schema = 'public' AND table_type = 'BASE TABLE' ORDER BY c.table_name, ordinal_position",
        url,
    ):
        columns.setdefault(table, []).append(
            Column(name, kind, nullable == "NO", (default or "").replace("::text", ""))
        )
    tables = {table: Table(found, set(), set()) for table, found in columns.items()}
    for table, index, is_unique, keys in cluster.execute(
        "SELECT indrelid::regclass::text, indexrelid::regclass::text, indisunique,"
        " ARRAY(SELECT attname::text FROM unnest(indkey) WITH ORDINALITY AS k (number, place)"
        " JOIN pg_attribute ON attrelid = indrelid AND attnum = k.number ORDER BY place)"
        " FROM pg_index JOIN pg_class ON pg_class.oid = indrelid WHERE relnamespace = 'public'::regnamespace",
        url,
    ):
        if is_unique:
            tables[table].unique.add(tuple(keys))
        else:
            tables[table].indexes.add(index)
    return tables


def test_both_databases_have_the_same_tables(cluster: Cluster, database_url: str, tmp_path: Path) -> None:
    connection = connect(tmp_path / "fabric.db")
    here, there = of_sqlite(connection), of_postgresql(cluster, database_url)
    connection.close()
    assert len(here) > 20
    assert here.keys() | {"fabric_format"} == there.keys()
    for name in here.keys() - FULL_TEXT:
        assert there[name] == here[name], name


def test_the_views_answer(cluster: Cluster, database_url: str) -> None:
    assert cluster.execute("SELECT * FROM workflow_checkpoints", database_url) == []
    assert cluster.execute("SELECT * FROM data_lineage", database_url) == []
