"""The connections of a process to PostgreSQL: a bounded number, opened when they are needed."""

import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from agent_fabric.domain.errors import StoreUnavailable
from agent_fabric.infrastructure.persistence.postgres.connection import PostgresConnection, place_of
from agent_fabric.infrastructure.persistence.postgres.errors import Unreachable, explain_errors

PATIENCE_S: Final = 30.0
"""How long a read waits for a connection that others use."""
MIN_PAUSE_S, MAX_PAUSE_S = 0.1, 0.5
"""After a failed attempt no one tries again for a random time in between, so that a server that comes back is not met
by all processes at once. Who asks meanwhile gets the error at once."""


class ConnectionPool:
    """Lends connections; at most `size` of them are open."""

    def __init__(
        self, url: str, size: int, check: Callable[[PostgresConnection, str], None] = lambda _connection, _place: None
    ) -> None:
        """Connect to nothing yet; each new connection is handed to `check`, with the name of the database."""
        self._url = url
        self._check = check
        self.place = place_of(url)
        self._places = threading.Semaphore(size)
        self._guard = threading.Lock()
        """Protects the fields below; never held while the network is used."""
        self._idle: list[PostgresConnection] = []
        self._closed = False
        self._failed: Unreachable | None = None
        self._next_try = 0.0

    @contextmanager
    def lend(self, *, fresh: bool = False) -> Iterator[PostgresConnection]:
        """Lend a connection that no one else uses; `fresh`: one that no time-out can have ended meanwhile.

        Raises:
            StoreUnavailable: there is none, or the database reports an error.
        """
        if not self._places.acquire(timeout=PATIENCE_S):
            raise StoreUnavailable(
                f"All connections to {self.place} have been in use for {PATIENCE_S:.0f} seconds",
                hint="Raise `store.pool`.",
            )
        try:
            connection = (None if fresh else self._take_idle()) or self.connect()
            try:
                with explain_errors(self.place):
                    yield connection
            finally:
                self._give_back(connection)
        finally:
            self._places.release()

    def connect(self) -> PostgresConnection:
        """Open a connection that is not one of the pool.

        Raises:
            Unreachable: it is not possible now.
            StoreUnavailable: the database is not what it has to be.
        """
        with self._guard:
            failed = self._failed if time.monotonic() < self._next_try else None
        if failed is not None:
            raise Unreachable(failed.message, hint=failed.hint) from failed.__cause__
        try:
            connection = PostgresConnection(self._url)
        except Unreachable as problem:
            with self._guard:
                self._failed = problem
                self._next_try = time.monotonic() + random.uniform(MIN_PAUSE_S, MAX_PAUSE_S)  # noqa: S311 - no secret
            raise
        try:
            with explain_errors(self.place):
                self._check(connection, self.place)
        except BaseException:
            connection.close()
            raise
        return connection

    def close(self) -> None:
        """Close all connections, those that are lent when they come back."""
        with self._guard:
            self._closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _take_idle(self) -> PostgresConnection | None:
        with self._guard:
            return self._idle.pop() if self._idle else None

    def _give_back(self, connection: PostgresConnection) -> None:
        if connection.is_idle:  # else it is broken, or a transaction was left open by an error
            with self._guard:
                if not self._closed:
                    self._idle.append(connection)
                    return
        connection.close()
