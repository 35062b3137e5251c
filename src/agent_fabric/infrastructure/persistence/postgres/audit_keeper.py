"""Ties the strands of all processes into the main chain, a few times a minute.

One of the processes that are there is the keeper: a lock by name that ends with its process says which. The others only
keep the newest head outside of the database. A process closes its own strand at its end; the keeper
closes those of the dead.
"""

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from agent_fabric.application.ports.audit import ChainHead, HeadKeeper
from agent_fabric.domain.audit.key import AuditKey
from agent_fabric.domain.errors import StoreUnavailable
from agent_fabric.infrastructure.persistence.audit.chain_writer import ChainWriter, has_entry, newest_entry
from agent_fabric.infrastructure.persistence.audit.strands import tie_strands
from agent_fabric.infrastructure.persistence.postgres.connection import PostgresConnection
from agent_fabric.infrastructure.persistence.postgres.leases import ACQUIRE_LOCK, ALIVE
from agent_fabric.infrastructure.persistence.postgres.membership import NOW, Membership, reap
from agent_fabric.infrastructure.persistence.postgres.pool import ConnectionPool

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
    """A thread that ties strands, for as long as this process is among those that share the database."""

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
