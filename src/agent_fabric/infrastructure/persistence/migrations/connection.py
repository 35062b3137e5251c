"""The database that migrations are for: that of `store.url`, found as every command finds it."""

from collections.abc import Mapping
from pathlib import Path

import psycopg
from sqlalchemy import Engine, create_engine
from sqlalchemy.pool import NullPool

from agent_fabric.config.store_address import URL_VARIABLE, find_store_address


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
