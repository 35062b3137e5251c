"""The words of commands that a shell offers: out of a table, and those that the commands really take."""

from pathlib import Path

import pytest

from agent_fabric.interfaces.cli.completion import table_of_commands
from agent_fabric.interfaces.cli.completion_table import PATH, offer_words
from agent_fabric.interfaces.cli.completion_values import complete_value


def offered(line: str) -> list[str] | None:
    *words, typed = line.split(" ")
    found = offer_words(words, typed)
    return None if found is None else [name for name, _ in found]


def test_the_table_is_that_of_the_commands() -> None:
    written = Path(PATH).read_text(encoding="utf-8")
    assert written == table_of_commands(), "run `python scripts/completion_table.py`"


def test_subcommands_and_options_are_offered_where_they_belong() -> None:
    assert offered("secrets r") == ["remove", "rotate"]
    assert offered("logs show --js") == ["--jsonl", "--json"]
    assert offered("--server http://127.0.0.1:1 secrets r") == ["remove", "rotate"]
    assert offered("run --workspace logs --network") == ["--network-allowed"]
    assert offered("run --nosuch") == []


def test_an_option_is_offered_once_unless_it_is_repeatable() -> None:
    assert offered("run --verbose -v") == offered("run -v --verb") == []
    assert offered("run --network-allowed --no-network") == []
    assert offered("workflow run w --input a=b --inp") == ["--input", "--inputs"]


@pytest.mark.parametrize(
    "line", ["run --visibility ", "run --visibility=", "run ", "run -- --", "logs nosuch ", "nosuch --", ""]
)
def test_what_is_no_word_of_a_command_is_left_to_others(line: str) -> None:
    assert offered(line) is None


@pytest.mark.parametrize(
    ("shell", "expected"),
    [("fish", "--json\tPrint exactly one JSON value to standard output.\n"), ("bash", "--json\n")],
)
def test_a_shell_is_told_names_and_descriptions(shell: str, expected: str, capsys: pytest.CaptureFixture[str]) -> None:
    line = {"COMP_WORDS": "fabric logs list --js", "COMP_CWORD": "3", "_TYPER_COMPLETE_ARGS": "fabric logs list --js"}
    assert complete_value({"_FABRIC_COMPLETE": f"complete_{shell}", **line}) == 0
    assert capsys.readouterr().out == expected
