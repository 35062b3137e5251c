"""Opens a PostgreSQL database where the extra for it is installed."""

from typing import TYPE_CHECKING

from agent_fabric.domain.errors import MissingExtra

if TYPE_CHECKING:  # the driver is an extra
    from agent_fabric.infrastructure.persistence.postgres.store import PostgresStore


def postgres_store() -> "type[PostgresStore]":
    """Return the class of stores in PostgreSQL.

    Raises:
        MissingExtra: its driver is not installed.
    """
    try:
        from agent_fabric.infrastructure.persistence.postgres.store import PostgresStore  # noqa: PLC0415 - an extra
    except ImportError as problem:
        if (problem.name or "psycopg").startswith("psycopg"):  # without libpq, psycopg gives no name
            raise MissingExtra("cluster", needed_for="A store in PostgreSQL") from None
        raise
    return PostgresStore
