"""Boxes that root starts: nothing on disk changes its owner, and commands are somebody else."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from agent_fabric.infrastructure.sandbox import idmapped
from agent_fabric.infrastructure.sandbox.dropping import Owner, give
from contract.sandbox_contract import names
from integration.sandbox.boxes import box, said
from services import need, need_program

need_program("bwrap", package="bubblewrap")
need(os.getuid() == 0, "needs root")

RUN_ID = "0c5a9b54-5d1e-4a37-9d2b-0a4a5f1f9a3b"
SOMEBODY = 64_123

TRY = """
import asyncio, sys
from pathlib import Path
from agent_fabric.config.schema.sandbox import SandboxConfig
from agent_fabric.domain.errors import ConfigError
from agent_fabric.infrastructure.sandbox.levels import make_box

async def main():
    box = make_box(sys.argv[1], Path(sys.argv[2]), "test", SandboxConfig())
    try:
        await box.run_command("true", timeout_s=60)
    except ConfigError as error:
        print(error.message)
        print(error.hint)
    finally:
        await box.aclose()

asyncio.run(main())
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a project of root's in a closed folder."""
    project = tmp_path / "closed" / "project"
    (project / "folder").mkdir(parents=True)
    (project / "folder" / "file").write_text("old")
    (project / "folder" / "file").chmod(0o600)
    project.parent.chmod(0o700)
    return project


def owners(folder: Path) -> set[tuple[int, int]]:
    return {(one.lstat().st_uid, one.lstat().st_gid) for one in (folder, *folder.rglob("*"))}


@pytest.mark.proves("AF-120")
async def test_in_a_project_of_roots_another_user_works_as_if_it_were_theirs_and_on_disk_it_stays_roots(
    project: Path,
) -> None:
    async with box(project, uid=SOMEBODY) as sandbox:
        assert await said(sandbox, "id -u; stat -c %u:%g . folder/file") == "64123\n64123:64123\n64123:64123"
        await said(
            sandbox, "echo new > folder/file; mkdir made; echo x > made/file; rm -f nothing; chmod 640 made/file"
        )
        await sandbox.write_file("written/file", b"by a tool")
        await said(sandbox, "echo more >> written/file; mv written/file made/other; rmdir written")
    assert owners(project) == {(0, 0)}
    assert (project / "folder" / "file").read_text() == "new\n"
    assert (project / "made" / "other").read_text() == "by a toolmore\n"


async def test_what_belongs_to_others_in_roots_project_stays_theirs(project: Path) -> None:
    (project / "theirs").write_text("theirs")
    os.chown(project / "theirs", 64_777, 64_777)
    (project / "theirs").chmod(0o600)
    async with box(project) as sandbox:
        outcome = await sandbox.run_command("cat theirs; echo evil > theirs; chown 0:0 theirs", timeout_s=30)
        assert outcome.stdout == b""
        assert outcome.stderr.count(b"Permission denied") == 2
    assert (project / "theirs").read_text() == "theirs"
    assert (project / "theirs").stat().st_uid == 64_777


async def test_in_a_project_of_a_users_root_runs_commands_as_that_user(project: Path) -> None:
    for path in (project, *project.rglob("*")):
        os.chown(path, SOMEBODY, SOMEBODY)
    (project / "of-root").write_text("root's")
    (project / "of-root").chmod(0o600)
    async with box(project) as sandbox:
        assert await said(sandbox, "id -u; echo new > made; cat folder/file") == "64123\nold"
        assert (await sandbox.run_command("cat of-root", timeout_s=30)).exit_code == 1
        await sandbox.write_file("written", b"")
    assert (project / "made").stat().st_uid == SOMEBODY
    assert (project / "written").stat().st_uid == SOMEBODY
    assert (project / "of-root").stat().st_uid == 0


async def test_a_workspace_that_was_given_to_a_user_meanwhile_gets_a_new_box(tmp_path: Path) -> None:
    fabric = tmp_path / ".fabric"
    workspace = fabric / "runs" / RUN_ID / "workspace"
    workspace.mkdir(parents=True)
    async with box(workspace, hidden=fabric) as sandbox:
        await said(sandbox, "echo first > file")
        give(workspace, Owner(SOMEBODY, SOMEBODY), fabric=fabric)
        await sandbox.write_file("written", b"")
        assert await said(sandbox, "id -u; echo second >> file; echo x >> written; cat file") == "64123\nfirst\nsecond"
    assert owners(workspace) == {(SOMEBODY, SOMEBODY)}


async def test_nobody_else_sees_what_is_mounted_for_a_box(project: Path) -> None:
    before = Path("/proc/self/mountinfo").read_text()
    async with box(project) as sandbox:
        await said(sandbox, "true")
        assert Path("/proc/self/mountinfo").read_text() == before


def test_where_the_file_system_cannot_do_it_that_is_said() -> None:
    # Nothing is mounted nor changed: the kernel refuses, in a view of the files that ends with the program.
    command = [sys.executable, "-I", "-S", idmapped.PROGRAM, str(SOMEBODY), str(SOMEBODY), "/proc/tty", "/bin/true"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith(idmapped.REFUSED)


@pytest.mark.parametrize("level", ["A", "B"])
def test_a_project_of_roots_on_such_a_file_system_is_refused_with_a_hint(tmp_path: Path, level: str) -> None:
    for name in ("lower", "upper", "work", "place"):
        (tmp_path / name).mkdir()
    layers = f"lowerdir={tmp_path}/lower,upperdir={tmp_path}/upper,workdir={tmp_path}/work"
    script = f"""
    mount --make-rprivate / && mount -t overlay overlay -o {layers} {tmp_path}/place || exit 99
    mkdir {tmp_path}/place/project && exec {sys.executable} -c "$1" {level} {tmp_path}/place/project
    """
    done = subprocess.run(
        ["unshare", "--mount", "/bin/sh", "-c", script, "sh", TRY],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    need(done.returncode != 99, "needs overlayfs")
    assert done.returncode == 0, done.stderr
    message, hint = done.stdout.splitlines()
    assert idmapped.REFUSED in message
    assert hint == idmapped.HINT


def test_a_program_sees_a_folder_mapped_at_its_own_place(project: Path) -> None:
    command = [sys.executable, "-I", "-S", idmapped.PROGRAM, str(SOMEBODY), "64124", str(project)]
    shown = subprocess.run([*command, "/usr/bin/stat", "-c", "%u:%g", str(project)], capture_output=True, check=True)
    assert shown.stdout == b"64123:64124\n"


def test_a_runs_own_workspace_can_be_given_away_and_no_link_in_it_is_followed(tmp_path: Path) -> None:
    fabric = tmp_path / ".fabric"
    workspace = fabric / "runs" / RUN_ID / "workspace"
    (workspace / "folder").mkdir(parents=True)
    (workspace / "folder" / "file").write_text("")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "file").write_text("")
    (workspace / "link").symlink_to(tmp_path / "outside")
    (workspace / "name").hardlink_to(tmp_path / "outside" / "file")
    give(workspace, Owner(SOMEBODY, SOMEBODY), fabric=fabric)
    assert owners(workspace / "folder") == {(SOMEBODY, SOMEBODY)}
    assert workspace.stat().st_uid == SOMEBODY
    assert owners(tmp_path / "outside") == {(0, 0)}
    assert workspace.parent.stat().st_uid == 0
    assert names(workspace) == ["folder", "link", "name"]
