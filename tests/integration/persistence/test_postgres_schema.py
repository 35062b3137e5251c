"""Both databases and the description for migrations have the same tables, column by column, key by key."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import apsw
import pytest

from agent_fabric.infrastructure.persistence.database import connect
from agent_fabric.infrastructure.persistence.postgres.migration import migrate
from agent_fabric.infrastructure.persistence.schema import FORMAT, MIN_WRITER
from postgres_cluster import Cluster
from services import need

ROOT = Path(__file__).parents[3]
VECTORS = {"embeddings", "passage_embeddings"}
"""There only where PostgreSQL has the extension `vector`."""
FULL_TEXT = {"run_words", "run_text", "run_activity", "passage_words"}
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
        "SELECT c.table_name, column_name, CASE data_type WHEN 'USER-DEFINED' THEN udt_name::text ELSE data_type END,"
        " is_nullable, column_default FROM information_schema.columns c"
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
    assert here.keys() | {"fabric_format"} == there.keys() - VECTORS
    for name in here.keys() - FULL_TEXT:
        assert there[name] == here[name], name


def test_the_oldest_program_that_may_write_is_one_that_knows_of_it() -> None:
    assert 19 <= MIN_WRITER <= FORMAT


@pytest.mark.proves("A33-130")
@pytest.mark.parametrize("name", ["workflow_checkpoints", "data_lineage", "sessions", *sorted(VECTORS)])
def test_tables_that_others_read_answer(cluster: Cluster, database_url: str, name: str) -> None:
    if name in VECTORS:
        need(name in of_postgresql(cluster, database_url), "needs pgvector for PostgreSQL")
    assert cluster.execute(f"SELECT * FROM {name}", database_url) == []


def of_metadata() -> dict[str, Table]:
    need(_has_alembic(), 'needs alembic; pip install "agent-fabric[migrations]"')
    from sqlalchemy import UniqueConstraint, create_engine  # noqa: PLC0415 - an extra

    from agent_fabric.infrastructure.persistence.migrations.tables import describe_tables  # noqa: PLC0415 - as above

    dialect = create_engine("postgresql+psycopg://").dialect
    found = {}
    for name, table in describe_tables().tables.items():
        columns = [
            Column(
                column.name,
                column.type.compile(dialect).lower(),
                not column.nullable,
                "" if column.server_default is None else str(getattr(column.server_default, "arg", "")),
            )
            for column in table.columns
        ]
        unique = {tuple(column.name for column in table.primary_key.columns)} - {()}
        for constraint in table.constraints:
            if isinstance(constraint, UniqueConstraint):
                unique.add(tuple(column.name for column in constraint.columns))
        unique |= {tuple(column.name for column in index.columns) for index in table.indexes if index.unique}
        found[name] = Table(columns, unique, {str(index.name) for index in table.indexes if not index.unique})
    return found


def _has_alembic() -> bool:
    try:
        import alembic  # noqa: F401, PLC0415 - an extra
        import sqlalchemy  # noqa: F401, PLC0415 - an extra
    except ImportError:
        return False
    return True


@pytest.mark.proves("SC-2", "A33-130")
def test_the_description_for_migrations_has_the_same_tables(cluster: Cluster, database_url: str) -> None:
    described, there = of_metadata(), of_postgresql(cluster, database_url)
    assert described.keys() - VECTORS == there.keys() - VECTORS, "describe it in migrations/tables.py"
    for name in there:
        columns, unique, indexes = described[name]
        # What is computed from other columns has no default of its own.
        found = [column._replace(default="") if column.type == "tsvector" else column for column in there[name].columns]
        columns = [column._replace(default="") if column.type == "tsvector" else column for column in columns]
        assert (columns, unique, indexes) == (found, there[name].unique, there[name].indexes), name


def _alembic(url: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "alembic", *arguments],
        cwd=ROOT,
        env={**os.environ, "FABRIC_STORE__URL": url},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.proves("SC-2", "A33-130", "A33-146")
def test_alembic_and_the_product_make_the_same_tables(cluster: Cluster, database_url: str) -> None:
    need(_has_alembic(), 'needs alembic; pip install "agent-fabric[migrations]"')
    url = cluster.create_database()
    _alembic(url, "upgrade", "head")
    made = of_postgresql(cluster, url)
    del made["alembic_version"]
    assert made == of_postgresql(cluster, database_url)
    assert migrate(url).before == FORMAT
    assert "No new upgrade operations" in _alembic(url, "check")


@pytest.mark.proves("SC-2", "A33-146")
def test_a_revision_is_made_from_what_differs_and_can_be_applied(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    need(_has_alembic(), 'needs alembic; pip install "agent-fabric[migrations]"')
    from alembic import command  # noqa: PLC0415 - an extra
    from alembic.config import Config  # noqa: PLC0415 - as above

    url = cluster.create_database()
    migrate(url)  # the product first: alembic finds out by itself
    monkeypatch.setenv("FABRIC_STORE__URL", url)
    config = Config()
    package = "agent_fabric.infrastructure.persistence:migrations"
    config.set_main_option("script_location", package)
    config.set_main_option("version_locations", f"{package}/versions {tmp_path}")
    config.set_main_option("path_separator", "space")

    def revise(message: str) -> str:
        command.revision(config, message, autogenerate=True, head="head", version_path=str(tmp_path))
        (made,) = tmp_path.glob(f"*_{message}.py")
        return made.read_text()

    assert "op." not in revise("nothing")
    next(tmp_path.glob("*_nothing.py")).unlink()
    cluster.execute("DROP INDEX runs_below; ALTER TABLE workers DROP COLUMN slots", url)
    before = of_postgresql(cluster, url)
    text = revise("mend")
    assert "op.create_index" in text
    assert "op.add_column" in text
    command.upgrade(config, "head")
    after = of_postgresql(cluster, url)
    assert "runs_below" in after["runs"].indexes - before["runs"].indexes
    assert "slots" in {column.name for column in after["workers"].columns}
    assert "op." not in revise("again")
