"""What commands of a person's own say, once their arguments are filled in."""

import pytest

from agent_fabric.domain.chat.slash_commands import SlashCommand
from agent_fabric.domain.errors import InvalidInputs

pytestmark = pytest.mark.proves("CP-9")


def filled(text: str, said: str, *arguments: str) -> str:
    return SlashCommand(name="x", text=text, file="x.md", arguments=arguments).fill(said)


@pytest.mark.parametrize(
    ("text", "said", "arguments", "result"),
    [
        ("Fix it.", "", (), "Fix it."),
        ("Fix it.", "in src/a.py", (), "Fix it.\n\nin src/a.py"),
        ("Fix $ARGUMENTS now.", "a and b", (), "Fix a and b now."),
        ("From $1 to $2.", "a b c", (), "From a to b."),
        ("From $1 to $2.", "a", (), "From a to ."),
        ("Fix $file because $why.", "a.py it is slow", ("file", "why"), "Fix a.py because it is slow."),
        ("Costs $5 and $HOME.", "", (), "Costs  and $HOME."),
        ("Say $1.", "$2", (), "Say $2."),
    ],
)
def test_arguments_stand_in_their_places(text: str, said: str, arguments: tuple[str, ...], result: str) -> None:
    assert filled(text, said, *arguments) == result


def test_an_argument_that_is_missing_is_named() -> None:
    with pytest.raises(InvalidInputs, match="/x needs WHY") as told:
        filled("Fix $file: $why", "a.py", "file", "why")
    assert told.value.hint == "Say: /x FILE WHY"
