"""A log as a transcript: every kind of event, nothing that steers a terminal, nothing kept in memory."""

import io
import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from agent_fabric.domain.events import (
    Event,
    ModelFailed,
    RunCancelled,
    RunCompleted,
    ToolCalled,
    ToolErred,
    ToolReturned,
)
from agent_fabric.domain.ids import CallId, LaneId
from agent_fabric.domain.models.messages import ToolCallRequest, Usage
from agent_fabric.interfaces.cli.runs.logs import write_lines
from agent_fabric.interfaces.cli.runs.transcript import INDENT, MAX_FOLDED_LINES, Transcript
from agent_fabric.interfaces.cli.runs.view import LiveView
from unit.infrastructure.runs.log.every_kind import RUN, all_ends, answered, asked

LANE = LaneId("engineering")


def event(seq: int, body: object) -> Event:
    return Event(seq, 1_700_000_000.0 + seq, LANE, "step_0", body)  # type: ignore[arg-type] # any body


def text_of(transcript: Transcript, *events: Event) -> str:
    return "\n".join(line for each in events for line in transcript.lines(each))


@pytest.mark.parametrize("folded", [True, False])
@pytest.mark.parametrize("log", all_ends())
def test_every_kind_of_event_has_lines_without_control_characters(log: list[Event], folded: bool) -> None:
    transcript = Transcript(RUN, folded=folded, every_kind=True)
    for each in log:
        lines = list(transcript.lines(each))
        assert lines, each.body.kind
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u202e]", "\n".join(lines))


def test_lines_come_one_by_one_and_long_results_are_folded() -> None:
    long = "\n".join(f"line {number}" for number in range(100_000))
    returned = event(1, ToolReturned(tool="shell", result={"stdout": long}, call_id=CallId("1")))
    lines = Transcript(RUN).lines(returned)
    assert isinstance(lines, Iterator)
    assert next(lines) == "2023-11-14"
    assert next(lines).endswith("result  shell  ok · 0.0 s")
    folded = list(Transcript(RUN, folded=True).lines(returned))
    assert len(folded) == MAX_FOLDED_LINES + 4  # the date, the head, the name, and what is folded
    assert folded[-1].strip() == f"… {100_000 - MAX_FOLDED_LINES:,} more lines, folded; --full shows it"


@pytest.mark.proves("DU-3")
def test_the_end_of_a_workflow_counts_its_steps_and_repeats_none_of_them() -> None:
    payload: dict[str, Any] = {
        "outputs": {"a": {"n": 1}},
        "steps_executed": ["a", "b"],
        "step_results": [{"step_id": "a"}],
    }
    payload |= {"duration_ms": 3600, "status": "success", "result": {"said": "hello"}}
    ended = RunCompleted(run_id=RUN, specialist_ids=(), task_force_mode="sequential", payload=payload)
    _, head, *values = Transcript(RUN).lines(event(1, ended))
    assert head.endswith("completed  2 steps, 0 tokens, 3.6 s")
    assert [line.strip() for line in values] == ["said: hello"]


def test_what_a_model_said_is_never_folded() -> None:
    said = "\n".join(f"thought {number}" for number in range(500))
    shown = text_of(Transcript(RUN, folded=True), event(1, answered(content=said)))
    assert shown.count("thought") == 500


def test_a_call_that_was_refused_is_shown_with_what_was_wanted() -> None:
    wanted = ToolCallRequest(CallId("7"), "shell", '{"command": "shutdown"}')
    refused = ToolErred(tool="shell", error_type="denied", error_message="never", call_id=CallId("7"))
    shown = text_of(Transcript(RUN), event(1, answered(wanted)), event(2, refused))
    assert "error  shell  denied\n" in shown
    assert '{"command": "shutdown"}' in shown


def test_costs_and_tokens_are_summed_up_at_the_end() -> None:
    answers = [
        replace(answered(usage=Usage(1_000, 50)), cost=0.25),
        replace(answered(usage=Usage(2_000, 50)), cost=0.5),
    ]
    log = [event(seq, body) for seq, body in enumerate(answers)]
    shown = text_of(Transcript(RUN), *log, event(3, RunCancelled(by="ada", reason="")))
    assert shown.endswith("cancelled  by ada · 2 steps, 3,100 tokens, 3.0 s, cost 0.75")


def test_a_model_that_has_not_answered_is_named_at_the_end() -> None:
    transcript = Transcript(RUN)
    text_of(transcript, event(1, asked(0, 2)))
    assert list(transcript.rest()) == ["          waits for the model qwen2.5:14b (engineering)"]
    text_of(transcript, event(2, answered(usage=Usage(1, 1))))
    assert list(transcript.rest()) == []


@pytest.mark.proves("DB-9")
def test_values_within_values_are_shown_by_name_and_not_as_raw_json() -> None:
    given = {"payload": {"count": 2, "by": {"ann": "x"}}, "list": [{"a": 1}]}
    called = event(1, ToolCalled(tool="tell", args=given, call_id=CallId("1"), attempt=1))
    _, _, *values = Transcript(RUN).lines(called)
    assert [line.removeprefix(INDENT) for line in values] == [
        "payload:",
        "  count: 2",
        "  by:",
        "    ann: x",
        'list: [{"a": 1}]',
    ]


@pytest.mark.proves("DB-9")
def test_a_model_server_that_is_still_dead_is_explained_once() -> None:
    shown = text_of(Transcript(RUN), *(event(number, unreachable(number)) for number in (1, 2, 3)))
    assert shown.count("No answer") == 1
    assert shown.count("as before") == 2


@pytest.mark.proves("DB-9")
def test_while_a_run_goes_on_the_same_failure_is_counted() -> None:
    stream = io.StringIO()
    view = LiveView(stream)
    for number in (1, 2, 3):
        view.publish(RUN, [event(number, unreachable(number))])
    assert stream.getvalue() == "  1  model No answer\n"
    view.publish(RUN, [event(4, RunCancelled(by="ada", reason=""))])
    assert stream.getvalue() == "  1  model No answer\n     the same, 3 times\n"


@pytest.mark.proves("DB-9")
def test_a_terminal_breaks_no_word(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", Terminal())
    monkeypatch.setenv("COLUMNS", "40")
    pager = io.StringIO()
    words = "several words that are longer than the terminal is wide, together"
    write_lines(pager, [INDENT + words])
    lines = pager.getvalue().splitlines()
    assert all(line.startswith(INDENT) and len(line) < 40 for line in lines)
    assert " ".join(line.strip() for line in lines) == words


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def unreachable(attempt: int) -> ModelFailed:
    return ModelFailed(
        error_type="model_unreachable",
        error_message="No answer",
        hint="",
        attempt=attempt,
        retryable=True,
        retry_after_s=None,
        duration_s=0.1,
    )
