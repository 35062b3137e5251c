"""Lines are cut only on a terminal, and never inside a command to type."""

import io

import pytest

from agent_fabric.domain.events import Event, RunCreated, ToolCalled, ToolErred, ToolReturned
from agent_fabric.domain.ids import CallId, LaneId
from agent_fabric.domain.plural import counted
from agent_fabric.infrastructure.web.connection_failures import reason_of
from agent_fabric.interfaces.cli.approval_card import card_line
from agent_fabric.interfaces.cli.output import fitted, wrapped
from agent_fabric.interfaces.cli.view import LiveView
from unit.infrastructure.runlog.every_kind import RUN, all_ends
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
    assert fitted("word " * 100, 20, io.StringIO()) == ("word " * 100).strip()
    assert fitted("word " * 100, 20, Terminal()) == "word word word word…"


def test_a_line_that_names_a_command_is_not_cut() -> None:
    text = "The model is missing. Download it with: fabric models pull quality"
    assert fitted(text, 20, Terminal()) == text


@pytest.mark.parametrize("command", ["fabric resume 0123", "openssl rand -hex 32", 'pip install "agent-fabric[x]"'])
def test_a_command_is_neither_cut_nor_broken_into_lines(command: str) -> None:
    text = f"{'There is a long reason. ' * 6}Run: {command}"
    assert fitted(text, 60, Terminal()) == text
    assert wrapped(text, 60, Terminal()) == text


def test_wrapped_text_is_whole_and_indented() -> None:
    lines = wrapped(REFUSAL, 60, Terminal(), indent="    ").splitlines()
    assert len(lines) > 3
    assert all(len(line) <= 60 for line in lines)
    assert all(line.startswith("    ") for line in lines[1:])
    assert " ".join(" ".join(lines).split()) == REFUSAL
    assert wrapped(REFUSAL, 60, io.StringIO()) == REFUSAL


def shown(stream: io.StringIO, result: ToolErred | ToolReturned, *, verbose: bool = False) -> str:
    created = next(event for event in all_ends()[0] if isinstance(event.body, RunCreated))
    view = LiveView(stream, verbose=verbose)
    called = ToolCalled(tool="shell", args={"command": LONG}, call_id=CallId("c"))
    lane = LaneId("engineering")
    view.publish(RUN, [created, Event(1, 0.0, lane, "step_0", called), Event(2, 0.0, lane, "step_0", result)])
    return stream.getvalue()


def test_the_run_view_cuts_calls_only_at_a_terminal_and_a_refusal_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    refused = ToolErred(tool="shell", error_type="CannotRunOutside", error_message=REFUSAL, call_id=CallId("c"))
    piped, seen = shown(io.StringIO(), refused), shown(Terminal(), refused)
    assert f"shell {LONG}  CannotRunOutside: {REFUSAL}\n" in piped
    assert LONG not in seen
    assert f"CannotRunOutside: {REFUSAL}" in " ".join(seen.split())
    assert max(map(len, seen.splitlines()[1:])) < 200, "wrapped, behind the call"


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
    assert (counted(1, "step"), counted(1200, "entry", "entries")) == ("1 step", "1,200 entries")
