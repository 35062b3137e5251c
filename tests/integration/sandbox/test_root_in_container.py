"""Boxes of a root who may not mount, or whose file system cannot show its files as another user's: as in containers."""

import json
import os
import shlex
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent_fabric.infrastructure.sandbox import idmapped
from agent_fabric.infrastructure.sandbox.dropping import DEFAULT_UID
from agent_fabric.infrastructure.sandbox.landlock_rules import CLOSED, landlock_version
from integration.sandbox.as_user import CONTAINED_ROOT, run_python
from services import need, need_program

need(sys.platform == "linux" and landlock_version() >= 6, "needs Linux with Landlock of version 6 or later")
need(os.getuid() == 0, "needs root")
need_program("setpriv", package="util-linux")

PROGRAM = Path(__file__).with_name("try_box.py")
RUN_ID = "0c5a9b54-5d1e-4a37-9d2b-0a4a5f1f9a3b"
SOMEBODY = 64_123
NO_OVERLAY = 99


@pytest.fixture
def top() -> Iterator[Path]:
    """Return a folder that every user may pass, unlike pytest's own."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def workspace_in(fabric: Path) -> Path:
    workspace = fabric / "runs" / RUN_ID / "workspace"
    workspace.mkdir(parents=True)
    return workspace


def tried(level: str, workspace: Path, fabric: Path, *, overlay: Path | None = None, may_mount: bool = False) -> Any:
    """Try a box; with `overlay` that folder is on a file system as containers have it, while it is tried."""
    through = [] if may_mount else [*CONTAINED_ROOT]
    if overlay is not None:
        need_program("unshare", package="util-linux")
        for name in ("upper", "work"):
            (overlay.parent / name).mkdir()
        layers = shlex.quote(f"lowerdir={overlay},upperdir={overlay.parent}/upper,workdir={overlay.parent}/work")
        script = f"mount --make-rprivate / && mount -t overlay overlay -o {layers} {shlex.quote(str(overlay))}"
        through = ["unshare", "--mount", "/bin/sh", "-c", f'{script} || exit {NO_OVERLAY}; exec "$@"', "sh", *through]
    done = run_python(PROGRAM, level, str(workspace), str(fabric), uid=0, timeout_s=60, through=through)
    need(done.returncode != NO_OVERLAY, "needs overlayfs")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def owners(folder: Path) -> set[int]:
    return {one.lstat().st_uid for one in (folder, *folder.rglob("*"))}


def assert_worked(answer: Any, uid: int = DEFAULT_UID) -> None:
    assert answer == {"said": [f"{uid}\n{uid}\n", "", "second\nmore\n", ""], "exit_codes": [0, 0]}


@pytest.mark.proves("AF-120")
@pytest.mark.parametrize("on_overlay", [False, True])
def test_without_the_right_to_mount_a_runs_own_workspace_is_given_to_the_user_who_runs_its_commands(
    top: Path, on_overlay: bool
) -> None:
    fabric = top / "place" / ".fabric"
    workspace = workspace_in(fabric)
    (workspace / "old").write_text("root's")
    (fabric / "fabric.db").write_text("root's")
    answer = tried("B", workspace, fabric, overlay=top / "place" if on_overlay else None)
    assert_worked(answer)
    seen = top / "upper" / ".fabric" if on_overlay else fabric
    assert owners(seen / "runs" / RUN_ID / "workspace") == {DEFAULT_UID}
    assert {one.lstat().st_uid for one in (fabric, fabric / "fabric.db", fabric / "runs", workspace.parent)} == {0}
    assert list(Path("/var/tmp").glob(f"fabric-box-{RUN_ID}-*")) == []


@pytest.mark.parametrize("level", ["A", "B"])
def test_with_that_right_it_is_given_where_the_file_system_cannot_show_it_even_in_a_closed_folder(
    tmp_path: Path, level: str
) -> None:
    need_program("bwrap", package="bubblewrap")
    fabric = tmp_path / "place" / ".fabric"
    workspace = workspace_in(fabric)
    fabric.chmod(0o700)
    answer = tried(level, workspace, fabric, overlay=tmp_path / "place", may_mount=True)
    assert_worked(answer)
    assert owners(tmp_path / "upper" / ".fabric" / "runs" / RUN_ID / "workspace") == {DEFAULT_UID}


def test_the_level_that_works_there_is_found_by_itself(top: Path) -> None:
    assert tried("auto", top, top) == {"level": "B", "commands": True}


def test_a_process_of_the_box_with_the_number_of_ours_is_not_taken_for_ours() -> None:
    need_program("bwrap", package="bubblewrap")
    first = ["unshare", "--mount", "--pid", "--fork", "--mount-proc"]  # so that we have number 1, as in a container
    done = run_python(PROGRAM, "auto", "", "", uid=0, timeout_s=60, through=first)
    assert json.loads(done.stdout)["level"] == "A", done.stderr


@pytest.mark.proves("AF-120")
def test_a_project_of_roots_is_not_given_away_but_refused_with_a_hint(top: Path) -> None:
    project = top / "project"
    project.mkdir()
    answer = tried("B", project, top / ".fabric")
    assert answer["error"].startswith(idmapped.REFUSED)
    assert answer["hint"] == idmapped.HINT
    assert owners(project) == {0}


def test_a_project_of_a_users_is_worked_in_as_that_user(top: Path) -> None:
    project = top / "project"
    project.mkdir()
    os.chown(project, SOMEBODY, SOMEBODY)
    assert_worked(tried("B", project, top / ".fabric"), SOMEBODY)
    assert owners(project) == {SOMEBODY}


def test_a_fabric_folder_in_a_closed_folder_is_refused_with_a_hint(top: Path) -> None:
    closed = top / "closed"
    workspace = workspace_in(closed / ".fabric")
    closed.chmod(0o700)
    answer = tried("B", workspace, closed / ".fabric")
    assert answer["error"] == f"the workspace {CLOSED}"
    assert "--workspace" in answer["hint"]
