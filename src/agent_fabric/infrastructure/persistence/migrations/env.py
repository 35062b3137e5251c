"""What alembic runs for each of its commands: it connects to the database of `store.url` and compares or lifts it."""

import os
from pathlib import Path

from alembic import context

from agent_fabric.infrastructure.persistence.migrations.connection import engine_of
from agent_fabric.infrastructure.persistence.migrations.formats import follow_format, has_table
from agent_fabric.infrastructure.persistence.migrations.tables import OF_EXTENSION, describe_tables

if context.is_offline_mode():
    raise SystemExit("Migrations look at the database first, so there is no --sql. See: fabric db migrate --help")

with engine_of(os.environ, Path(".fabric").absolute()).connect() as connection:
    follow_format(connection)
    metadata = describe_tables(left_out=[name for name in OF_EXTENSION if not has_table(connection, name)])
    context.configure(connection=connection, target_metadata=metadata)
    with context.begin_transaction():
        context.run_migrations()
