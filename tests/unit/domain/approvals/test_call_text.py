"""A call is shown from its first character to its last."""

import json

import pytest

from agent_fabric.domain.approvals.call_text import (
    MAX_LINE_CHARS,
    MAX_LINES,
    NO_ARGUMENTS,
    call_text,
    is_long,
    size_words,
)
from long_calls import PLACES, script


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("lines", [1, 2, 30, 31, 403, 100_000])
def test_a_command_is_shown_as_it_is_and_other_texts_line_by_line(lines: int, place: str) -> None:
    text = script(lines, place)
    assert call_text({"command": text}) == text
    shown = call_text({"path": "deploy.sh", "content": text})
    if lines > 1:
        assert shown == 'path: "deploy.sh"\ncontent: |\n' + "\n".join(f"  {line}" for line in text.split("\n"))
    else:
        assert shown == f'path: "deploy.sh"\ncontent: {json.dumps(text)}'
    assert is_long(text) == (lines > MAX_LINES)
    nested = call_text({"node": "web", "arguments": {"command": text}})
    assert all(line.strip() in nested for line in text.split("\n")[-3:])


def test_no_argument_passes_for_another_one() -> None:
    assert call_text({"a": 'x\nb: "safe"', "b": "rm"}) == 'a: |\n  x\n  b: "safe"\nb: "rm"'
    assert call_text({"a\nb": "3", "c": 3}) == '"a\\nb": "3"\nc: 3'
    assert call_text({"command": "ls", "timeout_s": 3}) == 'command: "ls"\ntimeout_s: 3'
    assert call_text({"command": ["ls"]}) == 'command: ["ls"]'
    assert call_text({}) == NO_ARGUMENTS


def test_long_calls_are_counted() -> None:
    assert size_words(script(100_000, "last")) == "100,000 lines"
    assert size_words("x" * 4_711) == "1 line of 4,711 characters"
    assert is_long("x" * (MAX_LINE_CHARS + 1))
    assert not is_long("x" * MAX_LINE_CHARS)
