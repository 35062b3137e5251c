"""The SQLite file: how it is opened and migrated, and what its errors mean.

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
from agent_fabric.infrastructure.persistence.schema import FORMAT, read_steps
from agent_fabric.infrastructure.persistence.sql import UniqueViolation

BUSY_TIMEOUT_MS = 60_000
"""How long a write waits for other processes. Each holds the file for milliseconds."""

LITTLE_SPACE = 256 * 1024
"""Less than this is as good as nothing: a commit needs room for its log and the shared index."""
APPLICATION_ID = 0x46414252
"""Marks the file as ours: FABR."""


def connect(path: Path) -> apsw.Connection:
    """Open the file, making or lifting it if needed.

    Raises:
        StoreUnavailable: it cannot be opened, is not ours, or was written by a newer program.
    """
    with explain_errors(path):
        _keep_private(path)
        connection = apsw.Connection(_utf8(path))
        connection.set_busy_timeout(BUSY_TIMEOUT_MS)
        _use_wal(connection)
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA journal_size_limit = 67108864")
        _migrate(connection, path)
        return connection


class OpenFiles:
    """Recognises the files of a store that is open: what is written into a deleted one is lost.

    SQLite keeps writing into files that have no name any more, and reports success.
    """

    def __init__(self, path: Path) -> None:
        self._path = str(path)
        self._log = f"{path}-wal"
        self._store: tuple[int, int] | None = None
        self._wal: tuple[int, int] | None = None

    def require_in_place(self) -> None:
        """Check that the files are those that were first seen here; two looks at the disk.

        Raises:
            StoreUnavailable: one was deleted or replaced.
        """
        try:
            file, log = os.stat(self._path), os.stat(self._log)  # noqa: PTH116 - for every commit
            if (file.st_dev, file.st_ino) == self._store and (log.st_dev, log.st_ino) == self._wal:
                return
        except OSError:
            pass  # looked at more closely below
        store, wal = _identity(self._path), _identity(self._log)
        if self._store is None:
            self._store = store
        if self._wal is None:
            self._wal = wal
        if store is None or store != self._store or wal != self._wal:
            raise StoreUnavailable(
                f"{self._path} was deleted or replaced while it was in use",
                hint="Put it back or restore a backup with `fabric db restore`, then start again. Runs that were under "
                "way stop here; what they did since is not recorded.",
            )


def _identity(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)  # noqa: PTH116 - as above
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _keep_private(path: Path) -> None:
    """Make the file such that only its owner can read it; what SQLite keeps beside it gets the same mode.

    An existing one is left alone: closing a file drops all locks that the process has on it, and without
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
    if _version(connection) == FORMAT and _is_ours(connection):
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Looked at inside the transaction: another process may have been faster.
        version = _version(connection)
        if version > FORMAT:
            raise StoreUnavailable(
                f"{path} was written by a newer agent-fabric (format {version}; this one knows {FORMAT})",
                hint="Upgrade agent-fabric, or use another folder with --workspace.",
            )
        if not _is_ours(connection):
            raise StoreUnavailable(
                f"{path} is not a usable database: it belongs to another program",
                hint="Move it away, or use another folder with --workspace.",
            )
        if 0 < version < FORMAT:
            _back_up(path, path.with_name(f"{path.name}.backup-{version}"))
        for migration in read_steps(version):
            connection.execute(migration)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {FORMAT}")
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def _is_ours(connection: apsw.Connection) -> bool:
    """Return whether the file is ours, or still empty."""
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
    """Return whether an I/O error may come from a full disk: SQLite does not always say so itself."""
    try:
        return shutil.disk_usage(path.parent).free < LITTLE_SPACE
    except OSError:
        return False


@contextmanager
def explain_errors(path: Path) -> Iterator[None]:
    """Turn SQLite's errors into ours."""
    try:
        yield
    except apsw.Error as problem:
        raise error_for(problem, path) from problem


def error_for(problem: apsw.Error, path: Path) -> FabricError | UniqueViolation:
    """Return what an error of SQLite means."""
    if isinstance(problem, apsw.FullError) or (isinstance(problem, apsw.IOError) and _nearly_full(path)):
        return StoreFull(
            f"The disk that holds {path} is full",
            hint="Free some space, then resume with `fabric resume`. Nothing that was recorded is lost.",
        )
    if isinstance(problem, apsw.IOError):
        return StoreUnavailable(
            f"{path} cannot be read or written: {problem}", hint="Check the disk, then `fabric resume`."
        )
    if isinstance(problem, apsw.ConstraintError):
        return UniqueViolation(f"{path} has such a row already: {problem}")
    if isinstance(problem, apsw.BusyError):
        return StoreUnavailable(
            f"{path} has been locked by another program for over {BUSY_TIMEOUT_MS // 1000} seconds",
            hint="See which program holds it (for example with `fuser`), then try again.",
        )
    if isinstance(problem, apsw.NotADBError | apsw.CorruptError):
        return StoreUnavailable(
            f"{path} is not a usable database: {problem}",
            hint="Restore it from a backup, or move it away to start afresh; runlog.jsonl files keep what happened.",
        )
    if isinstance(problem, apsw.CantOpenError | apsw.ReadOnlyError | apsw.PermissionsError):
        return StoreUnavailable(f"{path} cannot be opened: {problem}", hint="Check that you may write in that folder.")
    return StoreUnavailable(f"{path} cannot be used: {problem}", hint="Restore it from a backup.")
