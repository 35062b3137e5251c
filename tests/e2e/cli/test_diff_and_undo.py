"""`fabric diff` and `fabric undo`, as a person calls them."""

import asyncio
import json
import subprocess
from pathlib import Path

import pytest

from changes_project import Project
from e2e.forked_command import fabric_program, passed_on


@pytest.fixture
def worked(tmp_path: Path) -> tuple[Path, str]:
    """Return a project in which a run has changed things, and the run."""
    project = Project(tmp_path / "project")
    (project.folder / "main.py").write_text("one\n")
    (project.folder / "gone").write_text("gone\n")

    async def work() -> str:
        async with project.run() as run_id:
            (project.folder / "main.py").write_text("one\ntwo\n")
            (project.folder / "gone").unlink()
            (project.folder / "esc\x1b[2J").write_text("new\n")
            (project.folder / "image").write_bytes(b"\0\1")
        return run_id

    run_id = asyncio.run(work())
    project.records.close()
    return project.folder, run_id


def fabric(folder: Path, *arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [*fabric_program(), *arguments],
        cwd=folder,
        env=passed_on(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == code, done.stderr + done.stdout
    return done


def test_a_person_sees_what_a_run_changed(worked: tuple[Path, str]) -> None:
    folder, run_id = worked
    diff = fabric(folder, "diff", run_id[:8]).stdout
    assert "-gone\n" in diff
    assert "+two\n" in diff
    assert "Binary files /dev/null and b/image differ" in diff
    assert "\x1b" not in diff
    names = fabric(folder, "diff", run_id, "--name-only").stdout.splitlines()
    assert names == ['"esc\\033[2J"', "gone", "image", "main.py"]
    assert fabric(folder, "diff", run_id, "--stat").stdout.endswith("4 paths changed, 2 lines added, 1 removed\n")
    value = json.loads(fabric(folder, "diff", run_id, "--json").stdout)
    assert [(one["path"], one["change"]) for one in value["changes"]][1:] == [
        ("gone", "deleted"),
        ("image", "created"),
        ("main.py", "modified"),
    ]
    assert value["changes"][3]["diff"].endswith("@@ -1 +1,2 @@\n one\n+two\n")


def test_a_person_takes_it_back_and_has_it_again(worked: tuple[Path, str]) -> None:
    folder, run_id = worked
    assert "would restore gone" in fabric(folder, "undo", run_id, "--dry-run").stdout
    assert not (folder / "gone").exists()
    assert "removed image" in fabric(folder, "undo", run_id, "image").stdout
    assert "--redo" in fabric(folder, "undo", run_id).stdout
    assert sorted(one.name for one in folder.iterdir()) == [".fabric", "gone", "main.py"]
    assert (folder / "main.py").read_text() == "one\n"
    fabric(folder, "undo", run_id, "--redo")
    assert (folder / "main.py").read_text() == "one\ntwo\n"
    assert "taken back" not in fabric(folder, "diff", run_id).stderr


def test_an_edit_since_is_refused_with_exit_code_1_and_wrong_usage_with_2(worked: tuple[Path, str]) -> None:
    folder, run_id = worked
    (folder / "main.py").write_text("mine\n")
    refused = fabric(folder, "undo", run_id, code=1).stdout
    assert "left alone main.py: it was changed after the run" in refused
    assert "Nothing was touched" in refused
    assert (folder / "main.py").read_text() == "mine\n"
    value = json.loads(fabric(folder, "undo", run_id, "--json", code=1).stdout)
    assert value["refused"] == [{"path": "main.py", "reason": "it was changed after the run", "final": False}]
    assert "did not change" in fabric(folder, "undo", run_id, "other", code=2).stderr
    assert fabric(folder, "undo", "nobody", code=2).stderr
    assert fabric(folder, "diff", run_id, "--stat", "--name-only", code=2).stderr
    fabric(folder, "undo", run_id, str(folder / "gone"))
    fabric(folder, "undo", run_id, "--force")
    assert (folder / "main.py").read_text() == "one\n"


def test_a_terminal_is_not_steered_by_what_a_run_wrote(worked: tuple[Path, str]) -> None:
    folder, run_id = worked
    (folder / "main.py").write_text("one\ntwo\n")
    assert "\x1b" not in fabric(folder, "undo", run_id, "--dry-run").stdout
