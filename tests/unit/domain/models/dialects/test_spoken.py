"""What a person hears of an answer while a model writes it."""

import json

import pytest

from agent_fabric.domain.models.dialects.conversation import reply_so_far, speech_listener

REPLY = json.dumps({"name": "reply", "arguments": {"text": 'Größe: "4"\n\tpath C:\\x and 😀 — done'}})


def heard(text: str, size: int) -> list[str]:
    pieces: list[str] = []
    listen = speech_listener(pieces.append)
    for at in range(0, len(text), size):
        listen(text[at : at + size])
    return pieces


@pytest.mark.parametrize("size", [1, 2, 3, 5, 11, 1_000])
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Hello {you}, it is 4.", "Hello {you}, it is 4."),
        ("  \n Hello", "  \n Hello"),
        (REPLY, 'Größe: "4"\n\tpath C:\\x and 😀 — done'),
        (REPLY[:60], reply_so_far(REPLY[:60])),
        ('{"name": "look", "arguments": {"text": "x"}}', ""),
        ("```tool_call\n{}\n```", ""),
        ('{"name": "reply", "arguments": {"text": "a"}} and more', "a"),
        ("", ""),
    ],
)
def test_words_and_replies_are_heard_and_calls_are_not(text: str, said: str, size: int) -> None:
    assert "".join(heard(text, size)) == said


def test_each_letter_of_a_long_reply_is_read_once() -> None:
    said = "word " * 20_000
    pieces = heard(json.dumps({"name": "reply", "arguments": {"text": said}}), 7)
    assert "".join(pieces) == said
    assert max(map(len, pieces)) <= 14  # a piece at a time, whatever came before
