"""Delivers inbox rows, which any process may write, to the drivers of runs."""

import asyncio
from collections.abc import Awaitable, Callable, Container, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import Any

from agent_fabric.application.ports.encryption import Cipher
from agent_fabric.application.ports.runs import CANCEL, CHILD, InboxRow
from agent_fabric.domain.errors import StoreUnavailable
from agent_fabric.infrastructure.persistence.runs.event_bodies import damage_explained
from agent_fabric.infrastructure.persistence.secrets.sealing import is_sealed, sealed_json, unsealed_json
from agent_fabric.infrastructure.persistence.sql import Database, SqlConnection
from agent_fabric.wire.json_codec import dump_json, load_json

POLL_S = 0.25
HINT_GAP_S = 0.01
"""Hints that come within this time are one."""
_OURS = frozenset({CANCEL, CHILD})
"""Rows of these kinds may be in the clear in an encrypted run's inbox: runs that belong to it write them, and they say
no more than that something has ended."""


Answer = list[InboxRow] | StoreUnavailable
"""The new rows of one run, or why they cannot be read."""


class Inbox:
    """Polls the inbox four times a second, for all runs of the process that wait for rows.

    The event loop never reads: a poll runs on a thread, on a connection that no other read uses. `beat` is called just
    as often, for periodic work while runs are driven.
    """

    def __init__(self, database: Database, beat: Callable[[], Awaitable[None]]) -> None:
        self._database = database
        self._beat = beat
        self._waiting: dict[int, asyncio.Future[Sequence[InboxRow]]] = {}
        self._seen: dict[int, set[int]] = {}
        """The rows that each run has been given and that are still there. Not the newest one: rows that processes
        write at the same time do not become durable in the order of their numbers."""
        self._ciphers: dict[int, Cipher] = {}
        """Of the runs that are encrypted."""
        self._polling: asyncio.Task[None] | None = None
        self._hinted = asyncio.Event()
        self._thread = ThreadPoolExecutor(1, "fabric-inbox")
        """Its own, not the loop's: long reads may fill that one. And one that lasts: starting a thread for each poll
        would make the event loop wait for it."""

    def receive(self, run: int, cipher: Cipher | None) -> "asyncio.Future[Sequence[InboxRow]]":
        """Return a future for the rows that a run has not been given yet."""
        # A future, and no task: every run wants one, and hardly any ever gets a row.
        future = self._waiting[run] = asyncio.get_running_loop().create_future()
        if cipher is not None:
            self._ciphers[run] = cipher
        if self._polling is None or self._polling.done():
            self._hinted = asyncio.Event()  # of the event loop that runs now
            self._polling = asyncio.create_task(self._poll())
        return future

    def look(self) -> None:
        """Look at once, and not at the next poll: there may be new rows."""
        self._hinted.set()

    def fail(self, problem: Exception) -> None:
        """Let everyone who waits for rows get a problem instead; may be called on any thread."""
        for future in list(self._waiting.values()):
            with suppress(RuntimeError):  # its event loop has ended, and with it the task that waited
                future.get_loop().call_soon_threadsafe(_fail, future, problem)

    async def unread(self, run: int, cipher: Cipher | None) -> Sequence[InboxRow]:
        """Return the rows that a run has not been given yet, and count them as given."""
        ciphers, query = {} if cipher is None else {run: cipher}, self._database.dialect.inbox_rows
        read = await self._database.read(lambda connection: _read(connection, query, [run], {}, ciphers))
        answer = read.get(run, [])
        if isinstance(answer, StoreUnavailable):
            raise answer
        return self._give(run, answer)

    def _give(self, run: int, found: Sequence[InboxRow]) -> Sequence[InboxRow]:
        """Return the rows that a run has not been given, and count them as given."""
        seen = self._seen.get(run, set())
        rows = [row for row in found if row.row_id not in seen]
        if rows:
            self._seen[run] = seen | {row.row_id for row in rows}
        return rows

    def forget(self, run: int) -> None:
        """Drop a run that this process no longer drives."""
        self._waiting.pop(run, None)
        self._seen.pop(run, None)
        self._ciphers.pop(run, None)

    async def _poll(self) -> None:
        while self._waiting:
            with suppress(StoreUnavailable):  # the next poll may work, and drivers must not go deaf
                await self._deliver()
            await self._pause()
            with suppress(StoreUnavailable):
                await self._beat()

    async def _pause(self) -> None:
        """Wait for the next poll, or for a hint."""
        with suppress(TimeoutError):
            async with asyncio.timeout(POLL_S):
                await self._hinted.wait()
                await asyncio.sleep(HINT_GAP_S)
        self._hinted.clear()

    async def _deliver(self) -> None:
        waiting = {run: future for run, future in self._waiting.items() if not future.done()}
        if not waiting:
            return
        seen, ciphers = {run: self._seen[run] for run in waiting if run in self._seen}, dict(self._ciphers)
        query = self._database.dialect.inbox_rows
        read = partial(self._database.read_now, lambda connection: _read(connection, query, [*waiting], seen, ciphers))
        for run, answer in (await asyncio.get_running_loop().run_in_executor(self._thread, read)).items():
            future = waiting[run]
            if future.done() or self._waiting.get(run) is not future:
                continue  # cancelled or replaced meanwhile; the next poll reads again
            if isinstance(answer, StoreUnavailable):  # other runs are not affected
                future.set_exception(answer)
                continue
            rows = self._give(run, answer)
            if rows:
                future.set_result(rows)


def _read(
    connection: SqlConnection,
    query: str,
    wanted: Sequence[int],
    seen: Mapping[int, Container[int]],
    ciphers: Mapping[int, Cipher],
) -> dict[int, Answer]:
    """Return the rows of runs but for those they have been given; runs without any are left out."""
    answers: dict[int, Answer] = {}
    rows: list[tuple[Any, ...]] = connection.execute(query, (dump_json(list(wanted)).decode(),)).fetchall()
    for run, found in groupby(rows, key=itemgetter(0)):
        given = seen.get(run, ())
        try:
            with damage_explained():
                answers[run] = [
                    InboxRow(
                        row_id=row_id, kind=kind, payload=load_json(unsealed_payload(ciphers.get(run), kind, payload))
                    )
                    for _, row_id, kind, payload in found
                    if row_id not in given
                ]
        except StoreUnavailable as problem:
            answers[run] = problem
    return answers


def _fail(future: "asyncio.Future[Sequence[InboxRow]]", problem: Exception) -> None:
    if not future.done():
        future.set_exception(problem)


def inbox_payload(cipher: Cipher | None, kind: str, data: bytes) -> bytes:
    """Return what a row for a run holds, as it is stored."""
    return data if cipher is None else sealed_json(cipher, f"inbox\0{kind}", data)


def unsealed_payload(cipher: Cipher | None, kind: str, payload: bytes) -> bytes:
    """Return what `inbox_payload` was given.

    Raises:
        ValueError: it was changed, or belongs elsewhere.
    """
    if cipher is None or (kind in _OURS and not is_sealed(payload)):
        return payload
    return unsealed_json(cipher, f"inbox\0{kind}", payload)
