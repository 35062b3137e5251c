"""The one connection of a process that writes the SQLite file.

A commit on the event loop would stall every run for as long as the disk takes, so commits are grouped on a thread. Only
a process that drives a single run on a fast disk commits on the spot: no other run would stall, and changing threads
twice costs more than the commit.
"""

import asyncio
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import apsw

from agent_fabric.infrastructure.persistence.audit.chain_writer import ChainWriter
from agent_fabric.infrastructure.persistence.database import BUSY_TIMEOUT_MS, OpenFiles, connect, explained
from agent_fabric.infrastructure.persistence.group_commits import GroupCommits, Write, call_safely, resolve

FAST_COMMIT_S = 0.005

T = TypeVar("T")


class Writer:
    """GroupWriter of a SQLite file."""

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
        call_safely(partial(self._chain.committed, self._connection, patient=True))
        self._connection.close()

    def _transact(self, writes: list[Write]) -> list[Any]:
        connection = self._connection
        started = time.monotonic()
        with explained(self._path):
            self._files.require_in_place()
            connection.execute("BEGIN IMMEDIATE")
            try:
                values = self._group.run_writes(connection, writes)
                connection.execute("COMMIT")
            except BaseException:
                self._chain.rolled_back()
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
        self._files.require_in_place()  # once more: it may have been deleted meanwhile
        self._commit_s = time.monotonic() - started
        call_safely(partial(self._chain.committed, connection))
        return values
