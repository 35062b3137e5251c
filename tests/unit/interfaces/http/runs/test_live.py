"""The ring of newest events, and how readers are woken."""

import asyncio
import json
from collections.abc import Sequence

import pytest

from agent_fabric.domain.events import Event, RunCancelled, RunInterrupted, RunResumed
from agent_fabric.domain.ids import LaneId, RunId
from agent_fabric.interfaces.http.runs.live import PAGE, PAGES, PAGES_BYTES, RING, Feed, LiveRuns, Waiter, event_frame
from agent_fabric.interfaces.http.sse import _merge

RUN = RunId("run-1")


def events(*numbers: int, text: str = "a test") -> list[Event]:
    return [Event(number, 1_000.0 + number, None, "", RunResumed(by="server", driver=text)) for number in numbers]


def numbers(frames: Sequence[bytes] | None) -> list[int]:
    assert frames is not None
    return [json.loads(frame.split(b"\n")[1].removeprefix(b"data: "))["seq"] for frame in frames]


@pytest.mark.proves("AF-033")
def test_a_frame_is_the_line_of_the_run_log_under_its_number() -> None:
    frame = event_frame(RUN, events(7)[0])
    first, second, *rest = frame.split(b"\n")
    assert (first, rest) == (b"id: 7", [b"", b""])
    assert json.loads(second.removeprefix(b"data: ")) == {
        "ts": 1007.0,
        "kind": "run_resumed",
        "step": "",
        "payload": {"by": "server", "driver": "a test", "root": None, "handed_over": False},
        "seq": 7,
        "run_id": RUN,
    }


async def test_a_reader_takes_what_it_lacks_from_the_ring() -> None:
    feed = Feed(RUN)
    feed.add(events(3, 4, 5))
    assert numbers(feed.after(4)) == [5]
    assert numbers(feed.after(2)) == [3, 4, 5]
    assert feed.after(5) == []
    assert feed.after(99) == []
    assert feed.after(1) is None, "event 2 is only in the store"


async def test_what_is_known_already_does_not_count_and_a_gap_starts_anew() -> None:
    feed = Feed(RUN)
    feed.add(events(0, 1, 2))
    feed.add(events(1, 2, 3))
    assert numbers(feed.after(-1)) == [0, 1, 2, 3]
    feed.add(events(9))
    assert (feed.tip, numbers(feed.after(8)), feed.after(7)) == (9, [9], None)


@pytest.mark.proves("AF-035")
async def test_the_ring_keeps_the_newest_256() -> None:
    feed = Feed(RUN)
    feed.add(events(*range(RING + 10)))
    assert RING == 256
    assert feed.after(8) is None
    assert numbers(feed.after(9)) == list(range(10, RING + 10))


async def test_an_event_is_encoded_once_and_only_when_somebody_takes_it() -> None:
    feed = Feed(RUN)
    feed.add(events(0, 1))
    first = feed.after(0)
    second = feed.after(0)
    assert first is not None
    assert second is not None
    assert first[0] is second[0]
    assert [type(entry) for entry in feed._ring] == [Event, bytes]


async def test_a_feed_knows_when_nothing_will_follow() -> None:
    feed = Feed(RUN)
    feed.add(events(0))
    feed.add([Event(1, 0.0, None, "", RunInterrupted(reason="to see"))])
    assert not feed.settled
    feed.add([Event(2, 0.0, None, "", RunCancelled(by="me", reason=""))])
    assert feed.settled


async def test_a_run_that_nobody_reads_is_not_kept() -> None:
    live = LiveRuns()
    live.publish(RUN, events(0))
    live.delta(RUN, LaneId("one"), "text")
    assert live.feeds() == []
    with live.reading(RUN, deltas=False) as feed, live.reading(RUN, deltas=True) as same:
        assert feed is same
        assert live.wants_deltas
        live.publish(RUN, events(0))
        assert feed.tip == 0
    assert live.feeds() == []
    assert not live.wants_deltas


async def test_readers_are_woken_together_and_not_for_every_single_event() -> None:
    feed, woken = Feed(RUN), 0

    async def read(waiter: Waiter) -> None:
        nonlocal woken
        while not feed.settled:
            await feed.news(waiter)
            woken += 1

    readers = [asyncio.create_task(read(Waiter())) for _ in range(50)]
    await asyncio.sleep(0)
    for number in range(1_000):
        feed.add(events(number))
        await asyncio.sleep(0)
    assert woken <= 50 * 3, "a thousand events in a moment are one piece of news, or two"
    feed.add([Event(1_000, 0.0, None, "", RunCancelled(by="me", reason=""))])
    async with asyncio.timeout(60):
        await asyncio.gather(*readers)


async def test_a_waiter_that_is_awake_cannot_be_woken() -> None:
    waiter = Waiter()
    waiter.wake()
    sleeping = asyncio.create_task(waiter.sleep())
    await asyncio.sleep(0)
    waiter.wake()
    waiter.wake()
    async with asyncio.timeout(60):
        await sleeping


async def test_pieces_of_answers_keep_their_place_among_the_events() -> None:
    feed = Feed(RUN)
    feed.add(events(0))
    feed.add_delta(LaneId("one"), "a")
    feed.add_delta(LaneId("one"), "b")
    feed.add(events(1))
    feed.add_delta(LaneId("one"), "c")
    pieces = feed.deltas_after(0)
    assert [place for place, _ in pieces] == [0, 0, 1]
    assert len(feed.deltas_after(2)) == 1
    a, b, c = (piece for _, piece in pieces)
    assert a == b'event: delta\ndata: {"run_id":"run-1","lane":"one","text":"a"}\n\n'
    assert _merge([b"0", b"1"], -1, pieces) == [b"0", a, b, b"1", c]
    assert _merge([b"1"], 0, pieces) == [a, b, b"1", c]
    assert _merge([], 1, pieces) == [c], "the others come too late"


class _Pages:
    """Stands in for the store, and counts."""

    def __init__(self, length: int, text: str = "a test") -> None:
        self.length = length
        self.text = text
        self.reads = 0

    async def page(self, run_id: RunId, *, after: int, limit: int) -> list[Event]:
        self.reads += 1
        await asyncio.sleep(0)
        return events(*range(after + 1, min(after + 1 + limit, self.length)), text=self.text)


async def test_a_page_is_read_once_however_many_readers_want_it() -> None:
    live, pages = LiveRuns(), _Pages(PAGE + 3)

    async def read(after: int) -> list[int]:
        return numbers(await live.read_stored(pages, RUN, after))  # type: ignore[arg-type]  # only `page` is needed

    found = await asyncio.gather(*(read(-1) for _ in range(100)))
    assert found == [list(range(PAGE))] * 100
    assert await read(4) == list(range(5, PAGE))
    assert pages.reads == 1
    assert await read(PAGE - 1) == [PAGE, PAGE + 1, PAGE + 2]
    pages.length += 1
    assert await read(PAGE - 1) == [PAGE, PAGE + 1, PAGE + 2, PAGE + 3], "the last page was not kept: it grows"
    assert pages.reads == 3


async def test_only_some_pages_are_kept() -> None:
    live, pages = LiveRuns(), _Pages(PAGE * (PAGES + 50))
    for number in range(PAGES + 50):
        await live.read_stored(pages, RUN, number * PAGE - 1)  # type: ignore[arg-type]  # as above
    assert len(live._pages) <= PAGES


@pytest.mark.parametrize("full", [False, True])
async def test_pages_of_long_events_are_kept_up_to_a_size(*, full: bool) -> None:
    live, pages = LiveRuns(), _Pages(10_000, text="x" * 1_900)
    for after in range(-1, 9_990, 7):
        assert numbers(await live.read_stored(pages, RUN, after, full=full))[0] == after + 1  # type: ignore[arg-type]
        assert sum(live._page_sizes.values()) <= PAGES_BYTES
    assert set(live._page_sizes) == set(live._pages)
    assert len(live._pages) <= PAGES


async def test_a_reader_takes_no_more_from_the_ring_than_it_can_send() -> None:
    feed = Feed(RUN)
    feed.add(events(*range(100)))
    assert numbers(feed.after(9, most_bytes=1)) == [10]
    size = len(event_frame(RUN, events(10)[0]))
    assert numbers(feed.after(9, most_bytes=3 * size)) == [10, 11, 12]


async def test_what_was_heard_before_the_log_was_looked_at_is_put_where_it_belongs() -> None:
    lane = LaneId("one")
    looked, told = Feed(RUN), Feed(RUN)
    for feed in (looked, told):
        feed.add_delta(lane, "early")
    looked.begin(events(3)[0])
    told.add(events(4))
    told.begin(events(3)[0])
    for feed in (looked, told):
        feed.add_delta(lane, "late")
    assert [place for place, _ in looked.deltas_after(0)] == [3, 3]
    assert [place for place, _ in told.deltas_after(0)] == [3, 4]
