"""Whatever a value holds, it stays one argument."""

import shlex
import time
from contextlib import suppress

import pytest

from agent_fabric.domain.workflows.command_line import MAX_COMMAND_CHARS, command_text, shell_line, split_command
from agent_fabric.domain.workflows.scope import ExpressionError

HOSTILE = [
    "a b",
    "'; rm -rf x; '",
    '"',
    "$(id)",
    "`id`",
    "a\nb",
    "--flag",
    "",
    "{{ x }}",
    "\\",
    "*",
    "~",
    "&& x",
    "é\u202e",
]


@pytest.mark.proves("A33-045")
@pytest.mark.parametrize("value", HOSTILE)
def test_a_value_is_always_one_argument(value: str) -> None:
    scope = {"inputs": {"v": value}}
    assert shlex.split(command_text("echo {{ inputs.v }} end", scope)) == ["echo", value, "end"]
    assert shlex.split(command_text("echo 'x {{ inputs.v }}' end", scope)) == ["echo", f"x {value}", "end"]
    assert shlex.split(command_text("--name={{inputs.v}}", scope)) == [f"--name={value}"]
    assert shlex.split(command_text(["echo", "{{ inputs.v }}", "a b"], scope)) == ["echo", value, "a b"]


def test_a_list_alone_becomes_several_arguments_and_within_text_one() -> None:
    scope = {"files": ["a b", "c"], "empty": []}
    assert shlex.split(command_text("rm {{ files }} {{ empty }}", scope)) == ["rm", "a b", "c"]
    assert shlex.split(command_text("rm x{{ files }}", scope)) == ["rm", 'x["a b", "c"]']


def test_values_that_are_no_text_are_written_as_people_expect() -> None:
    assert command_text(
        ["{{ a }}", "{{ b }}", "{{ c }}", "{{ d }}"], {"a": 3, "b": True, "c": None, "d": {"k": 1}}
    ) == ("3 true '' '{\"k\": 1}'")


def test_quotes_and_spaces_inside_the_braces_do_not_split_the_command() -> None:
    assert command_text("echo {{ a | default('x }} y') }}", {}) == "echo 'x }} y'"
    assert command_text('echo "{{ a | default("q") }}"', {}) == "echo q"
    assert command_text("echo {% if a %}yes{% else %}no{% endif %}", {"a": 1}) == "echo yes"


@pytest.mark.parametrize("command", ["echo 'open", "", "   ", "{{ empty }}"])
def test_a_command_that_cannot_be_split_or_is_empty_is_an_error_in_words(command: str) -> None:
    with pytest.raises(ExpressionError, match="command"):
        command_text(command, {"empty": []})


def test_folder_and_environment_are_quoted() -> None:
    line = shell_line({"command": "make all", "cwd": "a b; rm x", "env": {"A": "$(id)", "B": 2}})
    assert line == "cd -- 'a b; rm x' && env 'A=$(id)' B=2 make all"


@pytest.mark.parametrize("env", [["A"], {"A B": 1}, {"A=1; rm": 1}, {"": 1}])
def test_an_environment_with_other_names_than_variables_have_is_refused(env: object) -> None:
    with pytest.raises(ExpressionError, match="env"):
        shell_line({"command": "x", "env": env})


@pytest.mark.parametrize("command", ["{{ a }} ls", ["{{ a }}", "ls"], "X=1 {{ a }} ls", "{{ both }}"])
def test_a_value_never_sets_a_variable_where_the_program_is_expected(command: str | list[str]) -> None:
    with pytest.raises(ExpressionError, match="variable"):
        command_text(command, {"a": "LD_PRELOAD=./x.so", "both": ["LD_PRELOAD=./x.so"]})


def test_variables_that_the_workflow_names_and_values_behind_the_program_may_have_an_equals_sign() -> None:
    assert command_text("X={{ a }} make {{ a }}", {"a": "A=1"}) == "X=A=1 make A=1"
    assert command_text("{{ a }} x=1", {"a": "make"}) == "make x=1"


@pytest.mark.parametrize("part", ["{{ a ", '{{ "" ', "{{ ' ", "{% ", "{# ", "{{ 'a' }}", "' '", "\ue0000", "a"])
def test_a_long_command_is_split_in_no_time(part: str) -> None:
    begun = time.process_time()
    with suppress(ValueError):
        split_command((part * 50_000)[:MAX_COMMAND_CHARS])
    assert time.process_time() - begun < 3


def test_a_command_that_is_too_long_is_refused() -> None:
    with pytest.raises(ExpressionError, match="50,000 characters"):
        command_text("a" * (MAX_COMMAND_CHARS + 1), {})
