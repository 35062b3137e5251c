"""Programs that we start ourselves are not looked for where a run may have put them."""

import os
import sys
from pathlib import Path

import pytest

from agent_fabric.infrastructure.own_path import own_path


def test_folders_of_a_project_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project, elsewhere = tmp_path / "project", tmp_path / "elsewhere"
    environment, modules = elsewhere / "env/bin", elsewhere / "node_modules/.bin"
    for folder in (project / "tools", environment, modules, elsewhere / "bin"):
        folder.mkdir(parents=True)
    (elsewhere / "env/pyvenv.cfg").touch()
    linked = elsewhere / "linked"
    linked.symlink_to(project / "tools")
    monkeypatch.chdir(project)
    entries = (project / "tools", linked, environment, modules, ".", "", "bin", elsewhere / "bin", "/usr/bin")
    assert own_path(os.pathsep.join(map(str, entries))) == f"{elsewhere / 'bin'}{os.pathsep}/usr/bin"


def test_our_own_programs_stay() -> None:
    ours = str(Path(sys.prefix, "bin"))
    assert own_path(f"{ours}:/usr/bin") == f"{ours}:/usr/bin"


def test_without_a_search_path_there_is_the_systems() -> None:
    assert own_path(None) == own_path(os.defpath)
