"""Commits of all runs of a process, grouped: whatever was asked for while one commit was under way is the next one.

How a group becomes durable is the database's: `transact` runs writes in one transaction.
"""

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, NamedTuple, TypeVar

from agent_fabric.domain.errors import StoreUnavailable

T = TypeVar("T")
Write = Callable[[Any], Any]
Asked = tuple[Write, "asyncio.Future[Any]", Callable[[], None] | None]
Outcome = tuple["asyncio.Future[Any]", Any, BaseException | None]


class Refused(NamedTuple):
    """What `transact` returns for a write of which nothing has happened, although the others are durable."""

    problem: Exception


class GroupCommits:
    """One thread that writes, many that ask."""

    def __init__(
        self,
        transact: Callable[[list[Write]], list[Any]],
        *,
        shared: tuple[type[BaseException], ...] = (),
        split: Callable[[list[Asked]], list[list[Asked]]] = lambda group: [group],
    ) -> None:
        """Start the thread.

        Args:
            transact: Runs writes with `run_writes` in one transaction and returns what they returned; if it raises,
                none has happened.
            shared: Errors that are the group's. After any other one, each write is tried again on its own.
            split: Parts a group into those that are transactions of their own.
        """
        self._transact = transact
        self._shared = shared
        self._split = split
        self._asked: SimpleQueue[Asked | None] = SimpleQueue()
        self._beside: deque[Write] = deque()
        """Writes for the next transaction whose outcome is not awaited."""
        self._free = threading.Lock()
        """Held while the connection is in use."""
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="fabric-store", daemon=True)
        self._thread.start()

    def ask(self, asked: Asked) -> None:
        """Queue a write; after `close` its future fails."""
        if self._closed:  # a run is released later than the process could wait for
            asked[1].set_exception(StoreUnavailable("The store has been closed"))
        else:
            self._asked.put(asked)

    def begin_now(self) -> bool:
        """Enter, if nothing is queued or under way; `end_now` leaves again."""
        return not self._closed and self._asked.empty() and self._free.acquire(blocking=False)

    def end_now(self) -> None:
        """Leave what `begin_now` has entered."""
        self._free.release()

    def write_along(self, write: Write) -> None:
        """See `GroupWriter.write_along`."""
        self._beside.append(write)

    def run_writes(self, connection: Any, writes: list[Write]) -> list[Any]:
        """Run writes in the transaction under way, those that go along with it first."""
        while self._beside:
            self._beside.popleft()(connection)
        if len(writes) == 1:
            return [writes[0](connection)]
        return [write(connection) for write in writes]

    async def between_writes(self, work: Callable[[], None]) -> None:
        """See `GroupWriter.between_writes`."""

        def run() -> None:
            with self._free:
                work()

        await asyncio.to_thread(run)

    def close(self) -> None:
        """Finish what was asked for, with what was to go along, and end the thread."""
        self._closed = True
        self._asked.put(None)
        self._thread.join()
        if self._beside:
            with suppress(StoreUnavailable):
                self._transact([])

    def serve(self, asked: list[Asked]) -> list[Outcome]:
        """Make writes durable on this thread, and call what follows them."""
        writes: list[Write] = []
        for entry in asked:
            writes.append(entry[0])  # noqa: PERF401 - a comprehension is a call
        try:
            values = self._transact(writes)
        except BaseException as problem:  # noqa: BLE001 - set on the future
            if len(asked) == 1 or isinstance(problem, self._shared):
                return [(future, None, problem) for _, future, _ in asked]
            # One bad write must not fail its neighbours: each again on its own.
            return [outcome for entry in asked for outcome in self.serve([entry])]
        outcomes: list[Outcome] = []
        # What follows comes before those who asked wake up: afterwards both threads would fight for the interpreter.
        for (_, future, after), value in zip(asked, values, strict=True):
            if value.__class__ is Refused:
                outcomes.append((future, None, value.problem))
                continue
            outcomes.append((future, value, None))
            if after is not None:
                try:
                    after()
                except Exception:
                    logging.getLogger(__name__).exception(_FOLLOW_UP_FAILED)
        return outcomes

    def _run(self) -> None:
        open_ = True
        while open_:
            group = [self._asked.get()]
            while not self._asked.empty():
                group.append(self._asked.get())
            open_ = None not in group
            asked = [entry for entry in group if entry is not None]
            for part in self._split(asked) if asked else ():
                with self._free:
                    outcomes = self.serve(part)
                _tell(outcomes)


def call_safely(after: Callable[[], None]) -> None:
    """Call what follows a commit; an error of it is logged."""
    try:
        after()
    except Exception:
        # The write is durable all the same, and without this thread no other one could happen.
        logging.getLogger(__name__).exception(_FOLLOW_UP_FAILED)


_FOLLOW_UP_FAILED = "What follows a commit failed"


def _tell(outcomes: list[Outcome]) -> None:
    """Wake those who asked: one call for each event loop, however many they are."""
    loops: dict[asyncio.AbstractEventLoop, list[Outcome]] = {}
    for outcome in outcomes:
        loops.setdefault(outcome[0].get_loop(), []).append(outcome)
    for loop, told in loops.items():
        if not loop.is_closed():
            loop.call_soon_threadsafe(resolve, told)


def resolve(outcomes: list[Outcome]) -> None:
    """Set futures to what came of their writes, on their own event loop."""
    for future, value, problem in outcomes:
        if future.cancelled():
            continue
        if problem is None:
            future.set_result(value)
        else:
            future.set_exception(problem)
