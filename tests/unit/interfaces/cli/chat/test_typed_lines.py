"""What a person types or pastes at a terminal, however odd."""

import os
import pty
import sys
from collections.abc import Iterator

import pytest

from agent_fabric.domain.errors import InvalidInputs
from agent_fabric.interfaces.cli.chat.chat_loop import MAX_LINE_BYTES, TypedLines


@pytest.fixture
def keyboard(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """The other end of a terminal that is our standard input."""
    master, slave = pty.openpty()
    with os.fdopen(slave, encoding="utf-8") as stream:
        monkeypatch.setattr(sys, "stdin", stream)
        yield master
    os.close(master)


async def typed(keyboard: int, data: bytes) -> str | None:
    async def nothing() -> bool:
        return False

    lines = TypedLines()
    os.write(keyboard, data)
    return await lines.read("> ", nothing, 5.0)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"hello\n", "hello"),
        (b"\n", ""),
        (b"one\ntwo\n\nthree\n", "one\ntwo\n\nthree"),
        (b"caf\xc3\xa9 \xff\xfe\n", "café \ufffd\ufffd"),
        (b"\x1b[A\x07bell\n", "\x1b[A\x07bell"),
        (b"\x04", None),
    ],
)
async def test_every_line_is_read(keyboard: int, data: bytes, text: str | None) -> None:
    assert await typed(keyboard, data) == text


async def test_a_line_that_the_terminal_has_cut_is_not_sent(keyboard: int) -> None:
    assert await typed(keyboard, b"x" * (MAX_LINE_BYTES - 1) + b"\n") == "x" * (MAX_LINE_BYTES - 1)
    with pytest.raises(InvalidInputs, match="nothing was sent"):
        await typed(keyboard, b"x" * (MAX_LINE_BYTES + 500) + b"\n")
