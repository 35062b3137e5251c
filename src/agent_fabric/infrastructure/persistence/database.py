"""The SQLite file: how it is opened, what is in it, and what its errors mean.

apsw brings its own current SQLite: versions before 3.51.3, which most Pythons ship, can corrupt a WAL that several
processes checkpoint (see ADR 0004).
"""

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import apsw

from agent_fabric.domain.errors import FabricError, StoreFull, StoreUnavailable

BUSY_TIMEOUT_MS = 60_000
"""How long a write waits for other processes. Each holds the file for milliseconds."""

LITTLE_SPACE = 256 * 1024
"""Less than this is as good as nothing: a commit needs room for its log and the shared index."""
APPLICATION_ID = 0x46414252
"""Marks the file as ours: FABR."""

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
    """
    CREATE TABLE run_vectors (
        run        INTEGER NOT NULL,
        embedder   TEXT NOT NULL,
        vector     BLOB NOT NULL,
        PRIMARY KEY (embedder, run)
    ) STRICT;
    CREATE VIRTUAL TABLE run_words USING fts5 (
        text, content = '', columnsize = 1, tokenize = 'porter unicode61 remove_diacritics 2'
    );
    """,
    """
    CREATE TABLE pending_approvals (
        id              TEXT NOT NULL PRIMARY KEY,
        run             INTEGER NOT NULL,
        execution_id    TEXT NOT NULL,
        agent_id        TEXT,
        tool_name       TEXT NOT NULL,
        arguments       BLOB NOT NULL,
        status          TEXT NOT NULL,
        session_id      TEXT,
        created_at      REAL NOT NULL,
        expires_at      REAL NOT NULL,
        card            BLOB NOT NULL,
        decided_by      TEXT NOT NULL DEFAULT '',
        decided_at      REAL,
        decided_because TEXT NOT NULL DEFAULT ''
    ) STRICT;
    CREATE INDEX approvals_pending ON pending_approvals (expires_at) WHERE status = 'pending';
    CREATE INDEX approvals_of_run ON pending_approvals (run);
    CREATE TABLE audit_chain (
        position   INTEGER PRIMARY KEY AUTOINCREMENT,
        at         REAL NOT NULL,
        kind       TEXT NOT NULL,
        run        INTEGER NOT NULL,
        run_id     TEXT NOT NULL,
        events     INTEGER NOT NULL,
        head       BLOB NOT NULL,
        note       TEXT NOT NULL,
        key        TEXT NOT NULL,
        hash       BLOB NOT NULL
    ) STRICT;
    CREATE INDEX audit_chain_hash ON audit_chain (hash);
    """,
    """
    ALTER TABLE runs ADD COLUMN wake_at REAL;
    ALTER TABLE runs ADD COLUMN parent INTEGER;
    CREATE INDEX runs_to_wake ON runs (wake_at) WHERE status = 'waiting';
    CREATE INDEX runs_below ON runs (parent) WHERE parent IS NOT NULL;
    CREATE VIEW workflow_checkpoints AS
        SELECT runs.run_id, events.lane, body ->> 'step_id' AS step_id, body ->> 'attempt' AS attempt,
               body ->> 'status' AS status, body -> 'outputs' AS outputs, nullif(body ->> 'error', '') AS error,
               events.seq, events.ts AS created_at
        FROM (SELECT run, lane, seq, ts, CAST(payload AS TEXT) AS body FROM events WHERE kind = 'step_finished')
             AS events JOIN runs ON runs.number = events.run;
    CREATE VIEW data_lineage AS
        SELECT runs.run_id, events.lane, body ->> 'step_id' AS step_id, body ->> 'attempt' AS attempt,
               iif(events.kind = 'step_started', 'input', 'output') AS fed, target.key AS name, source.value AS source,
               events.ts AS created_at
        FROM (SELECT run, lane, kind, ts, CAST(payload AS TEXT) AS body FROM events
              WHERE kind IN ('step_started', 'step_finished')) AS events
             JOIN runs ON runs.number = events.run,
             json_each(body -> 'reads') AS target, json_each(target.value) AS source;
    """,
    """
    CREATE TABLE users (
        name         TEXT NOT NULL PRIMARY KEY,
        password     TEXT NOT NULL DEFAULT '',
        role         TEXT NOT NULL,
        scopes       TEXT NOT NULL DEFAULT '[]',
        disabled     INTEGER NOT NULL DEFAULT 0,
        tokens_after REAL NOT NULL DEFAULT 0,
        created_at   REAL NOT NULL
    ) STRICT;
    CREATE TABLE api_keys (
        id           TEXT NOT NULL PRIMARY KEY,
        name         TEXT NOT NULL,
        hash         BLOB NOT NULL UNIQUE,
        scopes       TEXT NOT NULL,
        created_by   TEXT NOT NULL,
        created_at   REAL NOT NULL,
        expires_at   REAL,
        revoked_at   REAL,
        last_used_at REAL
    ) STRICT;
    CREATE TABLE run_keys (
        run          INTEGER PRIMARY KEY,
        key          BLOB NOT NULL
    ) STRICT;
    CREATE TABLE idempotency (
        principal    TEXT NOT NULL,
        key          TEXT NOT NULL,
        request      BLOB NOT NULL,
        run_id       TEXT NOT NULL,
        status       INTEGER,
        headers      BLOB,
        body         BLOB,
        created_at   REAL NOT NULL,
        PRIMARY KEY (principal, key)
    ) STRICT;
    CREATE INDEX idempotency_age ON idempotency (created_at);
    CREATE TABLE rate_limits (
        key          TEXT NOT NULL PRIMARY KEY,
        hits         INTEGER NOT NULL,
        expires_at   REAL NOT NULL
    ) STRICT;
    CREATE TABLE deliveries (
        source       TEXT NOT NULL,
        delivery     TEXT NOT NULL,
        received_at  REAL NOT NULL,
        PRIMARY KEY (source, delivery)
    ) STRICT;
    """,
    """
    CREATE VIRTUAL TABLE run_text USING fts5 (
        text, short, content = '', contentless_delete = 1, tokenize = 'trigram'
    );
    CREATE TABLE run_text_progress (
        position   INTEGER NOT NULL
    ) STRICT;
    INSERT INTO run_text_progress (position) VALUES (0);
    """,
)
"""Each entry lifts the file by one version. Never changed after a release, only added to."""


def connect(path: Path) -> apsw.Connection:
    """Open the file, making or lifting it if needed.

    Raises:
        StoreUnavailable: it cannot be opened, is not ours, or was written by a newer program.
    """
    with explained(path):
        _keep_private(path)
        connection = apsw.Connection(_utf8(path))
        connection.set_busy_timeout(BUSY_TIMEOUT_MS)
        _use_wal(connection)
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA journal_size_limit = 67108864")
        _migrate(connection, path)
        return connection


def _keep_private(path: Path) -> None:
    """Make the file such that only its owner can read it; what SQLite keeps beside it gets the same mode.

    One that exists is left alone: whoever closes a file gives up all locks that their process has on it, and without
    them another program could take away the log of a database that is in use.
    """
    with suppress(OSError):  # it is there already, or SQLite says better what is wrong
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))


def _use_wal(connection: apsw.Connection) -> None:
    # This one statement does not wait for others by itself, and two first starts may meet here.
    deadline = time.monotonic() + BUSY_TIMEOUT_MS / 1000
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except apsw.BusyError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        else:
            return


def _utf8(path: Path) -> str:
    try:
        str(path).encode()
    except UnicodeEncodeError:
        raise StoreUnavailable(
            f"The path {os.fsencode(path)!r} is not UTF-8, and SQLite takes nothing else",
            hint="Choose another folder with --workspace.",
        ) from None
    return str(path)


def _version(connection: apsw.Connection) -> int:
    value = connection.execute("PRAGMA user_version").get
    return value if isinstance(value, int) else 0


def _migrate(connection: apsw.Connection, path: Path) -> None:
    if _version(connection) == len(MIGRATIONS) and _is_ours(connection):
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Looked at inside the transaction: another process may have been faster.
        version = _version(connection)
        if version > len(MIGRATIONS):
            raise StoreUnavailable(
                f"{path} was written by a newer agent-fabric (format {version}; this one knows {len(MIGRATIONS)})",
                hint="Upgrade agent-fabric, or use another folder with --workspace.",
            )
        if not _is_ours(connection):
            raise StoreUnavailable(
                f"{path} is not a usable database: it belongs to another program",
                hint="Move it away, or use another folder with --workspace.",
            )
        if 0 < version < len(MIGRATIONS):
            _back_up(path, path.with_name(f"{path.name}.backup-{version}"))
        for migration in MIGRATIONS[version:]:
            connection.execute(migration)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def _is_ours(connection: apsw.Connection) -> bool:
    """Tell whether the file is ours, or still empty."""
    if connection.execute("PRAGMA application_id").get == APPLICATION_ID:
        return True
    return connection.execute("SELECT name FROM sqlite_master LIMIT 1").fetchone() is None


def _back_up(path: Path, copy: Path) -> None:
    """Copy the file as it is now; a connection of its own can read while ours holds the lock for writing."""
    fresh = copy.with_name(f"{copy.name}.{os.getpid()}")
    source, target = apsw.Connection(str(path)), apsw.Connection(str(fresh))
    try:
        with target.backup("main", source, "main") as backup:
            backup.step()
    finally:
        source.close()
        target.close()
    fresh.replace(copy)


def _nearly_full(path: Path) -> bool:
    """Tell whether an I/O error may come from a full disk: SQLite does not always say so itself."""
    try:
        return shutil.disk_usage(path.parent).free < LITTLE_SPACE
    except OSError:
        return False


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn SQLite's errors into ours."""
    try:
        yield
    except FabricError:
        raise
    except (apsw.FullError, apsw.IOError) as problem:
        if isinstance(problem, apsw.FullError) or _nearly_full(path):
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
    except apsw.Error as problem:
        raise StoreUnavailable(f"{path} cannot be used: {problem}", hint="Restore it from a backup.") from problem
