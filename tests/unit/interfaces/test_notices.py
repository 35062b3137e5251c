"""Progress is a bar that fits into the terminal, or a line now and then in a file; what has happened stays."""

import io

import pytest

from agent_fabric.application.ports.llm import ProgressText
from agent_fabric.client.following import Notice
from agent_fabric.domain.ids import RunId
from agent_fabric.infrastructure.models.ollama.model_wire import PullStep
from agent_fabric.infrastructure.models.ollama.server import PullNotices
from agent_fabric.infrastructure.models.weights.mirrors import Progress
from agent_fabric.interfaces.cli.notices import Notices
from agent_fabric.interfaces.cli.runs.view import LiveView

RUN = RunId("run-0")


class Terminal(io.StringIO):
    """A stream that says that it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("columns", [20, 40, 80, 200])
def test_the_bar_fits_and_the_amount_is_never_cut_off_where_there_is_room(
    columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("TERM", "xterm")
    stream = Terminal()
    with Notices(stream) as notices:
        notices("qwen2.5-coder-1.5b-instruct-q4_k_m from hub: 45 %, 503 of 1117 MB, 3.2 MB/s")
        line = stream.getvalue()
    assert len(line) < columns
    assert line.startswith("[██████████··············]"[: columns - 2])
    if columns >= 80:
        assert "45 %, 503 of 1117 MB, 3.2 MB/s" in line
    assert stream.getvalue().endswith("\r\x1b[2K"), "the bar is taken back at the end"


def test_a_file_gets_plain_lines_and_few_of_them() -> None:
    stream = io.StringIO()
    with Notices(stream) as notices:
        notices("begun: 1 %\x1b[2J")
        notices("going: 2 %")
    assert stream.getvalue() == "begun: 1 % [2J\n"


def test_nothing_is_shown_to_who_asked_for_json() -> None:
    stream = io.StringIO()
    with Notices(stream, shown=False) as notices:
        notices("begun: 1 %")
    assert stream.getvalue() == ""


def test_a_reader_who_has_gone_stops_nothing() -> None:
    class Closed(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError

    with Notices(Closed()) as notices:
        notices("one")
        notices("two")


@pytest.mark.proves("DU-10")
def test_progress_is_overwritten_and_what_has_happened_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    stream = Terminal()
    view = LiveView(stream)
    view.notice(RUN, ProgressText("queued behind 2"))
    view.notice(RUN, ProgressText("queued behind 1"))
    view.notice(RUN, "loading took 12 s, 3 GB")  # its words alone do not make it progress
    view.notice(RUN, "loading took 12 s, 3 GB")
    assert stream.getvalue() == (
        "     queued behind 2\r\x1b[2K     queued behind 1\r\x1b[2K     loading took 12 s, 3 GB\n"
    )


def test_a_notice_says_at_its_source_whether_it_is_progress() -> None:
    told: list[str] = []
    PullNotices("m", told.append).show(PullStep(status="pulling manifest", total=0, completed=0))
    Progress(told.append, about="m", total=10).say("connecting")
    assert [type(text) for text in told] == [ProgressText, ProgressText]
    assert told == ["Pulling m: pulling manifest", "m: connecting"]
    assert not Notice("of an older server").progress
