"""`fabric init` as a process: it tries what it writes down."""

from pathlib import Path

import pytest

from e2e.fabric_process import Fabric

pytestmark = pytest.mark.proves("CP-6")


async def test_the_commands_of_a_project_are_tried_and_written_down(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    fabric = Fabric(project, {}, {"HOME": str(tmp_path)})
    (project / "Makefile").write_text("build:\n\techo built > built.txt\ntest:\n\tfalse\n")
    (project / "src").mkdir()
    (project / "src/a.py").write_text("a = 1\n")
    done = await fabric("init", "--yes", "--json")
    assert done.code == 0, done.err
    assert (project / "built.txt").read_text() == "built\n"
    tried = {each["command"]: (each["works"], each["note"]) for each in done.json["commands"]}
    assert tried == {"make build": (True, ""), "make test": (False, "exit code 2")}
    text = (project / "AGENTS.md").read_text()
    assert "Written in Python." in text
    assert "- build: `make build`\n" in text
    again = await fabric("init", "--yes")
    assert again.code == 2
    assert "AGENTS.md is there already" in again.err


async def test_nothing_runs_if_that_is_not_wanted(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    fabric = Fabric(project, {}, {"HOME": str(tmp_path)})
    (project / "Makefile").write_text("build:\n\techo built > built.txt\n")
    done = await fabric("init", "--no-run")
    assert done.code == 0, done.err
    assert not (project / "built.txt").exists()
    assert "`make build` (not tried)" in (project / "AGENTS.md").read_text()
