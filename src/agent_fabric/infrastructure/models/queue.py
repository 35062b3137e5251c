"""The line before a model server that cannot serve everyone at once.

Each process keeps its own line. Only asking a model waits in it; looking at runs and ending them never do.
"""

import asyncio
import heapq
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from itertools import islice
from urllib.parse import urlsplit

from agent_fabric.application.ports.clock import Clock
from agent_fabric.application.ports.llm import Notice, QueuedText
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.models.addresses import is_loopback
from agent_fabric.domain.runs.task import Priority

AGEING_S = 60.0
"""Who has waited this long counts as one class higher, so that no one waits forever."""
_NEAR = 30
"""So many at the front of the line hear of every change; who is further back hears of it now and then."""
_RANKS: Mapping[Priority, int] = {Priority.INTERACTIVE: 0, Priority.SCHEDULED: 1, Priority.BATCH: 2}


@dataclass(slots=True, eq=False)
class _Waiter:
    rank: int
    arrived: float
    number: int
    """Counts arrivals: who came first goes first, within a class."""
    admitted: "asyncio.Future[None]"
    notice: Notice
    told: int | None = None
    """How many it last heard are ahead of it."""


class ServerQueue:
    """Lets at most `slots` requests at a server at once; None: as many as come.

    Interactive requests go before scheduled ones, those before batch; within a class, who came first goes first.
    """

    def __init__(self, slots: int | None, clock: Clock, *, ageing_s: float = AGEING_S) -> None:
        self._slots = slots
        self._clock = clock
        self._ageing_s = ageing_s
        self._running = 0
        self._arrivals = 0
        self._pauses = 0
        self._classes: tuple[OrderedDict[int, _Waiter], ...] = tuple(OrderedDict() for _ in _RANKS)
        """Who waits, by rank and number. Within a class no one ever overtakes, so that only heads must be compared."""
        self._untold = 0
        """Changes that not everyone has heard of."""

    @property
    def running(self) -> int:
        """Requests that are being served."""
        return self._running

    @property
    def waiting(self) -> int:
        """Requests that wait for their turn."""
        return sum(not waiter.admitted.done() for waiters in self._classes for waiter in waiters.values())

    @property
    def is_free(self) -> bool:
        """Whether a request would be served at once."""
        return self._is_free()

    def resize(self, slots: int | None) -> None:
        """Serve more or fewer from now on; who is being served goes on."""
        if slots != self._slots:
            self._slots = slots
            self._admit()

    def pause(self) -> None:
        """Let no one else begin until `resume`, called as often as this; who is being served goes on."""
        self._pauses += 1

    def resume(self) -> None:
        """Take back one `pause`."""
        if not self._pauses:
            raise ValueError("the queue is not paused")
        self._pauses -= 1
        self._admit()

    async def enter(self, priority: Priority, notice: Notice) -> None:
        """Wait for a slot, which `leave` gives back; `notice` hears how many are ahead."""
        if self._is_free():
            self._running += 1
            return
        self._arrivals += 1
        waiter = _Waiter(
            rank=_RANKS[priority],
            arrived=self._clock.monotonic(),
            number=self._arrivals,
            admitted=asyncio.get_running_loop().create_future(),
            notice=notice,
        )
        waiters = self._classes[waiter.rank]
        waiters[waiter.number] = waiter
        _tell(waiter, self._running + self._ahead_of_newest(waiter))
        self._tell_others()
        try:
            await waiter.admitted
        except BaseException:
            if waiters.pop(waiter.number, None) is not None:
                self._tell_others()
            else:  # admitted and cancelled in the same moment: the slot goes to the next
                self.leave()
            raise

    def leave(self) -> None:
        """Give a slot back."""
        self._running -= 1
        if any(self._classes):
            self._admit()

    def _is_free(self) -> bool:
        # A free slot means that no caller waits: a waiting caller is admitted in the moment that a slot becomes free.
        return not self._pauses and (self._slots is None or self._running < self._slots)

    def _admit(self) -> None:
        """Let in as many as there is room for."""
        if not any(self._classes):
            return
        while self._is_free() and (first := next(self._line(), None)) is not None:
            del self._classes[first.rank][first.number]
            self._running += 1
            first.admitted.set_result(None)
        self._tell_others()

    def _line(self) -> Iterator[_Waiter]:
        """Give who waits, in the order of their turns as of now."""
        now = self._clock.monotonic()
        # Someone may have been cancelled but not yet have had the chance to go.
        waiting = ((waiter for waiter in each.values() if not waiter.admitted.done()) for each in self._classes)
        return heapq.merge(*waiting, key=lambda waiter: (self._standing(waiter, now), waiter.number))

    def _standing(self, waiter: _Waiter, now: float) -> int:
        return max(waiter.rank - int((now - waiter.arrived) / self._ageing_s), 0)

    def _ahead_of_newest(self, newest: _Waiter) -> int:
        before = sum(map(len, self._classes[: newest.rank + 1])) - 1
        for each in self._classes[newest.rank + 1 :]:
            for waiter in each.values():
                if self._standing(waiter, newest.arrived) > newest.rank:
                    break  # those behind it have waited even less
                before += 1
        return before

    def _tell_others(self) -> None:
        self._untold += 1
        everybody = self._untold > sum(map(len, self._classes)) // _NEAR
        if everybody:
            self._untold = 0
        for ahead, waiter in enumerate(islice(self._line(), None if everybody else _NEAR), start=self._running):
            # Far back in the line, small changes say nothing.
            if waiter.told is None or abs(waiter.told - ahead) > ahead // 20:
                _tell(waiter, ahead)


def _tell(waiter: _Waiter, ahead: int) -> None:
    waiter.told = ahead
    # A view that fails must not cost anyone a turn.
    with suppress(Exception):
        waiter.notice(QueuedText(f"queued behind {ahead}" if ahead else "waiting for the model server", ahead))


class Queues:
    """One line for each model server."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._queues: dict[str, ServerQueue] = {}

    def for_server(self, key: str, slots: int | None) -> ServerQueue:
        """Return the server's line; `key` is its address or any other name.

        Two addresses that differ only in their path, or in how they name this machine, are the same server. When
        `slots` differs from before, the newest word counts; None says nothing about a server whose limit is known.
        """
        server = _server_of(key)
        queue = self._queues.get(server)
        if queue is None:
            queue = self._queues[server] = ServerQueue(slots, self._clock)
        elif slots is not None:
            queue.resize(slots)
        return queue


@lru_cache(maxsize=256)
def _server_of(key: str) -> str:
    try:
        parts = urlsplit(key)
        host, port = parts.hostname, parts.port
    except ValueError:
        return key
    if not host:
        return key
    return f"{'localhost' if is_loopback(host) else host}:{port or (443 if parts.scheme == 'https' else 80)}"
