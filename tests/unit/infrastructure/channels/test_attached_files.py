"""Files of people in workspaces, whatever the model has made of these (CH-16)."""

from pathlib import Path

import pytest

from agent_fabric.domain.channels.files import StoredFile
from agent_fabric.domain.errors import RunUndrivable
from agent_fabric.domain.ids import RunId
from agent_fabric.infrastructure.channels.attached_files import AttachedFiles
from memory_storage import MemoryChannels

RUN = RunId("r1")


async def _attached(*files: StoredFile) -> AttachedFiles:
    store = MemoryChannels().files
    await store.put(RUN, files, now=1.0)
    return AttachedFiles(lambda: store)


async def test_files_are_placed_once_however_often_and_then_forgotten(tmp_path: Path) -> None:
    attached = await _attached(StoredFile("inbox/ab-a.txt", b"x"), StoredFile("inbox/cd-b.bin", b"\x00\xff"))
    for _ in range(2):
        await attached.place(RUN, str(tmp_path))
    assert {each.name: each.read_bytes() for each in (tmp_path / "inbox").iterdir()} == {
        "ab-a.txt": b"x",
        "cd-b.bin": b"\x00\xff",
    }
    await attached.forget(RUN)
    assert await attached.open_store().list(RUN) == []


async def test_no_link_leads_a_file_out_of_the_workspace(tmp_path: Path) -> None:
    outside, workspace = tmp_path / "outside", tmp_path / "workspace"
    outside.mkdir()
    workspace.mkdir()
    (workspace / "inbox").symlink_to(outside)
    attached = await _attached(StoredFile("inbox/ab-a.txt", b"x"))
    with pytest.raises(RunUndrivable, match="cannot be put into the workspace"):
        await attached.place(RUN, str(workspace))
    assert list(outside.iterdir()) == []


async def test_a_file_in_the_place_of_the_folder_is_told(tmp_path: Path) -> None:
    (tmp_path / "inbox").write_text("mine")
    attached = await _attached(StoredFile("inbox/ab-a.txt", b"x"))
    with pytest.raises(RunUndrivable) as told:
        await attached.place(RUN, str(tmp_path))
    assert "/new" in told.value.hint
