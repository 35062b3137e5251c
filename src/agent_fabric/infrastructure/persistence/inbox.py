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
        self._waiting: dict[int, asyncio.Future[None]] = {}
        self._watch: asyncio.Task[None] | None = None

    async def wait(self, run: int, *, after: int) -> Sequence[InboxRow]:
        """Return the rows of a run that are newer than row `after`, as soon as there are any."""
        while True:
            future = self._waiting[run] = asyncio.get_running_loop().create_future()
            if self._watch is None or self._watch.done():
                self._watch = asyncio.create_task(self._look())
            try:
                await future
            finally:
                self._waiting.pop(run, None)
            rows = self._store.read_now(lambda connection: _rows(connection, run, after))
            if rows:
                return rows
            await asyncio.sleep(POLL_S)  # only rows that were seen before: they go with the next append

    async def _look(self) -> None:
        while self._waiting:
            try:
                found = self._store.read_now(_runs_with_rows)
            except StoreUnavailable:
                found = []  # the next look may work, and drivers must not go deaf
            for run in found:
                future = self._waiting.get(run)
                if future is not None and not future.done():
                    future.set_result(None)
            await asyncio.sleep(POLL_S)
            with suppress(StoreUnavailable):
                await self._beat()


def _runs_with_rows(connection: apsw.Connection) -> list[int]:
    return [int(row[0]) for row in connection.execute("SELECT DISTINCT run FROM inbox")]


def _rows(connection: apsw.Connection, run: int, after: int) -> list[InboxRow]:
    query = "SELECT id, kind, payload FROM inbox WHERE run = ? AND id > ? ORDER BY id"
    return [
        InboxRow(row_id=row_id, kind=kind, payload=load_json(payload))
        for row_id, kind, payload in connection.execute(query, (run, after))
    ]
