"""Answers that another process writes reach readers here: in their place, without a gap, while they are read."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from agent_fabric.application.ports.llm import ProgressText
from agent_fabric.application.ports.wake_ups import delta_topic
from agent_fabric.domain.events import Event, RunCancelled
from agent_fabric.domain.ids import LaneId, RunId
from agent_fabric.infrastructure.cluster.wake_ups.in_process import InProcessWakeUps
from agent_fabric.infrastructure.cluster.wake_ups.pokes import DeltaPokes
from agent_fabric.interfaces.http.runs.live import Feed, LiveRuns
from agent_fabric.interfaces.http.runs.remote_deltas import RemoteDeltas

pytestmark = pytest.mark.proves("SC-10")
RUN, LANE = RunId("run-1"), LaneId("engineering")


def event(seq: int) -> Event:
    return Event(seq, 1.0, LANE, "", RunCancelled(by="somebody", reason=""))


class Two:
    """A driver and a server, as far as hints can tell."""

    def __init__(self) -> None:
        self.wake_ups = InProcessWakeUps()
        self.driver = DeltaPokes(self.wake_ups)
        self.driver.drives = {RUN}.__contains__
        self.driver.listen()
        self.live = LiveRuns()
        self.live.remote = RemoteDeltas(self.wake_ups, ())

    @contextmanager
    def read(self, *, tip: int = 1) -> Iterator[Feed]:
        with self.live.reading(RUN, deltas=True) as feed:
            feed.begin(event(tip))
            yield feed


def pieces(feed: Feed) -> list[Any]:
    return [(place, frame.partition(b"data: ")[2].strip()) for place, frame in feed.deltas_after(0)]


def piece(text: str) -> bytes:
    return b'{"run_id":"run-1","lane":"engineering","text":"%s"}' % text.encode()


async def test_pieces_come_to_whoever_reads_and_to_nobody_else() -> None:
    two = Two()
    two.driver.publish(RUN, [event(1)])
    wanted = [two.driver.wants_deltas]
    with two.read() as feed:
        wanted.append(two.driver.wants_deltas)
        assert wanted == [False, True]
        two.driver.delta(RUN, LANE, "Hel")
        two.driver.delta(RUN, LANE, "lo")
        two.driver.notice(RUN, ProgressText("1 of 2"))
        assert pieces(feed) == [
            (1, piece("Hel")),
            (1, piece("lo")),
            (1, b'{"run_id":"run-1","text":"1 of 2","progress":true}'),
        ]
    two.driver.delta(RUN, LANE, "nobody hears this")
    with two.live.reading(RUN, deltas=True) as feed:
        assert pieces(feed) == []


async def test_a_piece_waits_for_the_event_that_it_belongs_behind() -> None:
    two = Two()
    with two.read(tip=1) as feed:
        two.driver.publish(RUN, [event(3)])
        two.driver.delta(RUN, LANE, "new")
        assert pieces(feed) == []
        feed.add([event(2), event(3)])
        assert pieces(feed) == [(3, piece("new"))]


async def test_an_answer_with_a_gap_is_not_shown_any_further_and_what_comes_twice_is_shown_once() -> None:
    two = Two()
    two.driver.publish(RUN, [event(1)])
    with two.read() as feed:
        heard = list[Any]()
        two.wake_ups.listen(delta_topic(RUN), heard.append)
        two.driver.delta(RUN, LANE, "one ")
        two.wake_ups.poke(delta_topic(RUN), heard[0])
        two.driver._offsets[RUN, LANE] += len("lost ")
        two.driver.delta(RUN, LANE, "three ")
        two.driver.delta(RUN, LANE, "four")
        assert pieces(feed) == [(1, piece("one "))]
        two.driver.publish(RUN, [event(2)])
        feed.add([event(2)])
        two.driver.delta(RUN, LANE, "the next answer")
        assert pieces(feed)[1:] == [(2, piece("the next answer"))]
        for nonsense in ({}, {"lane": 1, "text": "x", "offset": 0}, {"lane": LANE, "text": "x", "offset": "y"}):
            two.wake_ups.poke(delta_topic(RUN), nonsense)
        assert len(pieces(feed)) == 2


async def test_nothing_of_an_encrypted_run_is_sent() -> None:
    two = Two()
    two.driver.encrypted = {RUN}
    with two.read() as feed:
        assert not two.driver.wants_deltas
        two.driver.delta(RUN, LANE, "secret")
        two.driver.notice(RUN, "secret")
        assert pieces(feed) == []


async def test_a_reader_that_is_not_heard_of_any_more_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent_fabric.infrastructure.cluster.wake_ups.pokes.FOLLOWED_FOR_S", -1.0)
    two = Two()
    with two.read():
        assert not two.driver.wants_deltas
