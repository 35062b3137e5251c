"""The one connection of a process that writes to PostgreSQL, with commits in groups.

A table module may look first and write then, as in a SQLite file: such a write has the database for itself. Writes of
the hot path touch rows of one run each, and those of all processes happen at the same time; see `log_writes`. One lock
serves both, held alone or together, until the transaction ends. The third outcome of a commit, *unknown*, exists only
here: the connection ended before the server's answer came.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, Final, TypeVar

import psycopg

from agent_fabric.domain.errors import StoreUnavailable
from agent_fabric.infrastructure.persistence.audit.chain_writer import ChainWriter
from agent_fabric.infrastructure.persistence.dialects import WRITERS_LOCK
from agent_fabric.infrastructure.persistence.group_commits import Asked, GroupCommits, Write, call_safely
from agent_fabric.infrastructure.persistence.postgres.connection import PostgresConnection
from agent_fabric.infrastructure.persistence.postgres.errors import Unreachable, explain_errors, is_answer
from agent_fabric.infrastructure.persistence.postgres.leases import PostgresLeases
from agent_fabric.infrastructure.persistence.postgres.log_statements import (
    LOCK_TIMEOUT_S,
    append_all,
    create_held,
    release_all,
    settle_all,
)
from agent_fabric.infrastructure.persistence.postgres.pool import ConnectionPool
from agent_fabric.infrastructure.persistence.runs.log_writes import (
    AppendEvents,
    ForgetDriver,
    OfOneRun,
    ReleaseRun,
    RunWrite,
)
from agent_fabric.infrastructure.persistence.sql import CommitUnknown, OneStatement, SqlConnection

T = TypeVar("T")

STALLED_S: Final = 10
"""The server ends a transaction whose process sends nothing for so long: others wait for it."""
_BEGIN: Final = (
    f"BEGIN; SELECT set_config('lock_timeout', '{LOCK_TIMEOUT_S}s', true),"
    f" set_config('idle_in_transaction_session_timeout', '{STALLED_S}s', true),"
)
"""Columns are evaluated from left to right: the lock is waited for with the time-out."""
_ALONE: Final = f"{_BEGIN} pg_advisory_xact_lock({WRITERS_LOCK})"
_TOGETHER: Final = f"{_BEGIN} pg_advisory_xact_lock_shared({WRITERS_LOCK})"


class PostgresWriter:
    """GroupWriter of a PostgreSQL database."""

    def __init__(self, pool: ConnectionPool, leases: PostgresLeases, chain: ChainWriter | None = None) -> None:
        self._pool = pool
        self._leases = leases
        self._chain = ChainWriter() if chain is None else chain
        self._connection: PostgresConnection | None = None
        self._along: deque[ForgetDriver] = deque()
        """Writes for the next transaction of runs whose outcome is not awaited."""
        self._group = GroupCommits(self._transact, shared=(CommitUnknown, Unreachable), split=_split)

    def write(
        self,
        write: Callable[[SqlConnection], T],
        *,
        after: Callable[[], None] | None = None,
        alone: bool = False,  # noqa: ARG002 - the network is never as fast as to be waited for on the event loop
    ) -> "asyncio.Future[T]":
        """See GroupWriter."""
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._group.ask((write, future, after))
        return future

    def write_along(self, write: Write) -> None:
        """See GroupWriter."""
        if isinstance(write, ForgetDriver):
            self._along.append(write)
        else:
            self._group.write_along(write)

    async def between_writes(self, work: Callable[[], None]) -> None:
        """See GroupWriter."""
        await self._group.between_writes(work)

    def abort(self) -> None:
        """End a transaction that waits for the server, from another thread; whether it happened is looked up."""
        connection = self._connection
        if connection is not None:
            connection.abort()

    def close(self) -> None:
        """Finish what was asked for and end the thread."""
        self._group.close()
        if self._along:
            with suppress(StoreUnavailable):
                self._transact_together([])
        if self._connection is not None:
            call_safely(partial(self._chain.open_transaction, self._connection, patient=True))
            self._connection.close()

    def _transact(self, writes: list[Write]) -> list[Any]:
        together = [write for write in writes if isinstance(write, RunWrite)]
        if together:  # then all are: see `_split`
            return self._transact_together(together)
        with explain_errors(self._pool.place), self._transaction(_ALONE) as connection:
            values = self._group.run_writes(connection, writes)
        call_safely(partial(self._chain.open_transaction, connection))
        return values

    def _transact_together(self, writes: Sequence[RunWrite]) -> list[Any]:
        """Write what other processes may write beside."""
        appends = [write for write in writes if isinstance(write, AppendEvents)]
        with explain_errors(self._pool.place):
            match writes:
                case [OneStatement() as only] if not self._along:
                    return [self._execute_at_once(only)]
            if len(appends) == len(writes) and all(each.is_plain for each in appends):
                return self._append_at_once(appends)
            with self._transaction(_TOGETHER) as connection:
                values = self._write_together(connection, writes, appends)
        call_safely(partial(self._chain.open_transaction, connection))
        return values

    def _write_together(
        self, connection: PostgresConnection, writes: Sequence[RunWrite], appends: Sequence[AppendEvents]
    ) -> list[Any]:
        refused = create_held(connection, self._leases, [each for each in appends if each.new is not None])
        appended = [each for each in appends if id(each) not in refused]
        for append, problem in zip(appended, append_all(connection, self._leases, appended), strict=True):
            if problem is not None:
                refused[id(append)] = problem
            elif append.then is not None and append.settles is None:
                append.then(connection)
        settle_all(connection, [each for each in appended if each.settles is not None and id(each) not in refused])
        sealed = [each.sealed() for each in appended if each.sealed is not None and id(each) not in refused]
        self._chain.seal_all(connection, sealed)
        release_all(connection, [write for write in writes if isinstance(write, ReleaseRun)], self._take_along())
        return [
            write(connection) if isinstance(write, OfOneRun | OneStatement | ForgetDriver) else refused.get(id(write))
            for write in writes
        ]

    def _take_along(self) -> list[ForgetDriver]:
        return [self._along.popleft() for _ in range(len(self._along))]

    def _append_at_once(self, appends: Sequence[AppendEvents]) -> list[Any]:
        """Append with one statement, which is a transaction of its own."""
        connection = self._connection
        if connection is None or not connection.is_usable:
            connection = self._connection = self._pool.connect()
        try:
            return append_all(connection, self._leases, appends)
        except psycopg.Error as problem:
            if connection.is_usable and is_answer(problem):  # nothing happened
                raise
            self._drop(connection)
            raise self._unknown() from problem

    def _execute_at_once(self, statement: OneStatement) -> list[Any]:
        """Run one statement as a transaction; again, if the connection was lost: it may be repeated."""
        connection = self._connection
        if connection is not None:
            try:
                return statement(connection)
            except psycopg.Error as problem:
                if connection.is_usable and is_answer(problem):
                    raise
                self._drop(connection)
        self._connection = connection = self._pool.connect()
        return statement(connection)

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[PostgresConnection]:
        connection = self._begin(begin)
        try:
            yield connection
        except BaseException:
            self._roll_back(connection)
            raise
        self._commit(connection)

    def _begin(self, begin: str) -> PostgresConnection:
        """Return the connection, in a transaction that may write. One that ended while it was idle is replaced."""
        connection = self._connection
        if connection is not None:
            try:
                connection.execute(begin)
            except psycopg.OperationalError:
                if connection.is_usable:  # others did not let us write
                    self._roll_back(connection)
                    raise
                self._drop(connection)
            else:
                return connection
        self._connection = connection = self._pool.connect()
        connection.execute(begin)
        return connection

    def _commit(self, connection: PostgresConnection) -> None:
        try:
            connection.commit()
        except psycopg.Error as problem:
            self._chain.rolled_back()
            answered = connection.is_usable and is_answer(problem)
            self._drop(connection)
            if answered:  # it did not commit
                raise
            raise self._unknown() from problem

    def _unknown(self) -> CommitUnknown:
        return CommitUnknown(
            f"The connection to {self._pool.place} ended during a commit: whether it happened is not known",
            hint="Nothing that was recorded is lost. Runs look it up when they go on: fabric resume.",
        )

    def _roll_back(self, connection: PostgresConnection) -> None:
        self._chain.rolled_back()
        try:
            connection.execute("ROLLBACK")
        except psycopg.Error:
            self._drop(connection)

    def _drop(self, connection: PostgresConnection) -> None:
        connection.close()
        self._connection = None


def _split(group: list[Asked]) -> list[list[Asked]]:
    """Part a group into what others may write beside, and what has the database for itself."""
    together = [asked for asked in group if isinstance(asked[0], RunWrite)]
    alone = [asked for asked in group if not isinstance(asked[0], RunWrite)]
    return [part for part in (together, alone) if part]
