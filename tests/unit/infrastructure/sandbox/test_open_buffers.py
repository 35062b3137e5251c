"""A box whose files an editor has open: the box's rules for paths hold, and the file keeps its line ends."""

import asyncio
import os
from contextlib import suppress
from pathlib import Path

import pytest

from agent_fabric.config.schema.sandbox import SandboxConfig
from agent_fabric.domain.ids import RunId
from agent_fabric.infrastructure.sandbox.levels import make_box
from agent_fabric.infrastructure.sandbox.open_buffers import BufferedBox


class Buffers:
    def __init__(self, **texts: str) -> None:
        self.texts, self.asked = texts, list[str]()

    async def read(self, run_id: RunId, path: str) -> str | None:
        assert run_id == "r"
        self.asked.append(path)
        return self.texts.get(Path(path).name)

    async def write(self, run_id: RunId, path: str, text: str) -> None:
        assert run_id == "r"
        self.texts[Path(path).name] = text


def box(folder: Path, buffers: Buffers) -> BufferedBox:
    return BufferedBox(make_box("C", folder, RunId("r"), SandboxConfig()), buffers, RunId("r"), str(folder))


@pytest.mark.proves("CP-2")
async def test_an_unsaved_text_is_read_with_the_line_ends_and_the_mark_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"\xef\xbb\xbfone\r\ntwo\r\n")
    same = Buffers(a="one\ntwo\n")
    assert await box(tmp_path, same).read_file("a", max_bytes=100) == (b"\xef\xbb\xbfone\r\ntwo\r\n", 13)
    changed = box(tmp_path, Buffers(a="one\nthree\n"))
    assert await changed.read_file("a", max_bytes=100) == (b"\xef\xbb\xbfone\r\nthree\r\n", 15)
    assert await changed.read_file("a", max_bytes=8) == (b"\xef\xbb\xbfone\r\n", 15)


@pytest.mark.proves("CP-2")
async def test_no_path_leads_an_editor_out_of_the_project(tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / "deep" / "er").mkdir(parents=True)
    (project / "deep" / "secret").write_text("mine")
    (tmp_path / "secret").write_text("the owner's")
    (project / "out").symlink_to(tmp_path / "secret")
    (project / "in").symlink_to(project / "deep" / "er")
    buffers = Buffers(secret="the owner's", out="the owner's")
    seen = box(project, buffers)
    for path in ("out", "../secret", str(tmp_path / "secret")):
        with pytest.raises(PermissionError):
            await seen.read_file(path, max_bytes=100)
    with suppress(PermissionError):  # a path that the box may take for one in the project
        assert (await seen.read_file("in/../secret", max_bytes=100))[0] == b"mine"
    assert buffers.asked == []


@pytest.mark.proves("CP-2")
async def test_an_editor_is_not_asked_while_a_command_could_make_a_link_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("disk")
    os.mkfifo(tmp_path / "go")
    buffers = Buffers(a="buffer")
    seen = box(tmp_path, buffers)
    command = asyncio.ensure_future(seen.run_command("echo started > started; cat go", timeout_s=30))
    async with asyncio.timeout(30):
        while not (tmp_path / "started").exists():
            await asyncio.sleep(0.01)
        assert (await seen.read_file("a", max_bytes=100))[0] == b"disk"
        await seen.write_file("a", b"new")
        await asyncio.to_thread((tmp_path / "go").write_text, "on")
        await command
        assert buffers.texts == {"a": "buffer"}
        assert (await seen.read_file("a", max_bytes=100))[0] == b"buffer"
        await seen.write_file("a", b"newer")
    assert buffers.texts == {"a": "newer"}
    assert (tmp_path / "a").read_text() == "newer"
