"""Backups of a store in PostgreSQL are made by PostgreSQL's own programs; this says how."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from agent_fabric.domain.errors import ConfigError
from agent_fabric.infrastructure.persistence.observability.snapshot import check_copy, read_sealed_keys
from agent_fabric.infrastructure.persistence.postgres.store import PostgresStore
from agent_fabric.infrastructure.persistence.secrets.sealing import SESSION_KEYS
from agent_fabric.infrastructure.persistence.sql import SqlConnection


class PostgresCopies:
    """StoreCopies that names the program to use instead."""

    def __init__(self, store: PostgresStore, folder: Path) -> None:
        self._store = store
        self._folder = folder

    def require_own(self) -> None:
        raise ConfigError(
            f"The store is {self._store.place}, and PostgreSQL's own programs make its backups",
            hint='Back up: pg_dump --format=custom --file=fabric.dump "$FABRIC_STORE__URL". Restore into an empty '
            'database: pg_restore --dbname="$FABRIC_STORE__URL" fabric.dump. '
            f"Keep a copy of the keys beside it, and of {self._folder}: files of runs, secrets and settings are there.",
        )

    def copy_to(self, target: Path, on_progress: Callable[[float], None]) -> None:  # noqa: ARG002 - of the port
        self.require_own()

    def check(self, copy: Path) -> int:
        return check_copy(copy)

    def sealed_keys(self, copy: Path | None = None) -> list[bytes]:
        if copy is not None:
            return read_sealed_keys(copy)

        def read(connection: SqlConnection) -> list[bytes]:
            rows = [*connection.execute("SELECT key FROM run_keys"), *connection.execute(SESSION_KEYS)]
            return [bytes(key) for (key,) in rows]

        return self._store.read_now(read)

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        self.require_own()
        yield
