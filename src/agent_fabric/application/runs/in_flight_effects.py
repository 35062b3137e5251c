"""Effects under way, and the wait for whichever lands first."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

from agent_fabric.domain.events import Body
from agent_fabric.domain.ids import LaneId

STOP_TIMEOUT_S = 5.0
"""How long effects may take to clean up after being told to stop."""
LONGEST_NAP_S = 60.0
"""The clock may be set meanwhile, so it is looked at now and then."""

Effect = Callable[[], Coroutine[Any, Any, Sequence[Body]]]
Flight = asyncio.Task[Sequence[Body]]
_News = TypeVar("_News", bound=asyncio.Future[Any])


class InFlightEffects:
    """What a drive has started on tasks of their own, at most one for each lane."""

    def __init__(self) -> None:
        self._lanes: dict[Flight, LaneId | None] = {}
        self._ending: set[asyncio.Task[Any]] = set()
        """Effects that nobody needs any more, and what has to be cleared away after them."""
        self._wake: asyncio.Future[None] | None = None
        """Done when something lands while the drive waits."""

    def __bool__(self) -> bool:
        """Tell whether anything is under way that somebody waits for."""
        return bool(self._lanes)

    @property
    def lanes(self) -> set[LaneId | None]:
        """The lanes that have something under way."""
        return set(self._lanes.values())

    def start(self, lane: LaneId | None, effect: Effect) -> None:
        """Let an effect begin."""
        self._lanes[self.watched(asyncio.create_task(effect()))] = lane

    def landed(self) -> list[tuple[LaneId | None, Flight]]:
        """Take out what has come to its end."""
        return [(self._lanes.pop(flight), flight) for flight in [each for each in self._lanes if each.done()]]

    def give_up(self, lane: LaneId) -> list[Flight]:
        """End what a lane has under way, without waiting for it."""
        flights = [flight for flight, whose in self._lanes.items() if whose == lane]
        for flight in flights:
            del self._lanes[flight]
            flight.cancel()
        self._ending.update(flights)
        return flights

    def clear_away(self, chore: Coroutine[Any, Any, None]) -> None:
        """Let something be done about what was given up."""
        self._ending.add(asyncio.create_task(chore))

    async def cleared(self) -> None:
        """Wait until everything that was given up has ended; each has a limit of its own."""
        if self._ending:
            await asyncio.wait(self._ending)

    async def stop(self) -> None:
        """End everything that is under way, and wait until it has cleaned up."""
        for flight in self._lanes:
            flight.cancel()
        if self._lanes:
            await asyncio.wait(self._lanes, timeout=STOP_TIMEOUT_S)
        self._lanes.clear()
        if self._ending:
            await asyncio.wait(self._ending, timeout=STOP_TIMEOUT_S)

    def watched(self, news: _News) -> _News:
        """Let a future end the wait for news as well."""
        # One future for all, instead of asyncio.wait for each round: that costs as much as the rest of the loop.
        news.add_done_callback(self._notice)
        return news

    def _notice(self, _: asyncio.Future[Any]) -> None:
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    async def news(self, mail: asyncio.Future[Any], *, within_s: float | None) -> None:
        """Wait until an effect or `mail`, which is watched, lands, or so much time has passed; None: for ever."""
        if mail.done() or any(flight.done() for flight in self._lanes):
            return
        loop = asyncio.get_running_loop()
        wake = self._wake = loop.create_future()
        alarm = None if within_s is None else loop.call_later(min(within_s, LONGEST_NAP_S), self._notice, wake)
        try:
            await wake
        finally:
            if alarm is not None:
                alarm.cancel()


async def to_its_end(work: Coroutine[Any, Any, None]) -> None:
    """Do what must be done even if we are cancelled meanwhile; whoever comes next would find the run held."""
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError as wish:
            cancelled = wish
        except Exception:  # noqa: BLE001 - `result` below raises it
            break
    task.result()
    if cancelled is not None:
        raise cancelled
