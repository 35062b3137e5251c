import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from agent_fabric.bootstrap.runs import diff_run
from agent_fabric.domain.errors import ConfigError, FolderHeld, RunHeld
from agent_fabric.domain.events import Event, RunCancelled
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.unified_diff import file_diff
from agent_fabric.infrastructure.clock import RandomIds
from agent_fabric.infrastructure.runs.changes.recorder import ChangeRecorder
from changes_project import Project
from services import need_program

HERE = Path(__file__).parent


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    project = Project(tmp_path / "project")
    (project.folder / "src").mkdir()
    (project.folder / "src" / "main.py").write_text("print('one')\n")
    (project.folder / "script.sh").write_text("#!/bin/sh\n")
    (project.folder / "data.bin").write_bytes(bytes(range(256)))
    (project.folder / "link").symlink_to("src/main.py")
    (project.folder / "old").mkdir()
    (project.folder / "old" / "deep.txt").write_text("deep\n")
    yield project
    project.records.close()


def shell(project: Project, command: str) -> None:
    subprocess.run(["sh", "-c", command], cwd=project.folder, check=True, timeout=20)


EVERYTHING = """
echo two >> src/main.py
chmod +x script.sh
printf 'x' > data.bin
ln -sfn /etc link
rm -r old && echo file > old
mkdir -p new/deeper && echo new > new/deeper/file && mkdir new/__pycache__ && echo x > new/__pycache__/y
mkfifo pipe
"""


async def test_everything_a_run_changed_is_shown_and_taken_back_shell_edits_included(project: Project) -> None:
    before = project.state()
    async with project.run() as run_id:
        shell(project, EVERYTHING)
    after = project.state()
    assert await project.changed(run_id) == {
        "data.bin": "modified",
        "link": "modified",
        "new": "created",
        "new/deeper": "created",
        "new/deeper/file": "created",
        "old": "replaced",
        "old/deep.txt": "deleted",
        "pipe": "created",
        "script.sh": "mode",
        "src/main.py": "modified",
    }
    undone = await project.undo(run_id)
    assert not undone.refused
    assert project.state() == before
    again = await project.undo(run_id)
    assert not again.done
    assert not again.refused
    redone = await project.undo(run_id, redo=True)
    assert [one.path for one in redone.refused] == ["pipe"]
    del after["pipe"]
    assert project.state() == after
    assert not (await project.undo(run_id)).refused
    assert project.state() == before


async def test_the_diff_of_a_run_is_one_that_git_takes_back(project: Project) -> None:
    git = need_program("git", "git")
    before = project.state()
    async with project.run() as run_id:
        shell(
            project,
            "echo two >> src/main.py; chmod +x script.sh; echo new > 'odd\n name'; rm old/deep.txt; ln -sfn x link",
        )
    look = diff_run(project.records)
    found = await look(run_id)
    text = b"".join(file_diff(change, *look.content(found, change)).text for change in found.changes)
    take_back = partial(subprocess.run, cwd=project.folder, input=text, check=True, timeout=20)
    take_back([git, "apply", "-R"])
    assert project.state() == before


async def test_nothing_is_touched_where_a_person_has_edited_since(project: Project) -> None:
    async with project.run() as run_id:
        shell(project, "echo two >> src/main.py; echo two >> script.sh")
    shell(project, "echo mine >> src/main.py")
    now = project.state()
    undone = await project.undo(run_id)
    assert not undone.done
    assert [(one.path, one.reason) for one in undone.refused] == [("src/main.py", "it was changed after the run")]
    assert project.state() == now
    assert [step.path for step in (await project.undo(run_id, "script.sh")).done] == ["script.sh"]
    forced = await project.undo(run_id, force=True)
    assert [step.path for step in forced.done] == ["src/main.py"]
    assert (project.folder / "src" / "main.py").read_text() == "print('one')\n"
    await project.undo(run_id, redo=True)
    assert (project.folder / "src" / "main.py").read_text() == "print('one')\ntwo\nmine\n"


async def test_what_a_later_run_changed_is_not_taken_back_with_the_earlier_one(project: Project) -> None:
    async with project.run() as first:
        shell(project, "echo two >> src/main.py")
    async with project.run() as second:
        shell(project, "echo three >> src/main.py")
    assert (await project.undo(first)).refused
    assert not (await project.undo(second)).refused
    assert not (await project.undo(first)).refused
    assert (project.folder / "src" / "main.py").read_text() == "print('one')\n"


async def test_what_a_person_does_while_a_run_waits_is_not_the_runs(project: Project) -> None:
    async with project.run(settle=False) as run_id:
        shell(project, "echo two >> src/main.py")
    shell(project, "echo mine > mine; echo mine >> script.sh")
    async with project.run(run_id):
        shell(project, "echo three > three")
    assert await project.changed(run_id) == {"src/main.py": "modified", "three": "created"}
    await project.undo(run_id)
    assert (project.folder / "mine").exists()
    assert "mine" in (project.folder / "script.sh").read_text()


async def test_a_dry_run_says_what_would_happen_and_does_nothing(project: Project) -> None:
    async with project.run() as run_id:
        shell(project, EVERYTHING)
    after = project.state()
    undone = await project.undo(run_id, dry=True)
    assert undone.done
    assert undone.record is None
    assert project.state() == after


async def test_a_path_that_the_run_did_not_change_is_wrong_usage(project: Project) -> None:
    async with project.run() as run_id:
        shell(project, "echo two >> src/main.py")
    for path in ("script.sh", "../x", "src/main.p", "nowhere"):
        with pytest.raises(ConfigError, match="did not change"):
            await project.undo(run_id, path)
    assert [step.path for step in (await project.undo(run_id, "src")).done] == ["src/main.py"]


async def test_names_that_are_no_text_and_names_with_new_lines_come_back(project: Project) -> None:
    odd = [b"new\nline", b"\xff\xfe", b"-rf", b" ", b"\x1b[2J", b"a" * 255, "ü".encode()]
    folder = os.fsencode(project.folder)
    for name in odd:
        Path(os.fsdecode(folder + b"/" + name)).write_bytes(b"before")
    before = project.state()
    async with project.run() as run_id:
        for name in odd:
            Path(os.fsdecode(folder + b"/" + name)).write_bytes(b"after")
        Path(os.fsdecode(folder + b"/created\xff")).mkdir()
    undone = await project.undo(run_id)
    assert len(undone.done) == len(odd) + 1
    assert project.state() == before


async def test_a_link_that_a_run_left_behind_leads_no_undo_out_of_the_folder(project: Project, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "main.py").write_text("outside")
    before = project.state()
    async with project.run() as run_id:
        shell(project, f"mv src gone && ln -s {outside} src && rm -r gone")
    assert await project.changed(run_id) == {"src": "replaced", "src/main.py": "deleted"}
    assert not (await project.undo(run_id)).refused
    assert project.state() == before
    assert (outside / "main.py").read_text() == "outside"


async def test_deep_folders_pipes_and_large_files_are_said_to_be_beyond_undo(project: Project) -> None:
    with (project.folder / "huge").open("wb") as huge:
        huge.truncate(17 * 2**20)
    (project.folder / "node_modules").mkdir()
    os.mkfifo(project.folder / "pipe")
    deep = os.open(project.folder, os.O_RDONLY)
    for _ in range(120):
        os.mkdir("d", dir_fd=deep)
        inner = os.open("d", os.O_RDONLY, dir_fd=deep)
        os.close(deep)
        deep = inner
    os.close(deep)
    async with project.run() as run_id:
        shell(project, "echo x >> huge; rm pipe; echo x > node_modules/x; echo two >> src/main.py")
    assert "huge" in project.said[0]
    assert "node_modules" in project.said[0]
    undone = await project.undo(run_id)
    assert {one.path: one.final for one in undone.refused} == {"huge": True, "pipe": True}
    assert [step.path for step in undone.done] == ["src/main.py"]


async def test_folders_that_are_closed_to_writing_are_opened_for_the_undo_and_closed_again(project: Project) -> None:
    (project.folder / "old").chmod(0o555)
    before = project.state()
    async with project.run() as run_id:
        shell(project, "chmod 700 old; echo two > old/deep.txt; echo n > old/n")
        shell(project, "mkdir new; echo z > new/z; chmod 555 new; echo two > src/main.py; chmod 555 src")
    after = project.state()
    assert not (await project.undo(run_id)).refused
    assert project.state() == before
    assert not (await project.undo(run_id, redo=True)).refused
    assert project.state() == after
    for name in ("new", "src", "old"):
        (project.folder / name).chmod(0o755)


async def test_one_run_at_a_time_works_in_a_folder_or_below_it(project: Project) -> None:
    async with project.run() as run_id:
        for folder in (project.folder, project.folder / "src"):
            other = RandomIds().new_run_id()
            with pytest.raises(FolderHeld, match=run_id):
                await project.runs.create(other, (project.created(other, folder),))
        with pytest.raises(RunHeld):
            await project.undo(run_id)
        shell(project, "echo two >> src/main.py")
    async with project.run() as second:
        with pytest.raises(FolderHeld, match=second):
            await project.undo(run_id, force=True)
    async with project.run():
        pass


async def test_runs_in_neighbouring_folders_do_not_disturb_each_other(project: Project) -> None:
    one, other = RandomIds().new_run_id(), RandomIds().new_run_id()
    held = await project.runs.create(one, (project.created(one, project.folder / "src"),))
    beside = await project.runs.create(other, (project.created(other, project.folder / "old"),))
    await held.release()
    await beside.release()


async def test_a_run_with_a_workspace_of_its_own_is_shown_and_taken_back_too(project: Project) -> None:
    run_id = RandomIds().new_run_id()
    layout = project.records.layout
    workspace = Path(layout.workspace(run_id))
    await layout.prepare(run_id)
    held = await project.runs.create(run_id, (project.created(run_id, workspace),))
    (workspace / "made").write_text("made\n")
    await held.append([Event(1, (workspace / "made").stat().st_ctime + 1, None, "", RunCancelled(by="", reason=""))])
    await held.release()
    assert not layout.changes_of(run_id).exists()
    assert await project.changed(run_id) == {"made": "created"}
    assert not (await project.undo(run_id)).refused
    assert list(workspace.iterdir()) == []
    await project.undo(run_id, redo=True)
    assert (workspace / "made").read_text() == "made\n"


DRIVER = """
import asyncio, os, signal, sys
from pathlib import Path
from changes_project import Project

async def main():
    project = Project(Path(sys.argv[1]))
    async with project.run() as run_id:
        exec(sys.argv[2])
        print(run_id, flush=True)
        signal.pause()

asyncio.run(main())
"""


def killed_run(project: Project, work: str) -> RunId:
    """Let another process hold a run and do some work, then kill it."""
    environment = os.environ | {"PYTHONPATH": str(HERE.parent.parent)}
    driver = subprocess.Popen(
        [sys.executable, "-c", DRIVER, str(project.folder), work], stdout=subprocess.PIPE, env=environment, text=True
    )
    assert driver.stdout is not None
    run_id = RunId(driver.stdout.readline().strip())
    driver.send_signal(signal.SIGKILL)
    driver.wait()
    driver.stdout.close()
    return run_id


WORK = "(project.folder / 'src' / 'main.py').write_text('killed'); (project.folder / 'script.sh').unlink()"


async def test_what_a_killed_run_changed_is_shown_and_taken_back(project: Project) -> None:
    before = project.state()
    run_id = killed_run(project, WORK)
    assert await project.changed(run_id) == {"src/main.py": "modified", "script.sh": "deleted"}
    undone = await project.undo(run_id)  # nobody knows whether a person wrote it after the run was killed
    assert [one.path for one in undone.refused] == ["src/main.py"]
    assert not (await project.undo(run_id, force=True)).refused
    assert project.state() == before


async def test_a_killed_run_that_is_driven_again_knows_what_it_did_before(project: Project) -> None:
    run_id = killed_run(project, WORK)
    async with project.run(run_id):
        shell(project, "echo more > more")
    assert await project.changed(run_id) == {"src/main.py": "modified", "script.sh": "deleted", "more": "created"}


KILLED = 9
UNDOERS = f"""
import asyncio, os, sys, traceback
from pathlib import Path
from changes_project import Project
from agent_fabric.domain.ids import RunId

def undo(run_id, left):
    def kill(event, args):
        nonlocal left
        if event in ("os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.symlink") and str(args[-1]) != "-1":
            left -= 1
            if left < 0:
                os._exit({KILLED})
    project = Project(Path(sys.argv[1]))
    sys.addaudithook(kill)
    asyncio.run(project.undo(RunId(run_id)))

for line in sys.stdin:
    run_id, left = line.split()
    child = os.fork()
    if not child:
        try:
            undo(run_id, int(left))
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""
"""Undoes runs that it is told, each in a fork that is killed before it has changed the folder so many times."""


@pytest.fixture
def undoers(project: Project) -> Iterator["subprocess.Popen[str]"]:
    environment = os.environ | {"PYTHONPATH": str(HERE.parent.parent)}
    words = [sys.executable, "-c", UNDOERS, str(project.folder)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, text=True) as process:
        yield process


@pytest.mark.slow
async def test_an_undo_killed_at_any_moment_is_finished_by_the_next_one(
    project: Project, undoers: "subprocess.Popen[str]"
) -> None:
    assert undoers.stdin is not None
    assert undoers.stdout is not None
    before = project.state()
    killed = 0
    for nth in range(60):
        async with project.run() as run_id:
            shell(project, EVERYTHING.replace("mkfifo pipe", ""))
        after = project.state()
        print(run_id, nth, file=undoers.stdin, flush=True)
        ended = int(undoers.stdout.readline())
        assert ended in (0, KILLED)
        killed += ended == KILLED
        undone = await project.undo(run_id)
        assert not undone.refused, nth
        assert project.state() == before, nth
        assert not list(project.folder.rglob("*.part"))
        redone = await project.undo(run_id, redo=True)
        assert not redone.refused, nth
        assert project.state() == after, nth
        await project.undo(run_id)
        if not ended:
            break
    assert killed > 10


async def test_undos_are_recorded_and_half_a_record_is_none(project: Project) -> None:
    async with project.run() as run_id:
        shell(project, "echo two >> src/main.py")
    await project.undo(run_id)
    path = project.records.layout.changes_of(run_id) / "undos.jsonl"
    begun, done = map(json.loads, path.read_text().splitlines())
    assert (begun["state"], begun["by"], done["state"]) == ("begun", "a test", "done")
    with path.open("a") as file:
        file.write('{"number": 2, "state": "begun"')
    await project.undo(run_id, redo=True)
    assert [one.number for one in (await diff_run(project.records)(run_id)).undos] == [1, 2]


async def test_a_second_run_reads_nothing_again_and_keeps_nothing_twice(project: Project) -> None:
    long_ago = 1_700_000_000
    for path in project.folder.rglob("*"):
        if path.is_file() and ".fabric" not in path.parts:
            os.utime(path, (long_ago, long_ago))
    async with project.run():
        pass
    objects = ChangeRecorder(project.records.layout).objects
    kept = objects.digests()
    async with project.run():
        pass
    assert objects.digests() == kept
    assert objects.forget_all_but(kept) == 0
    assert objects.forget_all_but([]) > 0


async def test_a_run_cannot_keep_what_it_did_from_undo_by_closing_files_or_the_folder_itself(project: Project) -> None:
    (project.folder / "mine").write_text("mine\n")
    project.folder.chmod(0o750)
    before = project.state()
    async with project.run() as run_id:
        (project.folder / "mine").write_text("theirs\n")
        (project.folder / "mine").chmod(0)
        (project.folder / "new").write_text("new\n")
        (project.folder / "new").chmod(0)
        project.folder.chmod(0o311)
    assert stat.S_IMODE(project.folder.stat().st_mode) == 0o750
    assert await project.changed(run_id) == {"mine": "modified", "new": "created"}
    assert (await project.undo(run_id)).refused == []
    assert project.state() == before


@pytest.mark.parametrize(
    ("command", "what"),
    [
        ("rm -rf .git", "removed"),
        ("rm -rf .git && git init -q", "replaced"),
        ("mv .git x && rm -rf x", "removed"),
        ("rm -rf node_modules", "removed"),
        ("rm -rf sub", "removed"),
    ],
)
async def test_undo_says_what_it_cannot_restore(project: Project, command: str, what: str) -> None:
    need_program("git", "git")
    shell(project, "git init -q && mkdir -p node_modules/x sub && cd sub && git init -q")
    async with project.run() as run_id:
        shell(project, command)
    undone = await project.undo(run_id)
    assert [one.final for one in undone.refused] == [True]
    assert f"the run {what} it" in undone.refused[0].reason
    again = await project.undo(run_id)
    assert [one.path for one in again.refused] == [one.path for one in undone.refused]


async def test_work_in_a_folder_that_is_not_watched_is_no_loss(project: Project) -> None:
    need_program("git", "git")
    shell(project, "git init -q")
    async with project.run() as run_id:
        shell(project, "mkdir .venv && git -c user.name=a -c user.email=a@b commit -qm x --allow-empty && rm -r old")
    undone = await project.undo(run_id)
    assert not undone.refused
    assert (project.folder / ".venv").is_dir()
    assert (project.folder / "old" / "deep.txt").exists()
