"""One fabric folder's database as one process sees it: a writer, reader connections and the kernel locks."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property, partial
from pathlib import Path
from typing import TypeVar

import apsw

from agent_fabric.infrastructure.persistence.audit.chain_writer import ChainWriter
from agent_fabric.infrastructure.persistence.database import OpenFiles, connect, explained
from agent_fabric.infrastructure.persistence.dialects import SQLITE
from agent_fabric.infrastructure.persistence.runs.run_leases import KernelLeases
from agent_fabric.infrastructure.persistence.runs.run_locks import RunLocks
from agent_fabric.infrastructure.persistence.secrets.sealing import NO_KEYS, RunKeys
from agent_fabric.infrastructure.persistence.writer import Writer
from agent_fabric.infrastructure.threads import politely

T = TypeVar("T")

MAX_IDLE_READERS = 4
"""Reader connections that stay open between reads."""


LOG_PATIENCE_MS = 500
"""How long readers are waited for before the write-ahead log is left as it is; it is written over sooner or later."""


class Store:
    """Database in one SQLite file. It is opened lazily: a command that only reads starts no writer."""

    dialect = SQLITE

    def __init__(
        self,
        path: Path,
        keys: RunKeys = NO_KEYS,
        chain: ChainWriter | None = None,
        connect: Callable[[Path], apsw.Connection] = connect,
    ) -> None:
        self.path = path
        self._open = connect
        self._chain = chain
        self.keys = keys
        """Of the runs that are encrypted."""
        self.locks = RunLocks(path.with_name("locks"))
        self.leases = KernelLeases(self.locks)
        self._guard = threading.Lock()
        """Protects the fields below; never held during a read."""
        self._idle: list[apsw.Connection] = []
        self._closed = False
        self._files = OpenFiles(path)
        self._was_opened = False

    @cached_property
    def writer(self) -> Writer:
        """The one writer of this process."""
        return Writer(self.path, self._chain, self._open)

    def write(self, write: Callable[[apsw.Connection], T]) -> "asyncio.Future[T]":
        """Run `write` in a transaction; see `Writer.write`."""
        return self.writer.write(write)

    def write_along(self, write: Callable[[apsw.Connection], object]) -> None:
        """Run `write` in the next transaction; see `Writer.write_along`."""
        self.writer.write_along(write)

    async def truncate_log(self) -> bool:
        """Empty the write-ahead log, which still holds what was deleted; False if readers are in the way."""

        def truncate() -> bool:
            with explained(self.path):
                connection = self._open(self.path)
                try:
                    connection.set_busy_timeout(LOG_PATIENCE_MS)
                    return not connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()[0][0]
                finally:
                    connection.close()

        return await asyncio.to_thread(truncate)

    async def read(self, read: Callable[[apsw.Connection], T]) -> T:
        """Run `read` on a thread; it sees all that is durable."""
        return await politely(partial(self.read_now, read))

    async def read_briefly(self, read: Callable[[apsw.Connection], T]) -> T:
        """Run `read` here: changing threads twice would take longer."""
        return self.read_now(read)

    def read_now(self, read: Callable[[apsw.Connection], T]) -> T:
        """Run `read` here and now; for what takes microseconds."""
        with self.reader() as connection:
            return read(connection)

    @contextmanager
    def reader(self) -> Iterator[apsw.Connection]:
        """Lend a connection for reading. No other read uses it, so a long read delays no short one.

        Raises:
            StoreUnavailable: the file cannot be opened or read.
        """
        with explained(self.path):
            if self._was_opened:
                self._files.require_in_place()  # or an empty file would be made in its place
            connection = self._take_idle() or self._connect()
            try:
                yield connection
            finally:
                self._give_back(connection)

    def _take_idle(self) -> apsw.Connection | None:
        with self._guard:
            return self._idle.pop() if self._idle else None

    def _connect(self) -> apsw.Connection:
        connection = self._open(self.path)
        self._files.require_in_place()
        self._was_opened = True
        return connection

    def _give_back(self, connection: apsw.Connection) -> None:
        with self._guard:
            if not self._closed and len(self._idle) < MAX_IDLE_READERS:
                self._idle.append(connection)
                return
        connection.close()

    def require_in_place(self) -> None:
        """Check that the opened file still exists, opening it if needed: what is written into a deleted one is lost.

        Raises:
            StoreUnavailable: it cannot be opened, or was deleted or replaced.
        """
        if not self._was_opened:
            self.read_now(lambda _: None)
        self._files.require_in_place()

    def close(self) -> None:
        """Finish every write and close the file."""
        if "writer" in self.__dict__:
            self.writer.close()
        with self._guard:
            self._closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()
