"""A PostgreSQL database as one process sees it: a writer, connections for reads, and leases."""

import asyncio
from collections.abc import Callable
from functools import cached_property, partial
from typing import Final, TypeVar

from agent_fabric.application.ports.cluster import Introduction
from agent_fabric.infrastructure.persistence.audit.chain_writer import ChainWriter
from agent_fabric.infrastructure.persistence.audit.strands import Strand
from agent_fabric.infrastructure.persistence.dialects import POSTGRESQL
from agent_fabric.infrastructure.persistence.postgres.audit_keeper import LOCK_MAIN_CHAIN, AuditKeeper
from agent_fabric.infrastructure.persistence.postgres.connection import PostgresConnection
from agent_fabric.infrastructure.persistence.postgres.errors import Unreachable
from agent_fabric.infrastructure.persistence.postgres.leases import PostgresLeases
from agent_fabric.infrastructure.persistence.postgres.membership import Membership
from agent_fabric.infrastructure.persistence.postgres.migration import require_migrated
from agent_fabric.infrastructure.persistence.postgres.pool import ConnectionPool
from agent_fabric.infrastructure.persistence.postgres.writer import PostgresWriter
from agent_fabric.infrastructure.persistence.secrets.sealing import NO_KEYS, RunKeys
from agent_fabric.infrastructure.persistence.sql import SqlConnection
from agent_fabric.infrastructure.threads import politely

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
