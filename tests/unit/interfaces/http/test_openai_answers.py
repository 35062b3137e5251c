"""What came of a run, and what it does, in words for a chat."""

from typing import Any

import pytest

from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.answer import NOTHING_SAID, answer_in
from agent_fabric.interfaces.http.openai.answers import marked_answer, waiting_text
from agent_fabric.interfaces.http.openai.error_shape import error_object
from agent_fabric.interfaces.http.openai.stream import pieces, progress_in


@pytest.mark.parametrize(
    ("payload", "text"),
    [
        ({"summary": " done "}, "done"),
        ({"summary": "done", "artifacts": ["a.py", {"path": "b.py"}]}, "done\n\nFiles:\n- a.py\n- b.py"),
        ({"summary": "done", "artifacts": "a.py"}, "done"),
        ({"action": "final", "greeting": "Hello!"}, "Hello!"),
        ({"a": 1, "b": "ä"}, '```json\n{\n  "a": 1,\n  "b": "ä"\n}\n```'),
        ({"step_results": [], "outputs": {"s": {"x": 1}}, "result": {"said": "hi\n"}}, "hi"),
        ({"step_results": [], "outputs": {}}, NOTHING_SAID),
        ({}, NOTHING_SAID),
        ({"summary": ""}, NOTHING_SAID),
    ],
)
def test_an_answer_is_the_summary_or_else_what_was_given(payload: dict[str, Any], text: str) -> None:
    assert answer_in(payload) == text


def test_an_answer_that_nothing_bears_out_says_so() -> None:
    assert marked_answer({"summary": "Fixed.", "unproven": "nothing was changed"}) == (
        "Fixed.\n\nunproven: nothing was changed"
    )
    assert '"unproven"' in marked_answer({"total": 3, "unproven": "nothing was changed"})


def test_a_long_list_of_files_is_cut() -> None:
    shown = answer_in({"summary": "done", "artifacts": [f"{number}.py" for number in range(60)]})
    assert shown.endswith("- 49.py\n- and 10 more")


def test_a_run_that_waits_for_a_signal_says_how_to_give_it() -> None:
    shown = waiting_text(RunId("r1"), [], [{"kind": "signal", "step_id": "hold", "name": "deployed"}])
    assert "`fabric workflow signal r1 deployed`" in shown
    assert "GET /runs/r1" in shown


@pytest.mark.parametrize(
    ("frame", "line"),
    [
        (b'id: 3\ndata: {"kind":"tool_call","payload":{"tool":"shell","args":{"command":"ls\\n-l"}}}', "shell ls -l"),
        (b'id: 3\ndata: {"kind":"step_started","payload":{"step_id":"a","action":"wait"}}', "step a (wait)"),
        (b'id: 3\ndata: {"kind":"llm_request","payload":{}}', ""),
        (b'id: 3\ndata: {"kind":"tool_call","payload":{"tool":"finish_task","args":{}}}', ""),
        (b'id: 3\ndata: {"kind":"recruitment","payload":{"specialist_ids":["a","b"]}}', "the task goes to a, b"),
        (b": ping", ""),
        (b'event: delta\ndata: {"text":"x"}', ""),
        (b"", ""),
    ],
)
def test_progress_is_one_line_for_each_event_that_matters(frame: bytes, line: str) -> None:
    assert progress_in(frame) == line


def test_pieces_of_an_answer_make_the_answer() -> None:
    text = "äöü👋\n" * 1_000
    assert "".join(pieces(text)) == text
    assert list(pieces("")) == []


def test_an_error_names_the_parameter_and_ends_with_the_hint() -> None:
    wrong = {"field": "body.messages.0.content", "message": "only text", "type": "unsupported_content"}
    problem = {"status": 422, "code": "request_invalid", "detail": "x", "hint": "y", "errors": [wrong]}
    assert error_object(problem) == {
        "message": "messages.0.content: only text",
        "type": "invalid_request_error",
        "param": "messages.0.content",
        "code": "unsupported_content",
        "hint": "",
    }
    other = error_object({"status": 401, "code": "unauthenticated", "detail": "Who?", "hint": "Send a key."})
    assert (other["message"], other["type"], other["code"]) == (
        "Who? Send a key.",
        "authentication_error",
        "invalid_api_key",
    )
