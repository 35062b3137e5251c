"""Runs as they happen, for any number of readers over HTTP.

A reader has no queue of its own, only a place in the log: it takes what it lacks from the ring of the newest events
when it is near, and from the store when it is not. So nothing is ever lost or sent twice. Between two chunks a reader
holds no events, so one that is slow, or never reads, costs a run next to nothing and the server a few kilobytes.
"""

import asyncio
import math
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

from agent_fabric.application.ports.llm import ProgressText
from agent_fabric.application.ports.runs import RunReader
from agent_fabric.domain.approvals.events import ApprovalDecided, ApprovalRequested
from agent_fabric.domain.events import Event, RunCancelled, RunCompleted, RunCreated, RunFailed, UnknownEvent
from agent_fabric.domain.ids import LaneId, RunId
from agent_fabric.domain.runs.event_versions import version_of
from agent_fabric.domain.runs.task import Profile, RunResult
from agent_fabric.interfaces.http.runs.partial_answers import PartialAnswers
from agent_fabric.interfaces.http.runs.remote_deltas import RemoteDeltas
from agent_fabric.wire.event_lines import encoded_line, line_of
from agent_fabric.wire.json_codec import dump_json

RING = 256
"""Newest events of a run that are kept for its readers, and as many pieces of answers."""
PAGE = 32
"""Older events are read from the store in pages of this size."""
FULL_PAGE = 4
"""The same for events whose texts are not cut."""
PAGES = 128
"""Pages that are kept for other readers: what is in a log never changes."""
PAGES_BYTES = 16 * 1024 * 1024
"""Size of those pages, at most."""
TURNS = 4
"""Readers that are served in one round of the event loop; the others wait, so that requests come between."""
EXPECTED_S = 5.0
"""How long a reader may be on the way."""
PAUSE_PER_READER_S = 0.001
"""A run's readers are woken at most this often, times their number: so they take a tenth of our time at most."""


def event_line(run_id: RunId, event: Event) -> bytes:
    """Return an event's line of the run log."""
    body = event.body
    return encoded_line(run_id, event, dump_json(body.payload if isinstance(body, UnknownEvent) else body))


def whole_line(run_id: RunId, event: Event) -> bytes:
    """Return the same with nothing cut, and with the version of its kind, so that the event can be made of it again."""
    newer = isinstance(event.body, UnknownEvent)  # than we are, so perhaps known to the client
    line = {**line_of(run_id, event, whole=True), "version": version_of(event.body.kind) + newer}
    return dump_json(line)


def event_frame(run_id: RunId, event: Event) -> bytes:
    """Return an event as readers get it: its line of the run log under its sequence number."""
    return b"id: %d\ndata: %s\n\n" % (event.seq, event_line(run_id, event))


def whole_frame(run_id: RunId, event: Event) -> bytes:
    """Return the same with nothing cut."""
    return b"id: %d\ndata: %s\n\n" % (event.seq, whole_line(run_id, event))


def settles(event: Event) -> bool:
    """Return whether nothing will ever follow an event."""
    return isinstance(event.body, RunCompleted | RunFailed | RunCancelled)


_NEWS = frozenset({RunCreated, RunCompleted, RunFailed, RunCancelled, ApprovalRequested, ApprovalDecided})


class _PageKey(NamedTuple):
    """Some events of a run that are read from the store together."""

    run_id: RunId
    number: int
    full: bool


class LiveRuns:
    """EventSink that wakes readers. A run without readers costs a look into a dictionary."""

    def __init__(self) -> None:
        self._feeds: dict[RunId, Feed] = {}
        self._pages: dict[_PageKey, asyncio.Task[list[bytes]]] = {}
        self._page_sizes: dict[_PageKey, int] = {}
        self._delta_readers = 0
        self.turns = asyncio.Semaphore(TURNS)
        """Held by a reader while it prepares a chunk."""
        self.beats = 0
        """Heartbeats so far."""
        self.closing = False
        """Whether every reader has to go."""
        self.remote: RemoteDeltas | None = None
        """Where the pieces of answers come from that are written elsewhere."""
        self.on_news: Callable[[], None] | None = None
        """Called when a run begins, asks a person, or ends; None: no one wants to know."""
        self.on_reader: Callable[[], None] | None = None
        """Called when a run gets its first reader."""
        self._kept: dict[RunId, ExitStack] = {}

    @property
    def wants_deltas(self) -> bool:
        return self._delta_readers > 0

    def publish(self, run_id: RunId, events: Sequence[Event]) -> None:
        if not events[0].seq and isinstance(created := events[0].body, RunCreated):
            self._keep(run_id, created)
        if self.on_news is not None:
            for event in events:
                if event.body.__class__ in _NEWS:
                    self.on_news()
                    break
        feed = self._feeds.get(run_id)
        if feed is not None:
            feed.add(events)
            if feed.settled and run_id in self._kept:
                self._kept.pop(run_id).close()

    def _keep(self, run_id: RunId, created: RunCreated) -> None:
        if created.profile is Profile.CHAT:
            # Kept from its first word on: a page that is opened later shows all of the answer so far.
            kept = self._kept[run_id] = ExitStack()
            kept.enter_context(self.reading(run_id, deltas=True))

    def delta(self, run_id: RunId, lane: LaneId, text: str) -> None:
        feed = self._feeds.get(run_id)
        if feed is not None:
            feed.add_delta(lane, text)

    def answer_so_far(self, run_id: RunId) -> str:
        """Return what is written of the answer that a run is giving; empty: nothing, or it is written elsewhere."""
        feed = self._feeds.get(run_id)
        return "" if feed is None else feed.answers.text()

    def notice(self, run_id: RunId, text: str) -> None:
        feed = self._feeds.get(run_id)
        if feed is not None:
            feed.add_notice(text)

    @contextmanager
    def reading(self, run_id: RunId, *, deltas: bool) -> "Iterator[Feed]":
        """Give the feed of a run; there is one as long as it has readers."""
        feed = self._feeds.get(run_id)
        if feed is None:
            feed = self._feeds[run_id] = Feed(run_id)
            if self.on_reader is not None:
                self.on_reader()
        feed.readers += 1
        feed.delta_readers += deltas
        self._delta_readers += deltas
        if deltas and self.remote is not None:
            self.remote.follow(feed)
        try:
            yield feed
        finally:
            self._delta_readers -= deltas
            feed.readers -= 1
            feed.delta_readers -= deltas
            if deltas and not feed.delta_readers and self.remote is not None:
                self.remote.leave(run_id)
            if not feed.readers:
                del self._feeds[run_id]

    def expect(self, run_id: RunId) -> None:
        """Count a reader who is on the way, and wants to see answers as they are written, as if it were there.

        What a model begins to write before the first reader comes would not be shown.
        """
        coming = self.reading(run_id, deltas=True)
        coming.__enter__()
        asyncio.get_running_loop().call_later(EXPECTED_S, coming.__exit__, None, None, None)

    async def read_stored(self, reader: RunReader, run_id: RunId, after: int, *, full: bool = False) -> list[bytes]:
        """Return some of the frames that follow a sequence number, from the store; however many ask, it is read once.

        Raises:
            StoreUnavailable: it cannot be read.
        """
        number, known = divmod(after + 1, FULL_PAGE if full else PAGE)
        key = _PageKey(run_id, number, full)
        page = self._pages.get(key)
        if page is None:
            page = self._pages[key] = asyncio.create_task(self._read(reader, key))
            if len(self._pages) > PAGES:
                self._forget(next(iter(self._pages)))
        return (await asyncio.shield(page))[known:]

    async def _read(self, reader: RunReader, key: "_PageKey") -> list[bytes]:
        frames: list[bytes] = []
        size, frame_of = (FULL_PAGE, whole_frame) if key.full else (PAGE, event_frame)
        try:
            events = await reader.page(key.run_id, after=key.number * size - 1, limit=size)
            frames = [frame_of(key.run_id, event) for event in events]
        finally:
            if len(frames) < size:  # the log will continue
                self._forget(key)
        if key in self._pages:
            self._page_sizes[key] = sum(map(len, frames))
            while sum(self._page_sizes.values()) > PAGES_BYTES:
                self._forget(next(iter(self._page_sizes)))
        return frames

    def _forget(self, key: "_PageKey") -> None:
        self._pages.pop(key, None)
        self._page_sizes.pop(key, None)

    def feeds(self) -> "list[Feed]":
        """Return the runs that are being read at this moment."""
        return list(self._feeds.values())

    def beat(self) -> None:
        """Let every reader that waits send a sign of life, so that dead ones are noticed."""
        self.beats += 1
        for feed in self._feeds.values():
            feed.wake()

    def close(self) -> None:
        """Send every reader away."""
        self.closing = True
        for feed in self._feeds.values():
            feed.wake()


class Feed:
    """The newest events of one run, and who waits for more."""

    def __init__(self, run_id: RunId) -> None:
        self.run_id = run_id
        self.readers = 0
        self.delta_readers = 0
        """Those of them who see answers while they are written."""
        self.tip = -1
        """Sequence number of the newest event that was seen here."""
        self.settled = False
        """Whether nothing will follow the newest event."""
        self.stopped = False
        """Whether no process drives the run any more, although it has not settled."""
        self.result: asyncio.Task[RunResult] | None = None
        """How the run ended, once a reader has asked: it takes the whole log to tell."""
        self._ring: deque[Event | bytes] = deque(maxlen=RING)
        """The events up to `tip`, without a gap; each is encoded when the first reader takes it."""
        self.notice = b""
        """The newest sign of life, as it is sent."""
        self.delta_count = 0
        """Pieces of answers so far."""
        self._deltas: deque[tuple[int, bytes]] = deque(maxlen=RING)
        """Each with the sequence number of the event before it."""
        self._early: deque[tuple[int, bytes]] = deque(maxlen=RING)
        """Pieces from elsewhere that were here before the event that they belong behind."""
        self.answers = PartialAnswers()
        """What models have written of answers that are not complete."""
        self._waiting: set[Waiter] = set()
        self._woken_at = 0.0
        self._alarm: asyncio.TimerHandle | None = None

    def begin(self, newest: Event) -> None:
        """Learn where the log stands; answers that were heard before that belong behind it."""
        heard = len(self._deltas) if self.tip < 0 else 0
        self.add([newest])
        self._place_deltas(newest.seq, heard)

    def add(self, events: Sequence[Event]) -> None:
        """Take in events that have become durable; it does not matter if they are known already."""
        if self.tip < 0 and events:
            self._place_deltas(events[0].seq - 1, len(self._deltas))
        for event in events:
            if event.seq > self.tip:
                if event.seq > self.tip + 1:
                    self._ring.clear()
                self._ring.append(event)
                self.answers.see(event)
                self.tip = event.seq
                self.settled = settles(event)
        while self._early and self._early[0][0] <= self.tip:
            self._deltas.append(self._early.popleft())
            self.delta_count += 1
        self.stopped = False
        self._wake_soon()

    def _place_deltas(self, seq: int, heard: int) -> None:
        """Say behind which event the first pieces belong, which came before any event was known."""
        for index in range(min(heard, len(self._deltas))):
            self._deltas[index] = seq, self._deltas[index][1]

    def add_delta(self, lane: LaneId, text: str, *, after: int | None = None) -> None:
        """Take in a piece of an answer that belongs behind an event; by default, behind the newest."""
        if after is None:  # what comes from elsewhere may have gaps, and what is shown must not
            self.answers.add(lane, text)
        data = dump_json({"run_id": self.run_id, "lane": lane, "text": text})
        self._add_piece(after, b"event: delta\ndata: %s\n\n" % data)

    def add_notice(self, text: str, *, after: int | None = None) -> None:
        """Take in a sign of life; it is for those who get pieces of answers, too."""
        data = dump_json({"run_id": self.run_id, "text": str(text), "progress": isinstance(text, ProgressText)})
        self.notice = data
        self._add_piece(after, b"event: notice\ndata: %s\n\n" % data)

    def _add_piece(self, after: int | None, frame: bytes) -> None:
        if after is not None and self.tip < after:
            self._early.append((after, frame))
            return
        self._deltas.append((self.tip if after is None else after, frame))
        self.delta_count += 1
        self._wake_soon()

    def stop(self) -> None:
        """Learn that no process drives the run any more."""
        self.stopped = True
        self.wake()

    def after(self, seq: int, *, most_bytes: float = math.inf) -> list[bytes] | None:
        """Return the events that follow a sequence number as frames; None when the ring does not reach back so far.

        No more are made once there are `most_bytes` of them.
        """
        size = len(self._ring)
        if self.tip - seq > size:
            return None
        frames: list[bytes] = []
        for index in range(size - max(self.tip - seq, 0), size):
            frame = self._ring[index]
            if isinstance(frame, Event):
                frame = self._ring[index] = event_frame(self.run_id, frame)
            frames.append(frame)
            most_bytes -= len(frame)
            if most_bytes <= 0:
                break
        return frames

    def deltas_after(self, count: int) -> list[tuple[int, bytes]]:
        """Return the pieces of answers behind the first `count`, as far as they are still there."""
        missing = min(self.delta_count - count, len(self._deltas))
        return [self._deltas[index] for index in range(len(self._deltas) - missing, len(self._deltas))]

    async def news(self, waiter: "Waiter") -> None:
        """Wait until there is something new, or the waiter is woken otherwise."""
        self._waiting.add(waiter)
        try:
            await waiter.sleep()
        finally:
            self._waiting.discard(waiter)

    def wake(self) -> None:
        """Wake all readers now."""
        self._alarm = None
        self._woken_at = asyncio.get_running_loop().time()
        for waiter in self._waiting:
            waiter.wake()

    def _wake_soon(self) -> None:
        if self._waiting and self._alarm is None:
            loop = asyncio.get_running_loop()
            due = self._woken_at + PAUSE_PER_READER_S * len(self._waiting)
            if loop.time() >= due:
                self.wake()
            else:
                self._alarm = loop.call_at(due, self.wake)


class Waiter:
    """One who sleeps until something happens."""

    def __init__(self) -> None:
        self._sleep: asyncio.Future[None] | None = None

    async def sleep(self) -> None:
        """Wait for `wake`."""
        self._sleep = asyncio.get_running_loop().create_future()
        try:
            await self._sleep
        finally:
            self._sleep = None

    def wake(self) -> None:
        """End the sleep; without effect on one who is awake."""
        if self._sleep is not None and not self._sleep.done():
            self._sleep.set_result(None)
