"""A line of the log is small, stable, and always valid JSON."""

import hashlib
import json
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from agent_fabric.config.constants import MAX_LLM_CONTENT_IN_RUNLOG_CHARS
from agent_fabric.domain.events import Event, ModelAnswered, ToolCalled, ToolErred, UnknownEvent
from agent_fabric.domain.ids import CallId, LaneId
from agent_fabric.domain.models.messages import Usage
from agent_fabric.infrastructure.persistence.runs.codec import encode
from agent_fabric.wire.event_lines import encoded_line, line_of
from effort import examples
from unit.infrastructure.runs.log.every_kind import RUN, all_ends, call

EVERY_EVENT = [event for log in all_ends() for event in log]
TEXTS = st.one_of(
    st.text(st.characters(), max_size=30),
    st.builds(
        lambda text, times: text * times, st.text(st.characters(), min_size=1, max_size=3), st.integers(600, 2_100)
    ),
)


def strict(data: bytes) -> Any:
    """Read JSON as strictly as it is defined."""

    def refuse(name: str) -> None:
        raise ValueError(f"{name} is no JSON")

    return json.loads(data, parse_constant=refuse)


def both(event: Event) -> tuple[Any, Any]:
    payload, _ = encode(event.body)
    return strict(encoded_line(RUN, event, payload)), json.loads(json.dumps(line_of(RUN, event)))


@pytest.mark.proves("AF-132")
@pytest.mark.parametrize("event", EVERY_EVENT, ids=lambda event: f"{event.seq}-{event.body.kind}")
def test_the_fast_line_is_the_same_as_the_slow_one_for_every_kind(event: Event) -> None:
    fast, slow = both(event)
    assert fast == slow
    assert list(fast) == list(slow)
    assert list(fast)[:4] == ["ts", "kind", "step", "payload"]
    assert isinstance(fast["ts"], float)
    assert fast["seq"] == event.seq
    assert fast["run_id"] == RUN
    assert fast.get("lane") == event.lane


@settings(max_examples=examples(150), deadline=None)
@given(
    text=TEXTS,
    more=TEXTS,
    ts=st.floats(0, 1e11, allow_nan=False),
    lane=st.sampled_from([None, LaneId("engineering"), LaneId('a "quoted" ü')]),
    number=st.integers(-(2**63), 2**64 - 1),
)
def test_the_fast_line_is_the_same_as_the_slow_one_for_any_content(
    text: str, more: str, ts: float, lane: LaneId | None, number: int
) -> None:
    bodies = (
        ModelAnswered(
            content=text,
            tool_calls=(call(1, more, text),),
            usage=Usage(1, 2),
            model=more,
            finish_reason="",
            duration_s=0.5,
        ),
        ToolCalled(tool=text, args={more: [text, number, None]}, call_id=CallId(more), attempt=3),
        ToolErred(tool="shell", error_type=more, error_message=text, call_id=CallId(text)),
    )
    for body in bodies:
        assume(not encode(body)[1])  # what has moved into blobs: see below
        fast, slow = both(Event(7, ts, lane, "step_3", body))
        assert fast == slow


@pytest.mark.proves("AF-139")
def test_an_answer_is_cut_to_2000_characters_and_the_rest_can_be_proven() -> None:
    content = "ü" * 2_001
    require_cut(content, "x" * 3_000)


def test_an_answer_that_has_moved_into_a_blob_is_cut_the_same_way() -> None:
    require_cut("ü" * 9_000, "x" * 5_000)


def require_cut(content: str, arguments: str) -> None:
    body = ModelAnswered(
        content=content,
        tool_calls=(call(1, "shell", arguments),),
        usage=Usage(1, 2),
        model="m",
        finish_reason="",
        duration_s=0.5,
    )
    line, _ = both(Event(0, 1.0, None, "", body))
    assert MAX_LLM_CONTENT_IN_RUNLOG_CHARS == 2_000
    assert line["payload"]["content"] == content[:2_000]
    assert line["cut"]["content"] == {"chars": len(content), "sha256": hashlib.sha256(content.encode()).hexdigest()}
    assert len(line["payload"]["tool_calls"][0]["arguments"]) == 2_000
    assert line["cut"]["tool_calls[0].arguments"]["chars"] == len(arguments)
    whole = line_of(RUN, Event(0, 1.0, None, "", body), whole=True)
    assert whole["payload"]["content"] == content
    assert "cut" not in whole


@pytest.mark.parametrize("length", [1_999, 2_000])
def test_an_answer_of_2000_characters_is_not_cut(length: int) -> None:
    body = ModelAnswered(
        content="ü" * length, tool_calls=(), usage=Usage(1, 2), model="m", finish_reason="", duration_s=0.5
    )
    line, _ = both(Event(0, 1.0, None, "", body))
    assert line["payload"]["content"] == "ü" * length
    assert "cut" not in line


@pytest.mark.parametrize("text", ["\udc80", "\x00\x1b[31m\x7f\x9b", "\u2028\u2029\u202e", 'quote " and \\ and\nline'])
def test_odd_characters_stay_on_one_line_of_valid_json(text: str) -> None:
    event = Event(0, 1.0, None, "", ToolCalled(tool="shell", args={text: text}, call_id=CallId(text)))
    data = encoded_line(RUN, event, encode(event.body)[0])
    assert b"\n" not in data
    assert b"\r" not in data
    assert strict(data)["payload"]["args"] == {text: text}


def test_a_number_that_json_does_not_have_never_gets_into_a_line() -> None:
    body = ToolCalled(tool="shell", args={"n": 10**30, "x": float("inf")}, call_id=CallId("c"))
    both(Event(0, 1.0, None, "", body))


def test_what_a_newer_program_wrote_is_shown_as_it_is() -> None:
    unknown = UnknownEvent(kind="step_started", payload={"call_id": "c", "attempt": 2, "x": [1]})
    line = line_of(RUN, Event(0, 1.0, None, "", unknown))
    assert line["kind"] == "step_started"
    assert line["payload"] == {"call_id": "c", "attempt": 2, "x": [1]}
