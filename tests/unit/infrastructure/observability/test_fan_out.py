"""Many readers of one emission, none in the way of another."""

import io
import json
from collections.abc import Sequence

from agent_fabric.config.schema.observability import LogConfig
from agent_fabric.domain.events import Event
from agent_fabric.domain.ids import LaneId, RunId
from agent_fabric.infrastructure.observability.observers import FanOut
from agent_fabric.infrastructure.observability.operations_log import close_operations_log, configure_operations_log
from agent_fabric.testing.fakes import ListSink
from unit.infrastructure.runs.log.every_kind import RUN, rich_run

LANE = LaneId("engineering")


class Failing:
    """EventSink that cannot."""

    wants_deltas = True

    def publish(self, run_id: RunId, events: Sequence[Event]) -> None:
        raise RuntimeError("broken reader")

    def delta(self, run_id: RunId, lane: LaneId, text: str) -> None:
        raise RuntimeError("broken reader")

    def notice(self, run_id: RunId, text: str) -> None:
        raise RuntimeError("broken reader")


def test_every_reader_sees_everything() -> None:
    one, two = ListSink(), ListSink()
    FanOut([one, two]).publish(RUN, rich_run())
    assert one.events == two.events == rich_run()


def test_pieces_of_answers_go_to_those_who_want_them() -> None:
    wants, does_not = ListSink(wants_deltas=True), ListSink()
    fan_out = FanOut([does_not, wants])
    assert fan_out.wants_deltas
    fan_out.delta(RUN, LANE, "text")
    assert (wants.texts, does_not.texts) == (["text"], [])
    assert not FanOut([does_not]).wants_deltas


def test_a_reader_may_change_its_mind() -> None:
    reader = ListSink()
    fan_out = FanOut([reader])
    assert not fan_out.wants_deltas
    reader.wants_deltas = True
    assert fan_out.wants_deltas


def test_a_reader_that_fails_disturbs_nobody_and_is_told_about_once() -> None:
    stream, after = io.StringIO(), ListSink(wants_deltas=True)
    configure_operations_log(LogConfig(), (), stream)
    fan_out = FanOut([Failing(), after])
    for _ in range(3):
        fan_out.publish(RUN, rich_run()[:1])
        fan_out.delta(RUN, LANE, "text")
        fan_out.notice(RUN, "queued behind 1")
    assert after.notices == ["queued behind 1"] * 3
    close_operations_log()
    (line,) = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert (line["event"], line["reader"], line["run_id"]) == ("reader_failed", "Failing", RUN)
    assert line["exception"][0]["exc_value"] == "broken reader"
    assert (len(after.events), len(after.texts)) == (3, 3)
