"""A consistent copy of the store while others write to it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw

from agent_fabric.domain.errors import RunHeld, StoreUnavailable
from agent_fabric.infrastructure.persistence.database import APPLICATION_ID, connect, explain_errors
from agent_fabric.infrastructure.persistence.runs.run_locks import RunLocks
from agent_fabric.infrastructure.persistence.schema import FORMAT
from agent_fabric.infrastructure.persistence.secrets.sealing import FACT_KEYS, SESSION_KEYS

PAGES_AT_ONCE = 2_000
"""Pages of 4 KB that are copied between two signs of life."""

BUSY_MS = 2_000
"""How long to wait for a writer who changes the file's mode."""


class SqliteCopies:
    """StoreCopies of one SQLite file and the locks beside it."""

    def __init__(self, path: Path, locks: RunLocks) -> None:
        self._path = path
        self._locks = locks

    def require_own(self) -> None:
        pass

    def copy_to(self, target: Path, on_progress: Callable[[float], None]) -> None:
        copy_store(self._path, target, on_progress)

    def check(self, copy: Path) -> int:
        return check_copy(copy)

    def sealed_keys(self, copy: Path | None = None) -> list[bytes]:
        return read_sealed_keys(self._path if copy is None else copy)

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        if not self._locks.exist():
            yield
            return
        if not self._locks.acquire_all():
            raise RunHeld(
                f"A server or a run uses {self._path.parent}",
                hint="Stop the server, and wait for runs or end them with Ctrl-C.",
            )
        try:
            yield
        finally:
            self._locks.let_go()


def copy_store(source: Path, target: Path, tell: Callable[[float], None] = lambda _: None) -> None:
    """Copy the store as it stands at this moment into one file; `tell` learns which share of it is done.

    Concurrent writes are not held up and are not in the copy.

    Raises:
        StoreFull, StoreUnavailable: it cannot be read, or the copy cannot be written.
    """
    reading = connect(source)
    try:
        with explain_errors(target):
            writing = apsw.Connection(str(target))
            try:
                # As long as this transaction is open, every step sees the same moment. Without it, each write of
                # another process would restart the copy.
                reading.execute("BEGIN")
                reading.execute("SELECT count(*) FROM sqlite_master").fetchall()
                with writing.backup("main", reading, "main") as backup:
                    while not backup.done:
                        backup.step(PAGES_AT_ONCE)
                        tell(1 - backup.remaining / max(1, backup.page_count))
                writing.execute("PRAGMA journal_mode = DELETE")  # one file, with nothing beside it
            finally:
                writing.close()
    finally:
        reading.close()


def check_copy(path: Path) -> int:
    """Read a copy from its beginning to its end; return its format.

    Raises:
        StoreUnavailable: it is damaged, is not ours, or was written by a newer program.
    """
    with explain_errors(path):
        # Nothing is created or changed beside it.
        connection = apsw.Connection(
            f"{path.absolute().as_uri()}?immutable=1", apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
        )
        try:
            if connection.execute("PRAGMA application_id").get != APPLICATION_ID:
                raise StoreUnavailable("This is not a store of agent-fabric", hint="Choose another backup.")
            version = int(str(connection.execute("PRAGMA user_version").get))
            if version > FORMAT:
                raise StoreUnavailable(
                    f"The store was written by a newer agent-fabric (format {version}; this one knows {FORMAT})",
                    hint="Upgrade agent-fabric, then try again.",
                )
            found = [str(row[0]) for row in connection.execute("PRAGMA integrity_check(5)")]
        finally:
            connection.close()
    if found != ["ok"]:
        raise StoreUnavailable(
            f"The copy of the store is damaged: {'; '.join(found)}",
            hint="Check the store itself with `fabric db status --check`, and choose another backup.",
        )
    return version


def read_sealed_keys(path: Path) -> list[bytes]:
    """Return the sealed keys of encrypted runs and sessions; none if there is no such file, or it is older than those.

    Raises:
        StoreUnavailable: it cannot be read.
    """
    if not path.is_file():
        return []
    with explain_errors(path):
        connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
        try:
            connection.set_busy_timeout(BUSY_MS)
            known = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'run_keys'").fetchone()
            rows: list[Any] = [] if known is None else connection.execute("SELECT key FROM run_keys").fetchall()
            talks = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'chat_sessions'").fetchone()
            rows += [] if talks is None else connection.execute(SESSION_KEYS).fetchall()
            columns = connection.execute("SELECT 1 FROM pragma_table_info('facts') WHERE name = 'key'").fetchone()
            rows += [] if columns is None else connection.execute(FACT_KEYS).fetchall()
            return [bytes(row[0]) for row in rows]
        finally:
            connection.close()
