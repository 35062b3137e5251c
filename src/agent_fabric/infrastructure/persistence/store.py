"""One fabric folder's database as one process sees it: a writer, reader connections and the kernel locks.

A commit on the event loop would stall every run for as long as the disk takes, so commits are grouped on a thread. Only
a process that drives a single run on a fast disk commits on the spot: no other run would stall, and changing threads
twice costs more than the commit.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property, partial
from pathlib import Path
from typing import Any, TypeVar

import apsw

from agent_fabric.infrastructure.persistence.audit.chain_writer import ChainWriter
from agent_fabric.infrastructure.persistence.database import (
    BUSY_TIMEOUT_MS,
    OpenFiles,
    connect,
    error_for,
    explain_errors,
)
from agent_fabric.infrastructure.persistence.dialects import SQLITE
from agent_fabric.infrastructure.persistence.group_commits import GroupCommits, Write, call_safely, resolve
from agent_fabric.infrastructure.persistence.runs.run_leases import KernelLeases
from agent_fabric.infrastructure.persistence.runs.run_locks import RunLocks
from agent_fabric.infrastructure.persistence.secrets.sealing import NO_KEYS, RunKeys
from agent_fabric.infrastructure.threads import politely

T = TypeVar("T")


FAST_COMMIT_S = 0.005


class Writer:
    """GroupWriter of a SQLite file: the one connection of a process that writes it."""

    def __init__(
        self,
        path: Path,
        chain: ChainWriter | None = None,
        connect: Callable[[Path], apsw.Connection] = connect,
    ) -> None:
        self._path = path
        self._chain = ChainWriter() if chain is None else chain
        self._connection = connect(path)
        self._files = OpenFiles(path)
        self._files.require_in_place()
        self._commit_s = 0.0
        """How long the last commit took."""
        self._group = GroupCommits(self._transact)

    def write(
        self, write: Callable[[apsw.Connection], T], *, after: Callable[[], None] | None = None, alone: bool = False
    ) -> "asyncio.Future[T]":
        """See GroupWriter."""
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        asked = (write, future, after)
        if alone and self._commit_s < FAST_COMMIT_S and self._group.begin_now():
            try:
                self._connection.set_busy_timeout(0)  # another process may hold the file, and we must not wait here
                outcomes = self._group.serve([asked])
            finally:
                self._connection.set_busy_timeout(BUSY_TIMEOUT_MS)
                self._group.end_now()
            problem = outcomes[0][2]
            if problem is None or not isinstance(problem.__cause__, apsw.BusyError):
                resolve(outcomes)
                return future
        self._group.ask(asked)
        return future

    def write_along(self, write: Write) -> None:
        """See GroupWriter."""
        self._group.write_along(write)

    async def between_writes(self, work: Callable[[], None]) -> None:
        """See GroupWriter."""
        await self._group.between_writes(work)

    def close(self) -> None:
        """Finish what was asked for and end the thread."""
        self._group.close()
        call_safely(partial(self._chain.open_transaction, self._connection, patient=True))
        self._connection.close()

    def _transact(self, writes: list[Write]) -> list[Any]:
        connection = self._connection
        started = time.monotonic()
        try:  # not `explain_errors`: this is done for every commit
            connection.execute("BEGIN IMMEDIATE")
            try:
                values = self._group.run_writes(connection, writes)
                connection.execute("COMMIT")
            except BaseException:
                self._chain.rolled_back()
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
        except apsw.Error as problem:
            raise error_for(problem, self._path) from problem
        self._files.require_in_place()  # or this was written into a file that is gone, and counts as not done
        self._commit_s = time.monotonic() - started
        if self._chain.has_head_to_keep:
            call_safely(partial(self._chain.open_transaction, connection))
        return values


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
            with explain_errors(self.path):
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
        with explain_errors(self.path):
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
