"""Rows that many callers write with the same statement: one statement for all that have come until it runs.

The writer groups transactions, but every statement inside one still costs two changes of the interpreter's lock, and
each of them takes milliseconds while the event loop is busy. A thousand machines that answer within a second would
wait for that, and not for the disk.
"""

import asyncio
import threading
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from agent_fabric.infrastructure.persistence.runs.log_writes import OfOneRun
from agent_fabric.infrastructure.persistence.sql import Database, SqlConnection

R = TypeVar("R")
T = TypeVar("T")


class RowBatches(Generic[R, T]):
    """Collects rows until the writer comes to them."""

    def __init__(
        self, database: Database, write: Callable[[SqlConnection, Sequence[R]], Sequence[T]], *, most: int
    ) -> None:
        """`write` writes up to `most` rows and returns one value for each; it may be called again with the same.

        It must not matter what other processes write at the same time.
        """
        self._database = database
        self._write = write
        self._most = most
        self._guard = threading.Lock()
        """Protects the field below: rows come on the event loop and are taken on the writer's thread."""
        self._waiting: list[tuple[Sequence[R], asyncio.Future[list[T]]]] = []

    def put(self, rows: Sequence[R]) -> "asyncio.Future[list[T]]":
        """Write rows; the future is done once they are durable. It fails as `Database.write` does."""
        future: asyncio.Future[list[T]] = asyncio.get_running_loop().create_future()
        with self._guard:
            is_first = not self._waiting
            self._waiting.append((rows, future))
        if is_first:
            self._begin()
        return future

    def _begin(self) -> None:
        """Ask for a transaction; what it writes is decided when it begins."""
        taken: list[tuple[Sequence[R], asyncio.Future[list[T]]]] = []

        def write(connection: SqlConnection) -> list[T]:
            if not taken:  # else it is tried again, and has to be the same
                taken.extend(self._take())
            rows = [row for each, _ in taken for row in each]
            parts = [rows[start : start + self._most] for start in range(0, len(rows), self._most)]
            return [value for part in parts for value in self._write(connection, part)]

        def tell(written: "asyncio.Future[list[T]]") -> None:
            problem = None if written.cancelled() else written.exception()
            told = taken or self._take()  # it failed before it could begin
            values = iter(written.result() if problem is None and not written.cancelled() else ())
            for rows, future in told:
                own = [value for _, value in zip(rows, values, strict=False)]
                if future.done():
                    continue
                if problem is not None:
                    future.set_exception(problem)
                elif written.cancelled():
                    future.cancel()
                else:
                    future.set_result(own)

        self._database.write(OfOneRun(write)).add_done_callback(tell)

    def _take(self) -> list[tuple[Sequence[R], "asyncio.Future[list[T]]"]]:
        with self._guard:
            taken, self._waiting = self._waiting, []
        return taken
