"""The one connection of a process that writes to PostgreSQL, with commits in groups.

Writes of all processes take turns, as they do in a SQLite file: a table module may look first and write then. The turn
is a lock that ends with its transaction. The third outcome of a commit, *unknown*, exists only here: the connection
ended before the server's answer came.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, Final, TypeVar

import psycopg

from agent_fabric.infrastructure.persistence.chain_writer import ChainWriter
from agent_fabric.infrastructure.persistence.group_commits import GroupCommits, Write, call_safely
from agent_fabric.infrastructure.persistence.postgres.connection import PostgresConnection
from agent_fabric.infrastructure.persistence.postgres.errors import Unreachable, explained
from agent_fabric.infrastructure.persistence.postgres.pool import ConnectionPool
from agent_fabric.infrastructure.persistence.sql import CommitUnknown, SqlConnection

T = TypeVar("T")

TURN: Final = 0x46414252
"""Names the lock: FABR."""
TURN_TIMEOUT_S: Final = 60
"""How long a write waits for its turn. Each takes milliseconds."""
STALLED_S: Final = 10
"""The server ends a transaction whose process sends nothing for so long: others wait for it."""
_BEGIN: Final = (
    f"BEGIN; SET LOCAL lock_timeout = '{TURN_TIMEOUT_S}s';"
    f" SET LOCAL idle_in_transaction_session_timeout = '{STALLED_S}s'; SELECT pg_advisory_xact_lock({TURN})"
)


class PostgresWriter:
    """GroupWriter of a PostgreSQL database."""

    def __init__(self, pool: ConnectionPool, chain: ChainWriter | None = None) -> None:
        self._pool = pool
        self._chain = ChainWriter() if chain is None else chain
        self._connection: PostgresConnection | None = None
        self._group = GroupCommits(self._transact, shared=(CommitUnknown, Unreachable))

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
        if self._connection is not None:
            call_safely(partial(self._chain.committed, self._connection, patient=True))
            self._connection.close()

    def _transact(self, writes: list[Write]) -> list[Any]:
        with explained(self._pool.place):
            connection = self._begun()
            try:
                values = self._group.run_writes(connection, writes)
            except BaseException:
                self._roll_back(connection)
                raise
            self._commit(connection)
        call_safely(partial(self._chain.committed, connection))
        return values

    def _begun(self) -> PostgresConnection:
        """Return the connection, in a transaction whose turn it is. One that ended while it was idle is replaced."""
        connection = self._connection
        if connection is not None:
            try:
                connection.execute(_BEGIN)
            except psycopg.OperationalError:
                if connection.is_usable:  # others did not give us our turn
                    self._roll_back(connection)
                    raise
                self._drop(connection)
            else:
                return connection
        self._connection = connection = self._pool.connect()
        connection.execute(_BEGIN)
        return connection

    def _commit(self, connection: PostgresConnection) -> None:
        try:
            connection.commit()
        except psycopg.Error as problem:
            self._chain.rolled_back()
            usable = connection.is_usable
            self._drop(connection)
            if usable:  # the server has answered: it did not commit
                raise
            raise CommitUnknown(
                f"The connection to {self._pool.place} ended during a commit: whether it happened is not known",
                hint="Nothing that was recorded is lost. Runs look it up when they go on: fabric resume.",
            ) from problem

    def _roll_back(self, connection: PostgresConnection) -> None:
        self._chain.rolled_back()
        try:
            connection.execute("ROLLBACK")
        except psycopg.Error:
            self._drop(connection)

    def _drop(self, connection: PostgresConnection) -> None:
        connection.close()
        self._connection = None
