"""Files that a run wrote after it had read untrusted text expose the runs that read them."""

import shutil
from pathlib import Path

import pytest

from agent_fabric.domain.errors import StoreUnavailable
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.policy.labels import DESCRIPTIONS, Flow
from agent_fabric.domain.runs.changes import FolderSnapshot
from agent_fabric.infrastructure.runs.changes.exposed_files import ExposedFiles
from agent_fabric.infrastructure.runs.changes.folder_snapshots import SnapshotTaker

WRITER, READER, ROOT = RunId("writer"), RunId("reader"), RunId("root")


def snapshot(folder: Path) -> FolderSnapshot:
    return SnapshotTaker(None, FolderSnapshot())(folder)


def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / "docs").mkdir(parents=True)
    (folder / "docs" / "old.md").write_text("mine")
    (folder / "main.py").write_text("print(1)")
    return folder


def test_a_file_that_was_written_exposes_and_others_do_not(tmp_path: Path) -> None:
    folder, notes = project(tmp_path), ExposedFiles(tmp_path / "exposed")
    before = snapshot(folder)
    notes.may_write(str(folder), WRITER, WRITER)
    (folder / "docs" / "new.md").write_text("do what this says")
    notes.wrote(str(folder), WRITER, before, snapshot(folder))

    again = ExposedFiles(tmp_path / "exposed")
    for path in ("docs/new.md", "./docs//new.md", "docs", ".", ""):
        assert "docs/new.md, which run writer wrote" in again.exposing(str(folder), (path,), reader=READER)
    assert not again.exposing(str(folder), ("main.py", "docs/old.md", "doc"), reader=READER)
    assert not again.exposing(str(folder), (".",), reader=WRITER)
    (folder / "docs" / "new.md").unlink()
    assert not again.exposing(str(folder), (".",), reader=READER)


def test_until_a_killed_run_has_been_resumed_every_file_counts(tmp_path: Path) -> None:
    folder, notes = project(tmp_path), ExposedFiles(tmp_path / "exposed")
    notes.may_write(str(folder), WRITER, WRITER)
    assert "may have written" in ExposedFiles(tmp_path / "exposed").exposing(str(folder), ("main.py",), reader=READER)
    assert not notes.exposing(str(tmp_path), (".",), reader=READER)


def test_what_a_step_wrote_is_noted_with_its_workflow(tmp_path: Path) -> None:
    folder, notes = project(tmp_path), ExposedFiles(tmp_path / "exposed")
    before = snapshot(folder)
    notes.may_write(str(folder), WRITER, ROOT)
    (folder / "main.py").write_text("changed")
    notes.wrote(str(folder), ROOT, before, snapshot(folder))
    assert "main.py, which run root wrote" in notes.exposing(str(folder), (".",), reader=READER)


def test_an_undo_takes_the_label_back_and_a_change_by_somebody_else_does_not(tmp_path: Path) -> None:
    folder, notes = project(tmp_path), ExposedFiles(tmp_path / "exposed")
    before = snapshot(folder)
    for run_id, text in ((WRITER, "hostile"), (RunId("second"), "hostile, and more")):
        start = snapshot(folder)
        notes.may_write(str(folder), run_id, run_id)
        (folder / "main.py").write_text(text)
        notes.wrote(str(folder), run_id, start, snapshot(folder))
    (folder / "main.py").write_text("hostile, edited by a person")
    assert notes.exposing(str(folder), ("main.py",), reader=READER)
    (folder / "main.py").write_text("hostile")
    assert notes.exposing(str(folder), ("main.py",), reader=READER)
    (folder / "main.py").write_text("print(1)")
    assert snapshot(folder).entries["main.py"].digest == before.entries["main.py"].digest
    assert not notes.exposing(str(folder), ("main.py",), reader=READER)


def test_a_run_that_was_not_exposed_leaves_no_note(tmp_path: Path) -> None:
    folder, notes = project(tmp_path), ExposedFiles(tmp_path / "exposed")
    before = snapshot(folder)
    (folder / "main.py").write_text("changed")
    notes.wrote(str(folder), WRITER, before, snapshot(folder))
    assert not (tmp_path / "exposed").exists()


def test_a_person_can_vouch_for_files(tmp_path: Path) -> None:
    folder, notes = project(tmp_path), ExposedFiles(tmp_path / "exposed")
    before = snapshot(folder)
    notes.may_write(str(folder), WRITER, WRITER)
    for name in ("a.md", "b.md"):
        (folder / name).write_text("text")
    notes.wrote(str(folder), WRITER, before, snapshot(folder))
    assert notes.vouch(str(folder), ("a.md",)) == ["a.md"]
    assert not notes.exposing(str(folder), ("a.md",), reader=READER)
    assert notes.exposing(str(folder), ("b.md",), reader=READER)
    notes.may_write(str(folder), RunId("killed"), RunId("killed"))
    assert notes.vouch(str(folder), (".",)) == ["b.md"]
    assert not notes.exposing(str(folder), (".",), reader=READER)


def test_a_line_that_a_crash_has_cut_keeps_the_run_open(tmp_path: Path) -> None:
    folder, notes = project(tmp_path), ExposedFiles(tmp_path / "exposed")
    notes.may_write(str(folder), WRITER, WRITER)
    (file,) = (tmp_path / "exposed").iterdir()
    with file.open("a") as opened:
        opened.write('{"run":"writer","files":{"a')
    assert "may have written" in ExposedFiles(tmp_path / "exposed").exposing(str(folder), (".",), reader=READER)


def test_the_name_of_a_file_does_not_make_it_look_like_another_source(tmp_path: Path) -> None:
    folder, notes = project(tmp_path), ExposedFiles(tmp_path / "exposed")
    before = snapshot(folder)
    notes.may_write(str(folder), WRITER, WRITER)
    name = f"{DESCRIPTIONS}x.md"
    (folder / name).write_text("do what this says")
    notes.wrote(str(folder), WRITER, before, snapshot(folder))
    source = notes.exposing(str(folder), (name,), reader=READER)
    assert Flow(exposed=(source,)).results == [source]


def test_folders_that_are_not_watched_count_as_written(tmp_path: Path) -> None:
    folder, notes = project(tmp_path), ExposedFiles(tmp_path / "exposed")
    (folder / "node_modules").mkdir()
    before = snapshot(folder)
    notes.may_write(str(folder), WRITER, WRITER)
    (folder / "node_modules" / "x.md").write_text("do what this says")
    notes.wrote(str(folder), WRITER, before, snapshot(folder))
    for path in ("node_modules/x.md", "node_modules", "."):
        assert "node_modules" in notes.exposing(str(folder), (path,), reader=READER)
    assert not notes.exposing(str(folder), ("main.py",), reader=READER)


def test_a_note_that_cannot_be_written_is_told_and_the_call_does_not_run(tmp_path: Path) -> None:
    folder = project(tmp_path)
    (tmp_path / "exposed").write_text("a file where the folder should be")
    with pytest.raises(StoreUnavailable, match="cannot be recorded"):
        ExposedFiles(tmp_path / "exposed").may_write(str(folder), WRITER, WRITER)


def test_a_folder_that_has_become_a_file_is_no_error(tmp_path: Path) -> None:
    folder, notes = project(tmp_path), ExposedFiles(tmp_path / "exposed")
    before = snapshot(folder)
    notes.may_write(str(folder), WRITER, WRITER)
    (folder / "docs" / "new.md").write_text("text")
    notes.wrote(str(folder), WRITER, before, snapshot(folder))
    shutil.rmtree(folder / "docs")
    (folder / "docs").write_text("mine")
    assert not notes.exposing(str(folder), ("docs/new.md",), reader=READER)
