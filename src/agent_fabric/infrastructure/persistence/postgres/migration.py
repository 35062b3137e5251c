"""Makes and lifts the tables of a PostgreSQL database, from the one description in `schema`.

No one does so in passing, as with a SQLite file: several versions of the program may use the database.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from agent_fabric.application.ports.database import Migrated
from agent_fabric.domain.errors import StoreUnavailable
from agent_fabric.infrastructure.persistence.dialects import POSTGRESQL
from agent_fabric.infrastructure.persistence.memory.passage_embeddings import PREPARE_PASSAGE_EMBEDDINGS
from agent_fabric.infrastructure.persistence.postgres.connection import PostgresConnection, place_of
from agent_fabric.infrastructure.persistence.postgres.errors import explain_errors
from agent_fabric.infrastructure.persistence.schema import FORMAT, FORMAT_TABLE, MIN_WRITER, read_steps
from agent_fabric.infrastructure.persistence.vector_search import PREPARE_VECTORS

_LOCK: Final = 0x46414253
"""Not the lock of writers: a migration must not end because it has to wait for one."""


def migrate(url: str) -> Migrated:
    """Bring a database to the newest format, in one transaction; an empty one gets all tables.

    Raises:
        StoreUnavailable: it cannot be reached, does not store UTF-8, or was written by a newer program.
    """
    place = place_of(url)
    connection = PostgresConnection(url)
    try:
        with explain_errors(place):
            connection.execute(f"BEGIN; SELECT pg_advisory_xact_lock({_LOCK})")
            _require_utf8(connection, place)
            for statement in FORMAT_TABLE:
                connection.execute(statement)
            before, min_writer = _read(connection)
            _require_known(before, place)
            for statement in lifting_statements(before, min_writer):
                connection.execute(statement)
            connection.commit()
    finally:
        connection.close()
    return Migrated(before, FORMAT)


def lifting_statements(before: int, min_writer: int) -> Iterator[str]:
    """Return what lifts a database from a format to the newest one."""
    yield from map(POSTGRESQL.schema, read_steps(before))
    yield from (PREPARE_VECTORS, PREPARE_PASSAGE_EMBEDDINGS, "DELETE FROM fabric_format")
    known = f"{FORMAT}, {max(MIN_WRITER, min_writer)}"
    yield f"INSERT INTO fabric_format (version, min_writer) VALUES ({known})"  # noqa: S608 - numbers


def require_migrated(connection: PostgresConnection, place: str, *, has_begun: bool = False) -> None:
    """Check that this program may use the tables of a database: those of its own release, or of one that only added.

    A process that `has_begun` and is too old by now learns it with its lease, and must still be able to hand over.

    Raises:
        StoreUnavailable: it may not.
    """
    version, min_writer = format_of(connection)
    if min_writer > FORMAT and not has_begun:
        _require_known(max(version, min_writer), place)
    if version < FORMAT:
        what = f"has format {version}; this program needs {FORMAT}" if version else "has no tables yet"
        raise StoreUnavailable(f"{place} {what}", hint="Run: fabric db migrate")


class Format(NamedTuple):
    """What a database says about its tables."""

    version: int
    """0: there are none."""
    min_writer: int
    """What a program has to know at least to use them."""


def format_of(connection: PostgresConnection) -> Format:
    """Return the format of the tables."""
    exists = connection.execute("SELECT to_regclass('fabric_format') IS NOT NULL").fetchone()[0]
    return _read(connection) if exists else Format(0, 0)


def _require_known(version: int, place: str) -> None:
    """Refuse a database of a newer program.

    Raises:
        StoreUnavailable: it is one.
    """
    if version > FORMAT:
        raise StoreUnavailable(
            f"{place} was written by a newer agent-fabric (format {version}; this one knows {FORMAT})",
            hint="Upgrade agent-fabric.",
        )


def _read(connection: PostgresConnection) -> Format:
    # As an object: tables before format 19 have no such column.
    query = "SELECT version, coalesce((to_jsonb(fabric_format) ->> 'min_writer')::bigint, 0) FROM fabric_format"
    row = connection.execute(query).fetchone()
    return Format(0, 0) if row is None else Format(int(row[0]), int(row[1]))


def _require_utf8(connection: PostgresConnection, place: str) -> None:
    encoding = connection.execute("SHOW server_encoding").fetchone()[0]
    if encoding != "UTF8":
        raise StoreUnavailable(
            f"{place} stores text as {encoding}, and only UTF-8 holds all of it",
            hint="Create the database with: createdb --encoding UTF8 --template template0",
        )
