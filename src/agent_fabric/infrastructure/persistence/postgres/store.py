"""A PostgreSQL database as one process sees it: a writer, connections for reads, and leases."""

import asyncio
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property, partial
from typing import Final, TypeVar

from agent_fabric.application.ports.audit import ChainHead, HeadKeeper
from agent_fabric.application.ports.cluster import Introduction
from agent_fabric.domain.audit.key import AuditKey
from agent_fabric.domain.errors import StoreUnavailable
from agent_fabric.infrastructure.persistence.audit.chain_writer import ChainWriter, has_entry, newest_entry
from agent_fabric.infrastructure.persistence.audit.strands import Strand, tie_strands
from agent_fabric.infrastructure.persistence.dialects import POSTGRESQL
from agent_fabric.infrastructure.persistence.postgres.connection import PostgresConnection
from agent_fabric.infrastructure.persistence.postgres.errors import Unreachable
from agent_fabric.infrastructure.persistence.postgres.leases import ACQUIRE_LOCK, ALIVE, PostgresLeases
from agent_fabric.infrastructure.persistence.postgres.membership import NOW, Membership, reap
from agent_fabric.infrastructure.persistence.postgres.migration import require_migrated
from agent_fabric.infrastructure.persistence.postgres.pool import ConnectionPool
from agent_fabric.infrastructure.persistence.postgres.writer import PostgresWriter
from agent_fabric.infrastructure.persistence.secrets.sealing import NO_KEYS, RunKeys
from agent_fabric.infrastructure.persistence.sql import SqlConnection
from agent_fabric.infrastructure.threads import politely

EVERY_S: Final = 5.0
"""How long entries about runs may be without the cover of the main chain."""
LOCK_MAIN_CHAIN: Final = f"SELECT pg_advisory_xact_lock({0x46414254})"
KEEPER: Final = "audit keeper"
"""The lock that the keeper holds."""
CLOSE_S: Final = 2.0
"""How long the end of the process waits for its strand to be closed. If it is not, the keeper does it later."""
_BEGIN: Final = (
    "BEGIN; SET LOCAL lock_timeout = '10s'; SET LOCAL statement_timeout = '10s';"
    " SET LOCAL idle_in_transaction_session_timeout = '10s'"
)
_LOOK: Final = (
    f"SELECT NOT EXISTS (SELECT 1 FROM named_locks WHERE name = ? AND holder <> ? AND holder IN {ALIVE}),"  # noqa: S608 - ours
    " EXISTS (SELECT 1 FROM open_strands WHERE tied < (SELECT max(number) FROM audit_strands"
    " WHERE audit_strands.strand = open_strands.strand)"
    " OR NOT EXISTS (SELECT 1 FROM workers WHERE id = open_strands.strand AND state <> 'gone')),"
    f" EXISTS (SELECT 1 FROM workers WHERE state <> 'gone' AND lease_until < {NOW}), position, hash"
    " FROM (SELECT 1) AS one LEFT JOIN (SELECT position, hash FROM audit_chain ORDER BY position DESC LIMIT 1) AS head"
    " ON true"
)
"""Query: whether this process may be the keeper, whether anything is to be tied or written off, the newest entry."""

_log = logging.getLogger(__name__)


class AuditKeeper:
    """A thread that ties the strands of all processes into the main chain, a few times a minute.

    One of the processes that share the database is the keeper: a lock by name that ends with its process says which.
    The others only keep the newest head outside of the database. A process closes its own strand at its end; the
    keeper closes those of the dead.
    """

    def __init__(self, pool: ConnectionPool, membership: Membership, key: AuditKey, heads: HeadKeeper | None) -> None:
        self._pool = pool
        self._membership = membership
        self._chain = ChainWriter(key, heads)  # of this thread: the writer's own is the writer's
        self._chain.lock_statement = LOCK_MAIN_CHAIN
        self._ends = threading.Event()
        self._thread: threading.Thread | None = None
        self._in_use: PostgresConnection | None = None
        self._seen: ChainHead | None = None
        """The newest entry at the last look."""

    def start(self) -> None:
        """Begin, unless it has begun."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="fabric-audit-keeper", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Close our strand, and end."""
        self._ends.set()
        if self._thread is None:
            return
        self._thread.join(CLOSE_S)
        waiting = self._in_use
        if self._thread.is_alive() and waiting is not None:
            waiting.abort()
            self._thread.join(CLOSE_S)

    def _run(self) -> None:
        while not self._ends.wait(EVERY_S):
            self._try_round(leaving="")
        if self._membership.is_safe():  # else others close our strand, or the database does not answer anyway
            self._try_round(leaving=self._membership.present_id)

    def _try_round(self, leaving: str) -> None:
        try:
            if not leaving and not self._is_something_to_do():
                return
            with self._transaction() as connection:
                reap(connection)
                tied = (leaving or self._is_keeper(connection)) and self._tie(connection, leaving)
            with self._pool.lend() as connection:
                if tied:
                    self._chain.open_transaction(connection, patient=bool(leaving))
                elif self._chain.heads is not None:
                    # Heads are kept on every machine, not only where the keeper is.
                    self._chain.heads.advance(newest_entry(connection), lambda kept: has_entry(connection, kept))
        except StoreUnavailable as problem:
            self._chain.rolled_back()
            _log.info("The audit record was not tied: %s", problem.message)

    def _is_something_to_do(self) -> bool:
        """Look, with one query: most of the time nothing has happened, or another process ties it."""
        worker_id = self._membership.present_id
        with self._pool.lend() as connection:
            mine, untied, lapsed, *newest = connection.execute(_LOOK, (KEEPER, worker_id)).fetchone()
        seen, self._seen = self._seen, ChainHead(int(newest[0]), bytes(newest[1])) if newest[0] else None
        return lapsed or (mine and untied) or (self._chain.heads is not None and seen != self._seen)

    def _is_keeper(self, connection: PostgresConnection) -> bool:
        worker_id = self._membership.present_id
        return bool(worker_id) and connection.execute(ACQUIRE_LOCK, (KEEPER, worker_id)).fetchone() is not None

    def _tie(self, connection: PostgresConnection, leaving: str) -> bool:
        (now,) = connection.execute(f"SELECT {NOW}").fetchone()
        return tie_strands(connection, self._chain, now=float(now), leaving=leaving)

    @contextmanager
    def _transaction(self) -> Iterator[PostgresConnection]:
        with self._pool.lend() as connection:
            self._in_use = connection
            try:
                connection.execute(_BEGIN)
                yield connection
                connection.commit()  # the pool closes a connection whose transaction was left open
            finally:
                self._in_use = None


T = TypeVar("T")

DEFAULT_POOL: Final = 8
"""Connections of a process, if nothing else is said."""


class PostgresStore:
    """LogDatabase in PostgreSQL. It connects lazily, and to nothing but migrated tables."""

    dialect = POSTGRESQL

    def __init__(
        self,
        url: str,
        *,
        keys: RunKeys = NO_KEYS,
        chain: ChainWriter | None = None,
        pool: int = DEFAULT_POOL,
        introduction: Introduction | None = None,
    ) -> None:
        """Connect to nothing yet.

        Args:
            url: Address of the database, as libpq reads it.
            keys: Keys of encrypted runs.
            chain: Writes the audit chain.
            pool: How many connections may be open, the writer's included. One more renews the lease.
            introduction: What other processes read about this one.

        Raises:
            StoreUnavailable: the address cannot be read.
        """
        self.keys = keys
        self._chain = ChainWriter() if chain is None else chain
        self._has_begun = False
        self._pool = ConnectionPool(url, max(1, pool - 1), self._require_migrated)
        self.place = self._pool.place
        """The database for people, without a password."""
        self.membership = Membership(self._pool.connect, self.place, introduction or Introduction())
        """This process among the others."""
        self.leases = PostgresLeases(self.membership, self.write)
        self.membership.on_lost(self._abort_write)
        self._chain.strand = Strand(lambda: self.membership.worker_id)
        self._chain.lock_statement = LOCK_MAIN_CHAIN
        self._keeper = AuditKeeper(self._pool, self.membership, self._chain.key, self._chain.heads)
        self.membership.on_joined(self._keeper.start)

    @cached_property
    def writer(self) -> PostgresWriter:
        """The one writer of this process."""
        return PostgresWriter(self._pool, self.leases, self._chain)

    def write(self, write: Callable[[SqlConnection], T]) -> "asyncio.Future[T]":
        """Run `write` in a transaction; see `GroupWriter.write`."""
        return self.writer.write(write)

    def write_along(self, write: Callable[[SqlConnection], object]) -> None:
        """Run `write` in the next transaction; see `GroupWriter.write_along`."""
        self.writer.write_along(write)

    async def truncate_log(self) -> bool:
        """Do nothing: when the server reuses its log is the server's to decide."""
        return True

    async def read(self, read: Callable[[SqlConnection], T]) -> T:
        """Run `read` on a thread; it sees all that is durable."""
        return await politely(partial(self.read_now, read))

    async def read_briefly(self, read: Callable[[SqlConnection], T]) -> T:
        """Run `read` on a thread, since the network may take its time."""
        return await asyncio.to_thread(self.read_now, read)

    def read_now(self, read: Callable[[SqlConnection], T]) -> T:
        """Run `read` on this thread, which waits for the network.

        A read that loses its connection is repeated once: the server may have ended it while it was idle.
        """
        try:
            with self._pool.lend() as connection:
                return read(connection)
        except Unreachable:
            with self._pool.lend(fresh=True) as connection:
                return read(connection)

    def _require_migrated(self, connection: PostgresConnection, place: str) -> None:
        require_migrated(connection, place, has_begun=self._has_begun)
        self._has_begun = True

    def _abort_write(self, _problem: Exception) -> None:
        if "writer" in self.__dict__:
            self.writer.abort()

    def close(self) -> None:
        """Finish every write, release what is held and close all connections."""
        if "writer" in self.__dict__:
            self.writer.close()
        self._keeper.close()
        self.membership.leave()
        self._pool.close()
