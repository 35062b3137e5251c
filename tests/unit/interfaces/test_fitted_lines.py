"""Lines are cut only on a terminal, and never inside a command to type."""

import io
from dataclasses import replace

import pytest

from agent_fabric.domain.events import Event, RunCreated, ToolCalled, ToolErred, ToolReturned
from agent_fabric.domain.ids import CallId, LaneId, RunId
from agent_fabric.domain.plural import count_of
from agent_fabric.infrastructure.web.sessions import reason_of
from agent_fabric.interfaces.cli.approvals.approval_card import card_line
from agent_fabric.interfaces.cli.output import fit_width, fold_lines, laid_out
from agent_fabric.interfaces.cli.runs.view import LiveView
from unit.infrastructure.runs.log.every_kind import RUN, all_ends
from unit.interfaces.test_approval_card import card

LONG = "python -m package.module --first " + "a" * 80 + " --last z"
REFUSAL = (
    "The push needs a file of the workspace that would be obeyed outside of the box, which is never done for an agent. "
    "Push it yourself, in a terminal of your own, after you have looked at the file and at what it would do there."
)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


pytestmark = pytest.mark.proves("DU-10")


def test_a_pipe_gets_the_whole_line_and_a_terminal_as_much_as_fits() -> None:
    assert fit_width("word " * 100, 20, io.StringIO()) == ("word " * 100).strip()
    assert fit_width("word " * 100, 20, Terminal()) == "word word word word…"


def test_a_line_that_names_a_command_is_not_cut() -> None:
    text = "The model is missing. Download it with: fabric models pull quality"
    assert fit_width(text, 20, Terminal()) == text


@pytest.mark.parametrize("command", ["fabric resume 0123", "openssl rand -hex 32", 'pip install "agent-fabric[x]"'])
def test_a_command_is_neither_cut_nor_broken_into_lines(command: str) -> None:
    text = f"{'There is a long reason. ' * 6}Run: {command}"
    assert fit_width(text, 60, Terminal()) == text
    assert laid_out(text, Terminal(), indent="  ") == text


@pytest.mark.parametrize("columns", [40, 80, 120])
def test_a_long_line_is_laid_out_as_wide_as_the_terminal(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    lines = laid_out(f"\x1b[33mnote:\x1b[0m {REFUSAL}", Terminal(), indent="    ").splitlines()
    assert lines[0].startswith("\x1b[33mnote:\x1b[0m The push")
    seen = [lines[0].replace("\x1b[33m", "").replace("\x1b[0m", ""), *lines[1:]]
    assert all(columns - 20 < len(line) < columns for line in seen[:-1])
    assert all(line.startswith("    ") for line in lines[1:])
    assert " ".join(" ".join(lines).split()).endswith(REFUSAL)
    assert laid_out(REFUSAL, io.StringIO(), indent="    ") == REFUSAL


def test_words_wider_than_a_line_are_broken_only_where_that_is_wanted() -> None:
    assert fold_lines("a word: " + "x" * 30 + " end", 20, "  ", within_words=False) == [
        "a word:",
        "  " + "x" * 30,
        "  end",
    ]
    assert fold_lines("a word: " + "x" * 30, 20, "| ", within_words=True) == [
        "a word: ",
        "| " + "x" * 18,
        "| " + "x" * 12,
    ]


def test_the_line_that_names_the_run_and_its_box_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setenv("COLUMNS", "80")
    created = next(event for event in all_ends()[0] if isinstance(event.body, RunCreated))
    stream = Terminal()
    assert isinstance(created.body, RunCreated)
    created = created._replace(body=replace(created.body, sandbox="B", workflow=None))
    LiveView(stream).publish(RunId("d36e290e-7d5f-461f-ac8b-f676532571ff"), [created])
    head, box, *_ = stream.getvalue().splitlines()
    assert head.startswith("run d36e290e-7d5f-461f-ac8b-f676532571ff")
    assert box == "     sandbox B: kept in by the kernel, no network"


def shown(stream: io.StringIO, result: ToolErred | ToolReturned, *, verbose: bool = False) -> str:
    created = next(event for event in all_ends()[0] if isinstance(event.body, RunCreated))
    view = LiveView(stream, verbose=verbose)
    called = ToolCalled(tool="shell", args={"command": LONG}, call_id=CallId("c"))
    lane = LaneId("engineering")
    view.publish(RUN, [created, Event(1, 0.0, lane, "step_0", called), Event(2, 0.0, lane, "step_0", result)])
    return stream.getvalue()


def test_the_run_view_cuts_calls_only_at_a_terminal_and_a_refusal_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setenv("COLUMNS", "80")
    refused = ToolErred(tool="shell", error_type="CannotRunOutside", error_message=REFUSAL, call_id=CallId("c"))
    piped, seen = shown(io.StringIO(), refused), shown(Terminal(), refused)
    assert f"shell {LONG}  CannotRunOutside: {REFUSAL}\n" in piped
    assert LONG not in seen
    assert f"CannotRunOutside: {REFUSAL}" in " ".join(seen.split())
    assert max(map(len, seen.splitlines())) < 80


def test_what_a_tool_printed_is_whole_in_a_pipe_and_counted_at_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    printed = ToolReturned(tool="shell", result={"exit_code": 0, "stdout": "x" * 5_000}, call_id=CallId("c"))
    assert "x" * 5_000 in shown(io.StringIO(), printed, verbose=True)
    assert f"{'x' * 4_000}\n[1,000 more characters]\n" in shown(Terminal(), printed, verbose=True)


def test_lists_of_questions_are_whole_in_pipes() -> None:
    assert LONG in card_line(card({"command": LONG}), io.StringIO())
    assert LONG not in card_line(card({"command": LONG}), Terminal())


def test_reasons_are_in_the_words_of_the_system_and_counts_have_a_singular() -> None:
    assert reason_of(ConnectionRefusedError(111, "x")) == "Connection refused"
    assert (count_of(1, "step"), count_of(1200, "entry", "entries")) == ("1 step", "1,200 entries")
