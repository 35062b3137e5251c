"""Wakes drivers when somebody, in whatever process, has written to their run's inbox."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

import apsw

from agent_fabric.application.ports.runs import InboxRow
from agent_fabric.domain.errors import StoreUnavailable
from agent_fabric.infrastructure.persistence.codec import load_json
from agent_fabric.infrastructure.persistence.store import Store

POLL_S = 0.25


class Inbox:
    """One look at the table for all runs of the process, four times a second, as long as anybody waits.

    `beat` is called just as often: for what else has to happen every now and then while runs are driven.
    """

    def __init__(self, store: Store, beat: Callable[[], Awaitable[None]]) -> None:
        self._store = store
        self._beat = beat
        self._waiting: dict[int, asyncio.Future[Sequence[InboxRow]]] = {}
        self._seen: dict[int, int] = {}
        """The newest row that each run has been given."""
        self._watch: asyncio.Task[None] | None = None

    def receive(self, run: int) -> "asyncio.Future[Sequence[InboxRow]]":
        """Return a future for the rows that a run has not been given yet."""
        # A future, and no task: every run wants one, and hardly any ever gets a row.
        future = self._waiting[run] = asyncio.get_running_loop().create_future()
        if self._watch is None or self._watch.done():
            self._watch = asyncio.create_task(self._look())
        return future

    async def unread(self, run: int) -> Sequence[InboxRow]:
        """Return the rows that a run has not been given yet, and count them as given."""
        rows = await self._store.read(lambda connection: _rows(connection, run, self._seen.get(run, 0)))
        if rows:
            self._seen[run] = rows[-1].row_id
        return rows

    def forget(self, run: int) -> None:
        """Learn that nobody here drives a run any more."""
        self._waiting.pop(run, None)
        self._seen.pop(run, None)

    async def _look(self) -> None:
        while self._waiting:
            with suppress(StoreUnavailable):  # the next look may work, and drivers must not go deaf
                self._store.read_now(self._deliver)
            await asyncio.sleep(POLL_S)
            with suppress(StoreUnavailable):
                await self._beat()

    def _deliver(self, connection: apsw.Connection) -> None:
        for run in _runs_with_rows(connection):
            future = self._waiting.get(run)
            if future is not None and not future.done():
                rows = _rows(connection, run, self._seen.get(run, 0))
                if rows:  # the others are only waiting for the append that takes them away
                    self._seen[run] = rows[-1].row_id
                    future.set_result(rows)


def _runs_with_rows(connection: apsw.Connection) -> list[int]:
    return [int(row[0]) for row in connection.execute("SELECT DISTINCT run FROM inbox")]


def _rows(connection: apsw.Connection, run: int, after: int) -> list[InboxRow]:
    query = "SELECT id, kind, payload FROM inbox WHERE run = ? AND id > ? ORDER BY id"
    return [
        InboxRow(row_id=row_id, kind=kind, payload=load_json(payload))
        for row_id, kind, payload in connection.execute(query, (run, after))
    ]
