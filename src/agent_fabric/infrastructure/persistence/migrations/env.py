"""What alembic runs for each of its commands: it connects to the database of `store.url` and compares or lifts it."""

import os
from collections.abc import Mapping
from pathlib import Path

import psycopg
from alembic import context
from sqlalchemy import Engine, create_engine
from sqlalchemy.pool import NullPool

from agent_fabric.config.store_address import URL_VARIABLE, find_store_address
from agent_fabric.infrastructure.persistence.migrations.formats import follow_format, has_table
from agent_fabric.infrastructure.persistence.migrations.tables import OF_EXTENSION, describe_tables


def engine_of(environ: Mapping[str, str], folder: Path) -> Engine:
    """Return an engine; nothing is connected yet. The address is one that libpq reads, so libpq reads it.

    Raises:
        SystemExit: no database is named.
    """
    found = find_store_address(environ, folder)
    if found is None or not found.is_remote:
        raise SystemExit(
            f"No PostgreSQL database is named: set {URL_VARIABLE}=postgresql://USER:PASSWORD@HOST/DATABASE. "
            "A store in a fabric folder lifts itself."
        )
    return create_engine("postgresql+psycopg://", creator=lambda: psycopg.connect(found.url), poolclass=NullPool)


if context.is_offline_mode():
    raise SystemExit("Migrations look at the database first, so there is no --sql. See: fabric db migrate --help")

with engine_of(os.environ, Path(".fabric").absolute()).connect() as connection:
    follow_format(connection)
    metadata = describe_tables(left_out=[name for name in OF_EXTENSION if not has_table(connection, name)])
    context.configure(connection=connection, target_metadata=metadata)
    with context.begin_transaction():
        context.run_migrations()
