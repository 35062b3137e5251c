"""The open sockets of pages: how many each person has, and what all of them are told."""

import asyncio
from collections import OrderedDict, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import field

from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.identity.ownership import Viewer
from agent_fabric.domain.identity.principals import Principal
from agent_fabric.interfaces.http.page.messages import say

MAX_SOCKETS = 256
"""Of one person."""
MAX_SILENT = 512
"""Sockets that have not said yet whose they are, twice those of one person; with more, the oldest has to go."""
MAX_UNSENT = 256
"""News that a page has not taken yet; with more, it is told to look at everything again."""


class TooManySockets(Exception):
    """A person has too many pages open."""


@dataclass(eq=False, slots=True)
class OpenSocket:
    """One page."""

    principal: Principal
    news: "asyncio.Queue[str]" = field(default_factory=lambda: asyncio.Queue(MAX_UNSENT))
    questions: dict[str, str] = field(default_factory=dict)
    """What it was told last about each question that is open."""
    sessions: dict[str, str] = field(default_factory=dict)
    """What it knows about each session."""

    def tell(self, text: str) -> None:
        """Send a message soon."""
        if self.news.full():
            while not self.news.empty():
                self.news.get_nowait()
            self.questions.clear()
            self.sessions.clear()
            text = say("reset")
        self.news.put_nowait(text)


class Sockets:
    """All of them."""

    def __init__(self, *, max_silent: int = MAX_SILENT) -> None:
        self._max_silent = max_silent
        self._by_person: defaultdict[str, set[OpenSocket]] = defaultdict(set)
        self._waiting: set[asyncio.Future[None]] = set()
        self._silent: OrderedDict[asyncio.Future[None], None] = OrderedDict()

    @contextmanager
    def introducing(self) -> Iterator["asyncio.Future[None]"]:
        """Count a socket that has not said yet whose it is; what is given is done when it has to make room.

        So a flood of connections does not keep out those who say at once who they are.
        """
        crowded_out: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._silent[crowded_out] = None
        if len(self._silent) > self._max_silent:
            oldest, _ = self._silent.popitem(last=False)
            oldest.set_result(None)
        try:
            yield crowded_out
        finally:
            self._silent.pop(crowded_out, None)

    @contextmanager
    def register(self, principal: Principal) -> Iterator[OpenSocket]:
        """Count a page as long as it is there.

        Raises:
            TooManySockets: this person has too many.
        """
        own = self._by_person[principal.id]
        if len(own) >= MAX_SOCKETS:
            raise TooManySockets
        socket = OpenSocket(principal)
        own.add(socket)
        self.wake()
        try:
            yield socket
        finally:
            own.discard(socket)
            if not own:
                self._by_person.pop(principal.id, None)

    def wake(self) -> None:
        """Wake all pages that wait for news."""
        waiting, self._waiting = self._waiting, set()
        for each in waiting:
            if not each.done():
                each.set_result(None)

    async def news(self, timeout_s: float) -> None:
        """Wait until something may have happened, or the time is over."""
        woken = asyncio.get_running_loop().create_future()
        self._waiting.add(woken)
        await asyncio.wait([woken], timeout=timeout_s)
        self._waiting.discard(woken)

    def groups(self) -> list[tuple[Viewer, list[OpenSocket]]]:
        """Return the pages by what they may see: each group is looked up once."""
        found: dict[tuple[tuple[str, ...], bool], tuple[Viewer, list[OpenSocket]]] = {}
        for sockets in list(self._by_person.values()):
            for socket in sockets:
                viewer = Viewer.of(socket.principal)
                found.setdefault((viewer.owners, viewer.sees_all), (viewer, []))[1].append(socket)
        return list(found.values())
