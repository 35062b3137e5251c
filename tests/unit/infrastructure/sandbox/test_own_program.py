"""A run cannot change the program that drives it."""

import sys
from pathlib import Path, PurePath

import pytest

from agent_fabric.domain.errors import ConfigError
from agent_fabric.infrastructure.sandbox.workspaces import covers_of, own_program, require_elsewhere


def test_a_workspace_elsewhere_holds_nothing_of_ours(tmp_path: Path) -> None:
    assert own_program(tmp_path) == ()
    require_elsewhere(tmp_path)


def test_a_project_with_our_environment_in_it_is_told_apart() -> None:
    environment = Path(sys.prefix)
    names = own_program(environment.parent)
    assert PurePath(environment.name) in names
    with pytest.raises(ConfigError) as refused:
        require_elsewhere(environment.parent)
    assert "outside the project" in refused.value.hint


def test_the_environment_itself_is_no_workspace() -> None:
    with pytest.raises(ConfigError):
        own_program(Path(sys.prefix))


def test_folders_around_it_cannot_be_moved_away_either() -> None:
    covers = list(covers_of(Path("/project"), (PurePath("tools/python/env"),)))
    assert covers == [
        (Path("/project/tools"), True),
        (Path("/project/tools/python"), True),
        (Path("/project/tools/python/env"), False),
    ]
