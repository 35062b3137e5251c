"""What a run has changed in its workspace, as its result is held against."""

import time
from dataclasses import replace
from pathlib import Path

import pytest

from agent_fabric.application.runs.compare_workspace import MAX_LISTED, CompareWorkspace
from agent_fabric.domain.evidence.events import WorkspaceCompared
from agent_fabric.infrastructure.clock import RandomIds
from agent_fabric.infrastructure.runs.changes.recorder import ChangeRecorder
from changes_project import Project


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path / "project")


def comparison(project: Project) -> CompareWorkspace:
    layout = project.records.layout
    return CompareWorkspace(ChangeRecorder(layout), layout.workspace)


def at_any_time(found: WorkspaceCompared) -> WorkspaceCompared:
    """Return what was found, without when the files were written."""
    return replace(found, touched_at=0.0)


async def test_a_project_is_compared_with_how_the_run_found_it(project: Project) -> None:
    (project.folder / "calc.py").write_text("def add(a, b):\n    return a - b\n")
    (project.folder / "old.txt").write_text("x")
    (project.folder / "same.txt").write_text("same")
    (project.folder / "tests").mkdir()
    (project.folder / "tests/test_all.py").write_text("from calc import add\n")
    (project.folder / "tests/test_other.py").write_text("import json\n")
    async with project.run() as run_id:
        look = comparison(project)
        assert await look(run_id, str(project.folder)) == WorkspaceCompared()
        (project.folder / "calc.py").write_text("def add(a, b):\n    return a + b\n")
        (project.folder / "old.txt").unlink()
        (project.folder / "same.txt").write_text("same")
        (project.folder / "new").mkdir()
        (project.folder / "new/a.txt").write_text("a")
        found = await look(run_id, str(project.folder))
    assert time.time() - 60 < found.touched_at <= time.time()
    assert at_any_time(found) == WorkspaceCompared(
        created=("new/", "new/a.txt"), modified=("calc.py",), deleted=("old.txt",), tests=("tests/test_all.py",)
    )


async def test_tests_that_check_less_than_before_are_told(project: Project) -> None:
    test = project.folder / "test_calc.py"
    test.write_text("from calc import add\n\n\ndef test_add():\n    assert add(1, 2) == 3\n    assert add(0, 0) == 0\n")
    async with project.run() as run_id:
        look = comparison(project)
        test.write_text(test.read_text().replace("    assert add(1, 2) == 3\n", ""))
        assert (await look(run_id, str(project.folder))).weakened == ("1 check of 2",)
        (project.folder / "test_more.py").write_text(
            "from calc import add\n\n\ndef test_more():\n    assert add(2, 2) == 4\n"
        )
        assert (await look(run_id, str(project.folder))).weakened == ()
        test.unlink()
        assert (await look(run_id, str(project.folder))).weakened == ("1 check of 2",)


async def test_what_earlier_drives_changed_counts_and_what_was_put_back_does_not(project: Project) -> None:
    (project.folder / "a.txt").write_text("a")
    (project.folder / "b.txt").write_text("b")
    async with project.run(settle=False) as run_id:
        (project.folder / "a.txt").write_text("changed")
        (project.folder / "b.txt").write_text("changed")
    (project.folder / "theirs.txt").write_text("made by a person in between")
    async with project.run(run_id):
        (project.folder / "b.txt").write_text("b")
        found = await comparison(project)(run_id, str(project.folder))
    assert found == WorkspaceCompared(modified=("a.txt",))


async def test_a_run_with_a_workspace_of_its_own_has_made_all_that_is_in_it(project: Project) -> None:
    layout = project.records.layout
    async with project.run() as run_id:
        own = Path(layout.workspace(run_id))
        own.mkdir(parents=True)
        (own / "test_it.py").write_text("def test_it(): pass\n")
        (own / "__pycache__").mkdir()
        (own / "__pycache__/x.pyc").write_text("")
    # Its project folder was recorded too, so ask as for a run that had none.
    recorder = ChangeRecorder(layout)
    other = CompareWorkspace(recorder, lambda _: str(own))
    for kept in layout.changes_of(run_id).glob("*.z"):
        kept.unlink()
    assert at_any_time(await other(run_id, str(own))) == WorkspaceCompared(
        created=("test_it.py",),
        tests=("test_it.py",),
        test_functions=1,
        beyond_unittest=("test_it.py",),
        idle_tests=("test_it.py",),
    )


async def test_what_unittest_does_not_find_by_itself_is_told(project: Project) -> None:
    case = "from calc import add\n\n\nclass A(unittest.TestCase):\n    def test_a(self):\n        assert add(1, 2)\n"
    (project.folder / "calc.py").write_text("def add(a, b):\n    return a - b\n")
    for name in ("test_a.py", "pkg/test_b.py", "checks/test_c.py"):
        (project.folder / name).parent.mkdir(exist_ok=True)
        (project.folder / name).write_text(case)
    (project.folder / "pkg/__init__.py").write_text("")
    (project.folder / "test_d.py").write_text("from calc import add\n\n\ndef test_d():\n    assert add(1, 2)\n")
    async with project.run() as run_id:
        (project.folder / "calc.py").write_text("def add(a, b):\n    return a + b\n")
        found = await comparison(project)(run_id, str(project.folder))
    assert found.tests == ("checks/test_c.py", "pkg/test_b.py", "test_a.py", "test_d.py")
    assert found.test_functions == 4
    assert found.beyond_unittest == ("checks/test_c.py", "test_d.py")


async def test_checks_that_run_with_their_file_are_told_from_tests_unless_the_run_wrote_them(project: Project) -> None:
    (project.folder / "calc.py").write_text("def add(a, b):\n    return a - b\n")
    script = "from calc import add\n\nassert add(2, 3) == 5\nprint('ok')\n"
    (project.folder / "test_calc.py").write_text(script)
    (project.folder / "test_empty.py").write_text("from calc import add\n")
    async with project.run() as run_id:
        (project.folder / "calc.py").write_text("def add(a, b):\n    return a + b\n")
        (project.folder / "test_own.py").write_text(script)
        found = await comparison(project)(run_id, str(project.folder))
    assert found.check_scripts == ("test_calc.py",)
    assert found.tests == ("test_empty.py", "test_own.py")


async def test_a_test_that_names_no_program_and_settings_that_replace_one_are_told(project: Project) -> None:
    (project.folder / "calc.py").write_text("def add(a, b):\n    return a - b\n")
    async with project.run() as run_id:
        (project.folder / "calc.py").write_text("def add(a, b):\n    return a * b\n")
        (project.folder / "test_new.py").write_text("def test_it():\n    assert 1 + 2 == 3\n")
        (project.folder / "conftest.py").write_text("import calc\n\ncalc.add = lambda a, b: a + b\n")
        found = await comparison(project)(run_id, str(project.folder))
    assert found.idle_tests == ("test_new.py",)
    assert found.weakened == ("conftest.py replaces what they test",)


async def test_what_was_put_into_a_workspace_before_the_run_is_not_the_run_s(project: Project) -> None:
    layout = project.records.layout
    run_id = RandomIds().new_run_id()
    own = Path(layout.workspace(run_id))
    own.mkdir(parents=True)
    (own / "calc.py").write_text("x = 1\n")
    (own / "data.csv").write_text("1,2\n")
    held = await project.runs.create(run_id, (project.created(run_id, own),))
    try:
        look = comparison(project)
        assert await look(run_id, str(own)) == WorkspaceCompared()
        (own / "calc.py").write_text("x = 2\n")
        (own / "total.txt").write_text("3\n")
        found = at_any_time(await look(run_id, str(own)))
        assert found == WorkspaceCompared(created=("total.txt",), modified=("calc.py",), without_tests=("calc.py",))
        assert await project.changed(run_id) == {"calc.py": "modified", "total.txt": "created"}
    finally:
        await held.release()


async def test_the_workspace_of_a_workflow_is_nobody_s(project: Project, tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    async with project.run() as run_id:
        pass
    for kept in project.records.layout.changes_of(run_id).glob("*.z"):
        kept.unlink()
    assert await comparison(project)(run_id, str(shared)) == WorkspaceCompared(known=False)


async def test_a_picture_that_is_damaged_is_no_reason_to_end(project: Project) -> None:
    async with project.run() as run_id:
        for kept in project.records.layout.changes_of(run_id).glob("*.z"):
            kept.write_bytes(b"not a picture")
        assert await comparison(project)(run_id, str(project.folder)) == WorkspaceCompared(known=False)


async def test_of_very_many_changes_a_part_is_listed(project: Project) -> None:
    async with project.run() as run_id:
        for number in range(MAX_LISTED + 7):
            (project.folder / f"{number:04}.txt").write_text("x")
        found = await comparison(project)(run_id, str(project.folder))
    assert (len(found.created), found.more) == (MAX_LISTED, 7)


async def test_a_name_that_is_no_text_does_not_break_the_log(project: Project) -> None:
    async with project.run() as run_id:
        Path(str(project.folder) + "/\udcff.txt").write_text("x")
        found = await comparison(project)(run_id, str(project.folder))
    assert found.created == ("?.txt",)
