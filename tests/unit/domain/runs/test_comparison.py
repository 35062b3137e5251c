"""Turns of two runs beside each other."""

import pytest

from agent_fabric.domain.events import Event, ModelAnswered, ModelCalled, ToolErred, ToolReturned
from agent_fabric.domain.ids import CallId, LaneId
from agent_fabric.domain.models.messages import ToolCallRequest, Usage
from agent_fabric.domain.runs.changes import Entry, EntryKind, FileChange
from agent_fabric.domain.runs.comparison import (
    CALLED,
    GOT,
    MAX_ALIGNED,
    ONLY,
    SAID,
    changes_between,
    first_difference,
    pair_turns,
)

pytestmark = pytest.mark.proves("TT-9")
LANE = LaneId("engineering")


def log(*turns: str, failed: int | None = None, purpose: str = "turn", lane: LaneId = LANE) -> list[Event]:
    """Return a log whose turns each say and call something: `words|command|output`."""
    events: list[Event] = []
    for number, turn in enumerate(turns):
        said, command, output = turn.split("|")
        call = CallId(f"{lane}-{number}")
        body = ModelCalled(step=number, message_count=1, attempt=1, model="m", purpose=purpose)  # type: ignore[arg-type] # a parameter is any text
        request = ToolCallRequest(call, "shell", f'{{"command": "{command}"}}')
        answer = ModelAnswered(
            content=said,
            tool_calls=(request,),
            usage=Usage(10, 1, 0),
            model="m",
            finish_reason="tool_calls",
            duration_s=1.0,
        )
        came = (
            ToolErred(tool="shell", error_type="ToolError", error_message=output, call_id=call)
            if number == failed
            else ToolReturned(tool="shell", result={"output": output}, call_id=call, duration_s=0.5)
        )
        for each in (body, answer, came):
            events.append(Event(len(events), float(number), lane, f"step_{number}", each))
    return events


def test_equal_runs_have_no_difference() -> None:
    pairs = pair_turns(log("a|ls|x", "b|pwd|y"), log("a|ls|x", "b|pwd|y"))
    assert first_difference(pairs) is None
    assert [pair.a is not None and pair.b is not None for pair in pairs] == [True, True]
    assert pairs[0].a is not None
    assert (pairs[0].a.tokens, pairs[0].a.duration_s) == (11, 1.5)


def test_each_kind_of_difference_is_named() -> None:
    ours = log("a|ls|x", "b|ls|x", "c|ls|x", "d|one|x", "e|ls|x")
    theirs = log("a|ls|x", "B|ls|x", "c|ls|y", "D|two|x")
    assert [pair.differs for pair in pair_turns(ours, theirs)] == [(), (SAID,), (GOT,), (SAID, CALLED), (ONLY,)]
    assert [pair.differs for pair in pair_turns(log("a|ls|x"), log("a|ls|x", failed=0))] == [(GOT,)]


def test_turns_behind_the_parting_are_aligned_by_their_calls() -> None:
    ours = log("a|ls|x", "b|cat|x", "z|make|done")
    theirs = log("a|ls|x", "q|pip|x", "r|apt|x", "b|cat|x", "y|make|done")
    pairs = pair_turns(ours, theirs)
    assert [pair.differs for pair in pairs] == [(), (ONLY,), (ONLY,), (), (SAID,)]
    assert first_difference(pairs) == 1


def test_lanes_stand_for_themselves_and_routing_is_no_turn() -> None:
    ours = [*log("a|ls|x"), *log("b|ls|x", lane=LaneId("research"))]
    theirs = [*log("r|ls|x", purpose="routing", lane=LaneId("")), *log("a|ls|x")]
    assert [(pair.lane, pair.differs) for pair in pair_turns(ours, theirs)] == [
        ("engineering", ()),
        ("research", (ONLY,)),
    ]


def test_long_runs_are_aligned_and_very_long_ones_laid_side_by_side() -> None:
    ours = log(*(f"a|ls {number}|x" for number in range(500)))
    theirs = log(*(f"a|ls {number + number // 50}|x" for number in range(500)))
    pairs = pair_turns(ours, theirs)
    assert sum(not pair.differs for pair in pairs) > 400
    many = log(*["a|ls|x"] * (MAX_ALIGNED + 1))
    assert len(pair_turns(many, log("b|no|x", *["a|ls|x"] * MAX_ALIGNED))) == MAX_ALIGNED + 1


def entry(digest: str) -> Entry:
    return Entry(EntryKind.FILE, 0o644, 3, digest)


def test_files_are_compared_as_they_were_left() -> None:
    found = entry("0")
    ours = [
        FileChange(path="both", before=None, after=entry("a")),
        FileChange(path="other", before=found, after=entry("b")),
        FileChange(path="same", before=None, after=entry("s")),
        FileChange(path="gone", before=found, after=None),
    ]
    theirs = [
        FileChange(path="both", before=None, after=entry("c")),
        FileChange(path="same", before=None, after=entry("s")),
        FileChange(path="new", before=None, after=entry("n")),
        FileChange(path="gone", before=found, after=None),
    ]
    different, same = changes_between(ours, theirs)
    assert same == 1
    assert [
        (each.path, each.before and each.before.digest, each.after and each.after.digest) for each in different
    ] == [
        ("both", "a", "c"),
        ("new", None, "n"),
        ("other", "b", "0"),
    ]
