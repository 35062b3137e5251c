"""One thread that writes, many that ask: commits of all runs of a process are grouped.

A commit on the event loop would stall every run for as long as the disk takes. Here, whatever has been asked for while
one commit was under way becomes the next one. Only a process that drives a single run on a fast disk commits on the
spot: no other run would stall, and changing threads twice costs more than the commit.
"""

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any, TypeVar

import apsw

from agent_fabric.domain.errors import StoreUnavailable
from agent_fabric.infrastructure.persistence.chain_writer import ChainWriter
from agent_fabric.infrastructure.persistence.database import BUSY_TIMEOUT_MS, OpenFiles, connect, explained

FAST_COMMIT_S = 0.005

T = TypeVar("T")
Write = Callable[[apsw.Connection], Any]
_Asked = tuple[Write, "asyncio.Future[Any]", Callable[[], None] | None]
_Outcome = tuple["asyncio.Future[Any]", Any, BaseException | None]


class Writer:
    """The only connection of this process that writes."""

    def __init__(self, path: Path, chain: ChainWriter | None = None) -> None:
        self._path = path
        self._chain = ChainWriter() if chain is None else chain
        self._asked: SimpleQueue[_Asked | None] = SimpleQueue()
        self._connection = connect(path)
        self._files = OpenFiles(path)
        self._free = threading.Lock()
        """Held while the connection is in use."""
        self._beside: deque[Write] = deque()
        """Writes for the next transaction whose outcome is not awaited."""
        self._commit_s = 0.0
        """How long the last commit took."""
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="fabric-store", daemon=True)
        self._thread.start()

    def write(
        self, write: Callable[[apsw.Connection], T], *, after: Callable[[], None] | None = None, alone: bool = False
    ) -> "asyncio.Future[T]":
        """Run `write` inside a transaction; the future is done once that is durable.

        Cancelling the future does not stop the write. `after` runs once the transaction is durable, before any later
        write; it updates mirrors. `alone` says that no other run of this process would have to wait for the disk. The
        future may end with:

            StoreFull, StoreUnavailable: nothing of `write` has happened.
            Exception: what `write` itself raised; nothing of it has happened, other writes are not affected.
        """
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        asked: _Asked = (write, future, after)
        if self._closed:  # a run is released later than the process could wait for
            future.set_exception(StoreUnavailable("The store has been closed"))
            return future
        if alone and self._commit_s < FAST_COMMIT_S and self._asked.empty() and self._free.acquire(blocking=False):
            try:
                self._connection.set_busy_timeout(0)  # another process may hold the file, and we must not wait here
                outcomes = self._serve([asked])
            finally:
                self._connection.set_busy_timeout(BUSY_TIMEOUT_MS)
                self._free.release()
            problem = outcomes[0][2]
            if problem is None or not isinstance(problem.__cause__, apsw.BusyError):
                _resolve(outcomes)
                return future
        self._asked.put(asked)
        return future

    def write_along(self, write: Write) -> None:
        """Run `write` inside the next transaction, or when the writer is closed.

        For best-effort writes: it costs no commit of its own, and its outcome is not reported.
        """
        self._beside.append(write)

    async def between_writes(self, work: Callable[[], None]) -> None:
        """Run `work` on a thread, while nothing is being written."""

        def run() -> None:
            with self._free:
                work()

        await asyncio.to_thread(run)

    def close(self) -> None:
        """Finish what was asked for and end the thread."""
        self._closed = True
        self._asked.put(None)
        self._thread.join()
        if self._beside:
            with suppress(StoreUnavailable):
                self._transact([])
        _call(partial(self._chain.committed, self._connection, patient=True))
        self._connection.close()

    def _run(self) -> None:
        open_ = True
        while open_:
            group = [self._asked.get()]
            while not self._asked.empty():
                group.append(self._asked.get())
            open_ = None not in group
            asked = [entry for entry in group if entry is not None]
            if asked:
                with self._free:
                    outcomes = self._serve(asked)
                _tell(outcomes)

    def _serve(self, asked: list[_Asked]) -> list[_Outcome]:
        outcomes = self._commit(asked)
        # Before those who asked wake up: afterwards both threads would fight for the interpreter.
        for (_, _, after), (_, _, problem) in zip(asked, outcomes, strict=True):
            if after is not None and problem is None:
                _call(after)
        return outcomes

    def _commit(self, group: list[_Asked]) -> list[_Outcome]:
        try:
            values = self._transact([write for write, _, _ in group])
        except BaseException as problem:  # noqa: BLE001 - set on the future
            if len(group) == 1:
                return [(group[0][1], None, problem)]
            # One bad write must not fail its neighbours: each again on its own.
            return [outcome for entry in group for outcome in self._commit([entry])]
        return [(future, value, None) for (_, future, _), value in zip(group, values, strict=True)]

    def _transact(self, writes: list[Write]) -> list[Any]:
        connection = self._connection
        started = time.monotonic()
        with explained(self._path):
            self._files.require_in_place()
            connection.execute("BEGIN IMMEDIATE")
            try:
                while self._beside:
                    self._beside.popleft()(connection)
                values = [write(connection) for write in writes]
                connection.execute("COMMIT")
            except BaseException:
                self._chain.rolled_back()
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
        self._files.require_in_place()  # once more: it may have been deleted meanwhile
        self._commit_s = time.monotonic() - started
        _call(partial(self._chain.committed, connection))
        return values


def _call(after: Callable[[], None]) -> None:
    try:
        after()
    except Exception:
        # The write is durable all the same, and without this thread no other one could happen.
        logging.getLogger(__name__).exception("What follows a commit failed")


def _tell(outcomes: list[_Outcome]) -> None:
    """Wake those who asked: one call for each event loop, however many they are."""
    loops: dict[asyncio.AbstractEventLoop, list[_Outcome]] = {}
    for outcome in outcomes:
        loops.setdefault(outcome[0].get_loop(), []).append(outcome)
    for loop, told in loops.items():
        if not loop.is_closed():
            loop.call_soon_threadsafe(_resolve, told)


def _resolve(outcomes: list[_Outcome]) -> None:
    for future, value, problem in outcomes:
        if future.cancelled():
            continue
        if problem is None:
            future.set_result(value)
        else:
            future.set_exception(problem)
