"""Opens a PostgreSQL database where the extra for it is installed."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from agent_fabric.domain.errors import MissingExtra

if TYPE_CHECKING:  # the driver is an extra
    from agent_fabric.infrastructure.persistence.postgres.parts import PostgresParts
    from agent_fabric.infrastructure.persistence.postgres.store import PostgresStore
    from agent_fabric.infrastructure.persistence.postgres.upkeep import PostgresUpkeep


def postgres_store() -> "type[PostgresStore]":
    """Return the class of stores in PostgreSQL.

    Raises:
        MissingExtra: its driver is not installed.
    """
    with _needing_driver():
        from agent_fabric.infrastructure.persistence.postgres.store import PostgresStore  # noqa: PLC0415 - an extra
    return PostgresStore


def postgres_parts() -> "type[PostgresParts]":
    """Return the class of what a storage in PostgreSQL does in its own way.

    Raises:
        MissingExtra: its driver is not installed.
    """
    with _needing_driver():
        from agent_fabric.infrastructure.persistence.postgres.parts import PostgresParts  # noqa: PLC0415 - an extra
    return PostgresParts


def postgres_upkeep() -> "type[PostgresUpkeep]":
    """Return the class that looks after a database.

    Raises:
        MissingExtra: its driver is not installed.
    """
    with _needing_driver():
        from agent_fabric.infrastructure.persistence.postgres.upkeep import PostgresUpkeep  # noqa: PLC0415 - an extra
    return PostgresUpkeep


@contextmanager
def _needing_driver() -> Iterator[None]:
    try:
        yield
    except ImportError as problem:
        if (problem.name or "psycopg").startswith("psycopg"):  # without libpq, psycopg gives no name
            raise MissingExtra("cluster", needed_for="A store in PostgreSQL") from None
        raise
