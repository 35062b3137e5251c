"""The SQLite file: how it is opened, what is in it, and what its errors mean.

apsw brings its own current SQLite: versions before 3.51.3, which most Pythons ship, can corrupt a WAL that several
processes checkpoint (see ADR 0004).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw

from agent_fabric.domain.errors import FabricError, StoreFull, StoreUnavailable

BUSY_TIMEOUT_MS = 60_000
"""How long a write waits for other processes. Each holds the file for milliseconds."""

MIGRATIONS: tuple[str, ...] = (
    """
    CREATE TABLE runs (
        number     INTEGER PRIMARY KEY AUTOINCREMENT,
        run_id     TEXT NOT NULL UNIQUE,
        status     TEXT NOT NULL,
        created_at REAL NOT NULL
    ) STRICT;
    CREATE TABLE events (
        position   INTEGER PRIMARY KEY AUTOINCREMENT,
        run        INTEGER NOT NULL,
        seq        INTEGER NOT NULL,
        ts         REAL NOT NULL,
        kind       TEXT NOT NULL,
        version    INTEGER NOT NULL,
        lane       TEXT,
        step       TEXT NOT NULL,
        payload    BLOB NOT NULL,
        hash       BLOB NOT NULL,
        UNIQUE (run, seq)
    ) STRICT;
    CREATE TABLE blobs (
        hash       BLOB NOT NULL PRIMARY KEY,
        data       BLOB NOT NULL
    ) STRICT;
    CREATE TABLE inbox (
        id         INTEGER PRIMARY KEY AUTOINCREMENT,
        run        INTEGER NOT NULL,
        kind       TEXT NOT NULL,
        payload    BLOB NOT NULL,
        created_at REAL NOT NULL
    ) STRICT;
    CREATE INDEX inbox_of_run ON inbox (run);
    CREATE TABLE drivers (
        run        INTEGER PRIMARY KEY,
        holder     TEXT NOT NULL,
        since      REAL NOT NULL
    ) STRICT;
    """,
)
"""Each entry lifts the file by one version. Never changed after a release, only added to."""


def connect(path: Path) -> apsw.Connection:
    """Open the file, making or lifting it if needed.

    Raises:
        StoreUnavailable: it cannot be opened, is not ours, or was written by a newer program.
    """
    with explained(path):
        connection = apsw.Connection(str(path))
        connection.set_busy_timeout(BUSY_TIMEOUT_MS)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA journal_size_limit = 67108864")
        _migrate(connection, path)
        return connection


def _version(connection: apsw.Connection) -> int:
    value = connection.execute("PRAGMA user_version").get
    return value if isinstance(value, int) else 0


def _migrate(connection: apsw.Connection, path: Path) -> None:
    version = _version(connection)
    if version > len(MIGRATIONS):
        raise StoreUnavailable(
            f"{path} was written by a newer agent-fabric (format {version}; this one knows {len(MIGRATIONS)})",
            hint="Upgrade agent-fabric, or use another folder with --workspace.",
        )
    if version == len(MIGRATIONS):
        return
    if version > 0:
        _back_up(connection, path.with_name(f"{path.name}.backup-{version}"))
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Asked again inside the transaction: another process may have been faster.
        for migration in MIGRATIONS[_version(connection) :]:
            connection.execute(migration)
        connection.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def _back_up(connection: apsw.Connection, copy: Path) -> None:
    target = apsw.Connection(str(copy))
    try:
        with target.backup("main", connection, "main") as backup:
            backup.step()
    finally:
        target.close()


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn SQLite's errors into ours."""
    try:
        yield
    except FabricError:
        raise
    except (apsw.FullError, apsw.IOError) as problem:
        if isinstance(problem, apsw.FullError) or "ENOSPC" in str(problem) or "No space" in str(problem):
            raise StoreFull(
                f"The disk that holds {path} is full",
                hint="Free some space, then go on with `fabric resume`. Nothing that was recorded is lost.",
            ) from problem
        raise StoreUnavailable(
            f"{path} cannot be read or written: {problem}", hint="Check the disk, then `fabric resume`."
        ) from problem
    except apsw.BusyError as problem:
        raise StoreUnavailable(
            f"{path} has been locked by another program for over {BUSY_TIMEOUT_MS // 1000} seconds",
            hint="See which program holds it (for example with `fuser`), then try again.",
        ) from problem
    except (apsw.NotADBError, apsw.CorruptError) as problem:
        raise StoreUnavailable(
            f"{path} is not a usable database: {problem}",
            hint="Restore it from a backup, or move it away to start afresh; runlog.jsonl files keep what happened.",
        ) from problem
    except (apsw.CantOpenError, apsw.ReadOnlyError, apsw.PermissionsError) as problem:
        raise StoreUnavailable(
            f"{path} cannot be opened: {problem}", hint="Check that you may write in that folder."
        ) from problem
