"""Where runs and everything about them are stored."""

from typing import Annotated

from agent_fabric.config.schema.declared import AfterValidator, Field, Settings
from agent_fabric.config.store_address import DEFAULT_POOL, MAX_POOL, MIN_POOL, check_url


class StoreConfig(Settings):
    """The database. By default a SQLite file in the fabric folder; a PostgreSQL database serves several machines."""

    url: Annotated[str, AfterValidator(check_url)] = Field(default="", repr=False)
    """Address of a PostgreSQL database, such as `postgresql://fabric@db.example.org/fabric`, or `env:NAME` for the
    variable that holds it; empty: SQLite. The password is never shown; libpq also finds it in `~/.pgpass`. It needs the
    extra: `pip install "agent-fabric[cluster]"`, and once `fabric db migrate`."""
    pool: int = Field(default=DEFAULT_POOL, ge=MIN_POOL, le=MAX_POOL)
    """Most connections of one process to PostgreSQL."""
