"""Lines are cut only on a terminal, and never inside a command to type."""

import io

from agent_fabric.domain.plural import counted
from agent_fabric.infrastructure.web.connection_failures import reason_of
from agent_fabric.interfaces.cli.output import fitted


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_pipe_gets_the_whole_line_and_a_terminal_as_much_as_fits() -> None:
    assert fitted("word " * 100, 20, io.StringIO()) == ("word " * 100).strip()
    assert fitted("word " * 100, 20, Terminal()) == "word word word word…"


def test_a_line_that_names_a_command_is_not_cut() -> None:
    text = "The model is missing. Download it with: fabric models pull quality"
    assert fitted(text, 20, Terminal()) == text


def test_reasons_are_in_the_words_of_the_system_and_counts_have_a_singular() -> None:
    assert reason_of(ConnectionRefusedError(111, "x")) == "Connection refused"
    assert (counted(1, "step"), counted(1200, "entry", "entries")) == ("1 step", "1,200 entries")
