"""The real engine at work in a project folder; only what the model says is scripted."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from agent_fabric.application.runs.execute_task import ExecuteTask
from agent_fabric.application.runs.new_task import task_from
from agent_fabric.bootstrap.local import LocalFabric
from agent_fabric.bootstrap.runs import collect_garbage, diff_run, undo_run
from agent_fabric.config.loader import read_config
from agent_fabric.domain.errors import FolderHeld
from agent_fabric.domain.runs.task import RunStatus
from agent_fabric.infrastructure.runs.changes.recorder import ChangeRecorder
from agent_fabric.infrastructure.runs.changes.watched_runs import WatchedRuns
from agent_fabric.testing.scripted_model import Call, Finish, Script, ScriptedModel
from changes_project import Project
from e2e.fabric_process import local_fabric, settings

EDIT = Call("edit_file", {"path": "main.py", "old_text": "one", "new_text": "two"})
SHELL = Call("shell", {"command": "echo made > made.txt"})
WRITE = Call("write_file", {"path": "made.txt", "content": "made"})
CHECK = Call("shell", {"command": "python3 main.py"})


def watching(fabric: LocalFabric) -> ExecuteTask:
    """Return the use case with project folders watched, however the rest is joined."""
    execute = fabric.execute_task
    if isinstance(execute.runs, WatchedRuns):
        return execute
    layout = fabric.records.layout
    return replace(execute, runs=WatchedRuns(execute.runs, layout))


@pytest.mark.parametrize(("level", "work"), [("auto", (EDIT, SHELL, CHECK)), ("C", (EDIT, WRITE))])
async def test_a_task_is_done_in_the_project_folder_and_taken_back(
    tmp_path: Path, level: str, work: tuple[Call, ...]
) -> None:
    (tmp_path / "main.py").write_text("print('one')\n")
    async with ScriptedModel(Script(turns=(*work, Finish(summary="done")))) as model:
        configured = settings(model.base_url, sandbox={"level": level})
        async with local_fabric(tmp_path, configured) as fabric:
            if SHELL in work and fabric.execute_task.sandbox_level == "C":
                pytest.skip("there is no box here, so commands ask")
            task = replace(
                task_from(read_config({}, overrides=configured).config, "do it", pack="engineering"),
                workspace=str(tmp_path),
            )
            result = await watching(fabric)(task)
            assert result.status is RunStatus.COMPLETED, result.error
            assert result.workspace == str(tmp_path)
            assert (tmp_path / "main.py").read_text() == "print('two')\n"
            run_dir = Path(fabric.records.layout.run_dir(result.run_id))
            assert not (run_dir / "workspace").exists()
            found = await diff_run(fabric.records)(result.run_id)
            assert {change.path: change.what for change in found.changes} == {
                "main.py": "modified",
                "made.txt": "created",
            }
            assert not found.seen_now
            undone = await undo_run(fabric.records)(result.run_id, by="a test")
            assert not undone.refused
            assert (tmp_path / "main.py").read_text() == "print('one')\n"
            assert not (tmp_path / "made.txt").exists()


async def test_a_task_for_a_folder_that_is_taken_makes_no_run(tmp_path: Path) -> None:
    project = Project(tmp_path)
    async with ScriptedModel(Script(turns=(Finish(summary="done"),))) as model:
        configured = settings(model.base_url)
        async with local_fabric(tmp_path, configured) as fabric, project.run() as other:
            task = replace(
                task_from(read_config({}, overrides=configured).config, "do it", pack="engineering"),
                workspace=str(tmp_path),
            )
            with pytest.raises(FolderHeld, match=other):
                await watching(fabric)(task)
            assert [one.name for one in (tmp_path / ".fabric" / "runs").iterdir()] == [other]
    project.records.close()


async def test_a_task_for_a_folder_whose_run_has_just_ended_waits_until_it_lets_go(tmp_path: Path) -> None:
    async with ScriptedModel(Script(turns=(WRITE, Finish(summary="done")))) as model:
        configured = settings(model.base_url)
        async with local_fabric(tmp_path, configured) as fabric:
            task = replace(
                task_from(read_config({}, overrides=configured).config, "do it", pack="engineering"),
                workspace=str(tmp_path),
            )
            first = await watching(fabric)(task)
            locks = ChangeRecorder(fabric.records.layout).locks
            hold = locks.hold(tmp_path, f"Run {first.run_id}")
            asyncio.get_running_loop().call_later(0.3, hold.release)
            second = await watching(fabric)(task)
            assert second.status is RunStatus.COMPLETED, second.error


async def test_contents_that_no_run_needs_are_forgotten_but_not_while_one_works(tmp_path: Path) -> None:
    project = Project(tmp_path / "project")
    (project.folder / "main.py").write_text("one\n")
    recorder = ChangeRecorder(project.records.layout)
    async with project.run() as run_id:
        (project.folder / "main.py").write_text("two\n")
        with pytest.raises(FolderHeld, match=run_id):
            recorder.forget_unused()
    unused = recorder.objects.digest_of(b"unused")
    recorder.objects.put(b"unused", unused)
    assert recorder.forget_unused() == len(b"unused")
    assert recorder.objects.get(unused) is None
    await project.undo(run_id)
    assert recorder.forget_unused() == 0
    await project.undo(run_id, redo=True)
    assert (project.folder / "main.py").read_text() == "two\n"
    project.records.close()


async def test_garbage_collection_removes_what_only_deleted_runs_could_undo(tmp_path: Path) -> None:
    project = Project(tmp_path / "project")
    (project.folder / "main.py").write_text("one\n")
    async with project.run():
        (project.folder / "main.py").write_text("two\n")
    async with project.run():
        pass
    objects = ChangeRecorder(project.records.layout).objects
    old = objects.digest_of(b"one\n")
    collect = collect_garbage(project.records)
    await collect(older_than_s=3600, by="ada")
    assert objects.get(old) == b"one\n", "a run that stays can be undone"
    async with project.run() as working:
        await collect(older_than_s=-3600, by="ada")
        assert objects.get(old) == b"one\n", "nothing is removed while a run works"
    done = await collect(older_than_s=-3600, by="ada")
    assert done.runs == [working]
    assert done.freed_bytes > 0
    assert ChangeRecorder(project.records.layout).objects.get(old) is None
    project.records.close()
