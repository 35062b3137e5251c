"""Time limits of effects: one timer for all of them, since most end long before their limit.

`asyncio.timeout` makes a timer for each, which is a twentieth of what a turn costs.
"""

import asyncio
import math
from types import TracebackType
from typing import Final
from weakref import WeakKeyDictionary

LOOK_EVERY_S: Final = 0.25
"""A limit that is further away may be exceeded by so much."""


class TimeLimit:
    """Cancels what runs in this context when its time is over, and raises TimeoutError in its place.

    Its cause is how what ran there took being cancelled.
    """

    __slots__ = ("_cancelling", "_seconds", "_watch", "at", "is_over", "task")

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.is_over = False

    def __enter__(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        loop = task.get_loop()
        self.task, self._cancelling = task, task.cancelling()
        self.at = loop.time() + self._seconds
        watch = _watches.get(loop)
        if watch is None:
            watch = _watches[loop] = _Watch(loop)
        self._watch = watch
        watch.limits.add(self)
        if self.at < watch.next_look_at:
            watch.look_sooner(self.at)

    def __exit__(
        self, _kind: type[BaseException] | None, problem: BaseException | None, _: TracebackType | None
    ) -> None:
        self._watch.limits.discard(self)
        if self.is_over and self.task.uncancel() <= self._cancelling and isinstance(problem, asyncio.CancelledError):
            raise TimeoutError from problem


class _Watch:
    """The limits of one event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._timer: asyncio.TimerHandle | None = None
        self.next_look_at = math.inf
        self.limits: set[TimeLimit] = set()

    def look_sooner(self, moment: float) -> None:
        """Look at this moment, or sooner."""
        if self._timer is None:
            moment = min(moment, self.loop.time() + LOOK_EVERY_S)
        else:
            self._timer.cancel()
        self._look_at(moment)

    def _look_at(self, moment: float) -> None:
        self.next_look_at = moment
        self._timer = self.loop.call_at(moment, self._look)

    def _look(self) -> None:
        self._timer, self.next_look_at = None, math.inf
        now = self.loop.time()
        for limit in [each for each in self.limits if each.at <= now]:
            self.limits.discard(limit)
            limit.is_over = True
            limit.task.cancel()
        if self.limits:
            self._look_at(max(min(each.at for each in self.limits), now + LOOK_EVERY_S))


_watches: WeakKeyDictionary[asyncio.AbstractEventLoop, _Watch] = WeakKeyDictionary()
