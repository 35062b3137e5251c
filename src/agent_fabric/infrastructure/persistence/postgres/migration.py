"""Makes and lifts the tables of a PostgreSQL database, from the one description in `schema`.

Nobody does so in passing, as with a SQLite file: several versions of the program may use the database.
"""

from typing import Final

from agent_fabric.application.ports.database import Migrated
from agent_fabric.domain.errors import StoreUnavailable
from agent_fabric.infrastructure.persistence.dialects import POSTGRESQL
from agent_fabric.infrastructure.persistence.postgres.connection import PostgresConnection, place_of
from agent_fabric.infrastructure.persistence.postgres.errors import explained
from agent_fabric.infrastructure.persistence.schema import MIGRATIONS

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
        with explained(place):
            connection.execute(f"BEGIN; SELECT pg_advisory_xact_lock({_LOCK})")
            _require_utf8(connection, place)
            connection.execute("CREATE TABLE IF NOT EXISTS fabric_format (version BIGINT NOT NULL)")
            before = _version(connection)
            require_known(before, place)
            for migration in MIGRATIONS[before:]:
                connection.execute(POSTGRESQL.schema(migration))
            connection.execute("DELETE FROM fabric_format")
            connection.execute("INSERT INTO fabric_format (version) VALUES (?)", (len(MIGRATIONS),))
            connection.commit()
    finally:
        connection.close()
    return Migrated(before, len(MIGRATIONS))


def require_migrated(connection: PostgresConnection, place: str) -> None:
    """Check that a database has the tables of this program.

    Raises:
        StoreUnavailable: it has not.
    """
    version = format_of(connection)
    require_known(version, place)
    if version < len(MIGRATIONS):
        what = f"has format {version}; this program needs {len(MIGRATIONS)}" if version else "has no tables yet"
        raise StoreUnavailable(f"{place} {what}", hint="Run: fabric db migrate")


def format_of(connection: PostgresConnection) -> int:
    """Return the format of the tables; 0 if there are none."""
    exists = connection.execute("SELECT to_regclass('fabric_format') IS NOT NULL").fetchone()[0]
    return _version(connection) if exists else 0


def require_known(version: int, place: str) -> None:
    """Refuse a database of a newer program.

    Raises:
        StoreUnavailable: it is one.
    """
    if version > len(MIGRATIONS):
        raise StoreUnavailable(
            f"{place} was written by a newer agent-fabric (format {version}; this one knows {len(MIGRATIONS)})",
            hint="Upgrade agent-fabric.",
        )


def _version(connection: PostgresConnection) -> int:
    row = connection.execute("SELECT version FROM fabric_format").fetchone()
    return 0 if row is None else int(row[0])


def _require_utf8(connection: PostgresConnection, place: str) -> None:
    encoding = connection.execute("SHOW server_encoding").fetchone()[0]
    if encoding != "UTF8":
        raise StoreUnavailable(
            f"{place} stores text as {encoding}, and only UTF-8 holds all of it",
            hint="Create the database with: createdb --encoding UTF8 --template template0",
        )
