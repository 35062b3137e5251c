"""Wakes drivers when somebody, in whatever process, has written to their run's inbox."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

import apsw

from agent_fabric.application.ports.runs import CANCEL, CHILD, InboxRow
from agent_fabric.domain.errors import StoreUnavailable
from agent_fabric.infrastructure.persistence.codec import load_json
from agent_fabric.infrastructure.persistence.event_bodies import damage_explained
from agent_fabric.infrastructure.persistence.sealing import Cipher, is_sealed, sealed_json, unsealed_json
from agent_fabric.infrastructure.persistence.store import Store

POLL_S = 0.25
_OURS = frozenset({CANCEL, CHILD})
"""Rows of these kinds may be in the clear in an encrypted run's inbox: runs that belong to it write them, and they say
no more than that something has ended."""


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
        self._ciphers: dict[int, Cipher] = {}
        """Of the runs that are encrypted."""
        self._watch: asyncio.Task[None] | None = None

    def receive(self, run: int, cipher: Cipher | None) -> "asyncio.Future[Sequence[InboxRow]]":
        """Return a future for the rows that a run has not been given yet."""
        # A future, and no task: every run wants one, and hardly any ever gets a row.
        future = self._waiting[run] = asyncio.get_running_loop().create_future()
        if cipher is not None:
            self._ciphers[run] = cipher
        if self._watch is None or self._watch.done():
            self._watch = asyncio.create_task(self._look())
        return future

    async def unread(self, run: int, cipher: Cipher | None) -> Sequence[InboxRow]:
        """Return the rows that a run has not been given yet, and count them as given."""
        rows = await self._store.read(lambda connection: _rows(connection, run, self._seen.get(run, 0), cipher))
        if rows:
            self._seen[run] = rows[-1].row_id
        return rows

    def forget(self, run: int) -> None:
        """Learn that nobody here drives a run any more."""
        self._waiting.pop(run, None)
        self._seen.pop(run, None)
        self._ciphers.pop(run, None)

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
                try:
                    rows = _rows(connection, run, self._seen.get(run, 0), self._ciphers.get(run))
                except StoreUnavailable as problem:  # nothing that others would have to suffer for
                    future.set_exception(problem)
                    continue
                if rows:  # the others are only waiting for the append that takes them away
                    self._seen[run] = rows[-1].row_id
                    future.set_result(rows)


def _runs_with_rows(connection: apsw.Connection) -> list[int]:
    return [int(row[0]) for row in connection.execute("SELECT DISTINCT run FROM inbox")]


def _rows(connection: apsw.Connection, run: int, after: int, cipher: Cipher | None) -> list[InboxRow]:
    query = "SELECT id, kind, payload FROM inbox WHERE run = ? AND id > ? ORDER BY id"
    with damage_explained():
        return [
            InboxRow(row_id=row_id, kind=kind, payload=load_json(_unsealed(cipher, kind, payload)))
            for row_id, kind, payload in connection.execute(query, (run, after))
        ]


def inbox_payload(cipher: Cipher | None, kind: str, data: bytes) -> bytes:
    """Return what a row for a run holds, as it is stored."""
    return data if cipher is None else sealed_json(cipher, f"inbox\0{kind}", data)


def _unsealed(cipher: Cipher | None, kind: str, payload: bytes) -> bytes:
    if cipher is None or (kind in _OURS and not is_sealed(payload)):
        return payload
    return unsealed_json(cipher, f"inbox\0{kind}", payload)
