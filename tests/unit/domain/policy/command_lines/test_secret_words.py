"""A secret in a command line is one piece of text, whatever it holds and however it is quoted."""

import os
import shlex
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_fabric.domain.policy.command_lines.secret_words import variable_names, with_variables
from effort import examples

NAME = "${secret:KEY}"
HOSTILE = [
    "plain",
    "a b",
    "it's",
    '"',
    "$(id)",
    "`id`",
    "${HOME}",
    "\\",
    "\\'",
    "*",
    "two\nlines\n",
    "é",
    "-n",
    "!!",
    "#x",
]


def printed(command: str, value: str) -> str:
    """Run a command with a secret in bash, as a box does, and return what it prints."""
    variables = variable_names(frozenset({"KEY"}))
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-c", with_variables(command, variables)],
        env={"PATH": os.environ["PATH"], variables["KEY"]: value},
        capture_output=True,
        check=True,
        timeout=20,
    )
    return done.stdout.decode()


@pytest.mark.parametrize("value", HOSTILE)
@pytest.mark.parametrize("text", ["{}", "Bearer {}", "{}{}", "it's {}!", "'{}", '"{}"', "a\n{}\\", "$HOME {} `id`"])
def test_an_argument_arrives_as_it_is(text: str, value: str) -> None:
    command = shlex.join(["printf", "%s", text.replace("{}", NAME)])
    assert printed(command, value) == text.replace("{}", value)


@settings(max_examples=examples(60), deadline=None)
@given(
    before=st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=8),
    after=st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=8),
    value=st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=12),
)
def test_any_argument_with_any_secret_arrives_as_it_is(before: str, after: str, value: str) -> None:
    assert printed(shlex.join(["printf", "%s", before + NAME + after]), value) == before + value + after


@pytest.mark.parametrize("value", HOSTILE)
@pytest.mark.parametrize(
    "command",
    [
        "printf %s ${secret:KEY}",
        'printf %s "${secret:KEY}"',
        "printf %s $'${secret:KEY}'",
        "printf %s \"$(printf '%s.' ${secret:KEY})\" | head -c -1 # it's ${secret:KEY}",
        "# it's a comment\nprintf %s ${secret:KEY}",
        "(printf %s '${secret:KEY}')",
        'x="a (" && printf %s "${x:+${secret:KEY}}"',
        "cat <<< ${secret:KEY} | head -c -1",
        "printf %s \\'\\\" >/dev/null; printf %s ${secret:KEY}",
    ],
)
def test_other_ways_of_quoting_are_understood(command: str, value: str) -> None:
    assert printed(command, value) == value


@pytest.mark.parametrize("command", ["cat <<END\n${secret:KEY}\nEND", "echo `echo ${secret:KEY}`"])
def test_where_the_text_could_be_taken_for_something_else_it_is_refused(command: str) -> None:
    with pytest.raises(ValueError, match="as an argument of its own"):
        with_variables(command, {"KEY": "X"})


def test_what_is_not_given_stays_as_it_is() -> None:
    assert (
        with_variables("echo '${secret:OTHER}' \\${secret:KEY}", {"KEY": "X"})
        == "echo '${secret:OTHER}' \\${secret:KEY}"
    )


def test_every_secret_has_a_variable_of_its_own() -> None:
    names = variable_names(frozenset({"a-b", "a.b", "a_b"}))
    assert len(set(names.values())) == 3
    assert all(name.isidentifier() for name in names.values())
