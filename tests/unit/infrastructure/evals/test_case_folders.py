"""Folders of cases: what a trial leaves in them cannot reach out, hang or grow without bound."""

import os
import stat
from pathlib import Path

import pytest

from agent_fabric.application.ports.evals import WorkspaceUncheckable
from agent_fabric.domain.evals.definition import CaseFile
from agent_fabric.domain.ids import RunId
from agent_fabric.infrastructure.evals.case_folders import RunCaseFolders
from agent_fabric.infrastructure.runs.log.layout import Layout

RUN = RunId("aaaaaaaa-0000-5000-8000-000000000000")
TEST = {"tests/hidden.py": CaseFile(data=b"hidden")}


@pytest.fixture
def folders(tmp_path: Path) -> RunCaseFolders:
    return RunCaseFolders(Layout(tmp_path / ".fabric"))


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    path = tmp_path / ".fabric" / "runs" / RUN / "workspace"
    path.mkdir(parents=True)
    return path


async def test_files_are_staged_with_their_folders_and_modes(folders: RunCaseFolders) -> None:
    files = {"a/b/c.sh": CaseFile(data=b"x", executable=True), "d": CaseFile(data=b"\x00")}
    staged = Path(await folders.stage(RUN, files))
    assert (staged / "a" / "b" / "c.sh").read_bytes() == b"x"
    assert os.access(staged / "a" / "b" / "c.sh", os.X_OK)
    assert not os.access(staged / "d", os.X_OK)
    await folders.remove(str(staged))
    assert not staged.exists()


async def test_a_copy_has_everything_and_the_workspace_stays(folders: RunCaseFolders, workspace: Path) -> None:
    (workspace / "in").mkdir()
    (workspace / "in" / "a.txt").write_text("a")
    (workspace / "link").symlink_to("in/a.txt")
    (workspace / "run.sh").write_text("x")
    (workspace / "run.sh").chmod(0o755)
    os.mkfifo(workspace / "pipe")
    os.utime(workspace / "in" / "a.txt", (1_000, 1_000))
    copy = Path(await folders.copy_for_check(RUN, str(workspace), TEST))
    assert sorted(path.name for path in copy.iterdir()) == ["in", "link", "run.sh", "tests"]
    assert (copy / "link").is_symlink()
    assert os.access(copy / "run.sh", os.X_OK)
    assert (copy / "in" / "a.txt").stat().st_mtime == 1_000
    assert (copy / "tests" / "hidden.py").read_text() == "hidden"
    assert not (workspace / "tests").exists()


async def test_without_a_workspace_there_are_only_the_files(folders: RunCaseFolders) -> None:
    files = {"in": CaseFile(data=b"given"), "a/b": CaseFile(data=b"x", executable=True)}
    for _ in range(2):  # one that was killed leaves its folder behind
        copy = Path(await folders.copy_for_check(RUN, None, {**files, "in": CaseFile(data=b"of the check")}))
    assert sorted(path.name for path in copy.iterdir()) == ["a", "in"]
    assert (copy / "in").read_text() == "of the check"
    assert os.access(copy / "a" / "b", os.X_OK)


@pytest.mark.parametrize("odd", ["link_out", "link_in", "file", "folder", "dangling", "closed"])
async def test_a_file_of_the_check_takes_its_place_whatever_lies_there(
    folders: RunCaseFolders, workspace: Path, tmp_path: Path, odd: str
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "hidden.py").write_text("mine")
    tests = workspace / "tests"
    match odd:
        case "link_out":
            tests.symlink_to(outside)
        case "link_in":
            tests.mkdir()
            (tests / "hidden.py").symlink_to(outside / "hidden.py")
        case "file":
            tests.write_text("not a folder")
        case "folder":
            (tests / "hidden.py" / "deep").mkdir(parents=True)
        case "dangling":
            tests.symlink_to("nowhere")
        case _:
            tests.mkdir()
            (tests / "hidden.py").write_text("theirs")
            tests.chmod(0o555)
    copy = Path(await folders.copy_for_check(RUN, str(workspace), TEST))
    assert (copy / "tests" / "hidden.py").read_text() == "hidden"
    assert (outside / "hidden.py").read_text() == "mine"


async def test_a_workspace_that_is_too_large_or_too_deep_is_not_copied(workspace: Path, tmp_path: Path) -> None:
    folders = RunCaseFolders(Layout(tmp_path / ".fabric"), max_bytes=10_000)
    with (workspace / "large").open("wb") as file:
        file.truncate(20_000)
    with pytest.raises(WorkspaceUncheckable, match="more than"):
        await folders.copy_for_check(RUN, str(workspace), {})
    (workspace / "large").unlink()
    deep = workspace
    for _ in range(150):
        deep /= "d"
    deep.mkdir(parents=True)
    with pytest.raises(WorkspaceUncheckable, match="deeper"):
        await folders.copy_for_check(RUN, str(workspace), {})
    assert not (workspace.parent / "check").exists()


async def test_modes_of_folders_are_kept_without_setuid(folders: RunCaseFolders, workspace: Path) -> None:
    (workspace / "in").mkdir()
    (workspace / "in" / "a").write_text("a")
    (workspace / "in" / "a").chmod(0o4755)
    (workspace / "in").chmod(0o500)
    copy = Path(await folders.copy_for_check(RUN, str(workspace), {}))
    assert stat.S_IMODE((copy / "in").stat().st_mode) == 0o500
    assert stat.S_IMODE((copy / "in" / "a").stat().st_mode) == 0o755
    await folders.remove(str(copy))
    assert not copy.exists()


async def test_a_check_removes_what_a_killed_process_left_of_the_beginning(tmp_path: Path) -> None:
    folders = RunCaseFolders(Layout(tmp_path / ".fabric"))
    start = Path(await folders.stage(RUN, TEST))
    copy = Path(await folders.copy_for_check(RUN, None, TEST))
    assert (start.exists(), copy.exists()) == (False, True)
