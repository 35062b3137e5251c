"""The line editor of `fabric chat`, with keys from a pipe."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.input.base import PipeInput
from prompt_toolkit.output import DummyOutput

from agent_fabric.interfaces.cli.chat.chat_loop import can_edit
from agent_fabric.interfaces.cli.chat.line_editor import LineEditor, Words, offered_files

pytestmark = pytest.mark.proves("CP-11")

Editor = Callable[..., LineEditor]


@pytest.fixture
def keys() -> Iterator[PipeInput]:
    with create_pipe_input() as made:
        yield made


@pytest.fixture
def editor(keys: PipeInput, tmp_path: Path) -> Editor:
    def make(*, vi: bool = False, interrupted: Callable[[], None] = lambda: None) -> LineEditor:
        return LineEditor(
            history=["look at the disks", "and now?"],
            commands=[("diff", "show"), ("undo", "take back")],
            folder=tmp_path,
            status=lambda: "quality · 12 tokens",
            interrupted=interrupted,
            vi=vi,
            terminal=(keys, DummyOutput()),
        )

    return make


async def no_news() -> bool:
    return False


async def read(editor: LineEditor) -> str | None:
    async with asyncio.timeout(20):
        return await editor.read("> ", no_news, 5.0)


async def test_enter_sends_and_alt_enter_begins_a_new_line(keys: PipeInput, editor: Editor) -> None:
    keys.send_text("one\x1b\rtwo\r")
    assert await read(editor()) == "one\ntwo"


async def test_pasted_lines_belong_together(keys: PipeInput, editor: Editor) -> None:
    keys.send_text("\x1b[200~one\n\ntwo\x1b[201~\r")
    assert await read(editor()) == "one\n\ntwo"


async def test_what_was_said_before_is_found_again(keys: PipeInput, editor: Editor) -> None:
    made = editor()
    keys.send_text("\x12disks\r\r")  # Ctrl-R
    assert await read(made) == "look at the disks"
    keys.send_text("new\r")
    await read(made)
    keys.send_text("\x1b[A\x1b[A\x1b[A\r")
    assert await read(made) == "and now?"


async def test_ctrl_c_empties_a_line_and_tells_at_an_empty_one_and_ctrl_d_ends(keys: PipeInput, editor: Editor) -> None:
    told: list[str] = []
    keys.send_text("half\x03\x04")
    assert await read(editor(interrupted=lambda: told.append("pressed"))) is None
    assert told == []
    keys.send_text("\x03\x04")
    assert await read(editor(interrupted=lambda: told.append("pressed"))) is None
    assert told == ["pressed"]


async def test_keys_of_vi(keys: PipeInput, editor: Editor) -> None:
    keys.send_text("one two\x1bbdwA!\r")
    assert await read(editor(vi=True)) == "one !"


async def test_others_are_shown_while_a_line_is_typed(keys: PipeInput, editor: Editor) -> None:
    looks: list[int] = []

    async def look() -> bool:
        looks.append(len(looks))
        if len(looks) == 2:
            keys.send_text("done\r")
        return False

    async with asyncio.timeout(20):
        assert await editor().read("> ", look, 0.01) == "done"
    assert len(looks) >= 2


def offered(text: str, folder: Path | None) -> list[str]:
    words = Words([("diff", "show"), ("undo", "take back")], folder)
    return [each.text for each in words.get_completions(Document(text), CompleteEvent())]


def test_commands_and_files_are_offered(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / ".git").mkdir()
    for path in ("src/dates.py", "README.md", ".git/config", "dates.txt"):
        (tmp_path / path).write_text("")
    assert offered("/d", tmp_path) == ["/diff"]
    assert offered("/diff x", tmp_path) == []
    assert offered("look at @da", tmp_path) == ["dates.txt", "src/dates.py"]
    assert offered("@src/", tmp_path) == ["src/dates.py"]
    assert offered("mail@da", tmp_path) == []
    assert offered("@da", None) == []
    assert offered_files(tmp_path, "conf") == []


def test_pipes_and_dumb_terminals_have_no_editor() -> None:
    assert not can_edit({"TERM": "dumb"})
    assert not can_edit({})
