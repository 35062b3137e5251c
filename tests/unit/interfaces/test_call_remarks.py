"""Why a command failed and what became of a push are seen without opening the log; progress keeps to one line."""

import io
from typing import Any

import pytest

from agent_fabric.application.ports.llm import ProgressText
from agent_fabric.domain.events import Event, ToolCalled, ToolReturned
from agent_fabric.domain.ids import CallId, LaneId
from agent_fabric.interfaces.cli.runs.step_lines import call_remarks
from agent_fabric.interfaces.cli.runs.view import LiveView
from unit.infrastructure.runs.log.every_kind import RUN
from unit.interfaces.test_fitted_lines import Terminal

pytestmark = pytest.mark.proves("DU-10")

IDENTITY = "Author identity unknown\n\n*** Please tell me who you are.\n\nfatal: unable to auto-detect email address\n"
PUSHED = "To file:///srv/calc.git\n \t65caef2a:refs/heads/main\taf3b7bc..65caef2\nDone\n"


def returned(**result: Any) -> ToolReturned:
    return ToolReturned(tool="shell", result=result, call_id=CallId("c"))


@pytest.mark.parametrize(
    ("result", "said"),
    [
        ({"exit_code": 0, "stdout": "fine\n"}, []),
        ({"path": "a.txt", "bytes": 3}, []),
        ({"exit_code": 128, "stderr": IDENTITY, "stdout": "x"}, IDENTITY.split("\n\n")),
        (
            {"exit_code": 1, "stdout": "On branch main\nnothing to commit, working tree clean\n"},
            ["On branch main", ...],
        ),
        ({"exit_code": 1, "stdout": "", "stderr": ""}, []),
        ({"exit_code": 0, "stdout": PUSHED, "ran": "outside"}, ["main → file:///srv/calc.git: af3b7bc..65caef2"]),
        (
            {
                "exit_code": 0,
                "stdout": PUSHED.replace(" \t", "=\t").replace("af3b7bc..65caef2", "[up to date]"),
                "ran": "o",
            },
            ["main → file:///srv/calc.git: nothing to push, [up to date]"],
        ),
        ({"exit_code": 255, "stderr": "ssh: no such host\n", "ran": "outside"}, ["ssh: no such host"]),
        ({"exit_code": 0, "stdout": "10:53 up 5 days\n", "ran": "outside"}, ["10:53 up 5 days"]),
    ],
)
def test_what_a_person_would_have_asked_is_said(result: dict[str, Any], said: list[Any]) -> None:
    found = call_remarks(returned(**result), 100, io.StringIO())
    assert len(found) == len(said)
    assert all(expected in (..., line, f"{line}\n") for line, expected in zip(found, said, strict=True))


def test_remarks_stand_below_the_call_and_steer_no_terminal() -> None:
    stream = io.StringIO()
    view = LiveView(stream)
    called = ToolCalled(tool="shell", args={"command": "make"}, call_id=CallId("c"))
    failed = returned(exit_code=2, stderr="\x1b]0;evil\x07make: *** No rule\n")
    lane = LaneId("engineering")
    view.publish(RUN, [Event(1, 0.0, lane, "step_0", called), Event(2, 0.0, lane, "step_0", failed)])
    *_, call, remark = stream.getvalue().splitlines()
    assert call == "  1  shell make  exit 2"
    assert remark.startswith("       ")
    assert remark.endswith("make: *** No rule")
    assert "\x1b" not in remark


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_progress_is_one_line_of_the_terminal(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("TERM", "xterm")
    stream = Terminal()
    view = LiveView(stream)
    for percent in (8, 60, 99):
        text = f"qwen2.5-coder-1.5b-instruct-q4_k_m from the package index: {percent} %, 680 of 1117 MB, 46 MB/s"
        view.notice(RUN, ProgressText(text))
    lines = stream.getvalue().split("\r\x1b[2K")
    assert len(lines) == 3
    assert all(len(line) < columns and "\n" not in line for line in lines)
    assert "60 %" in lines[1]
