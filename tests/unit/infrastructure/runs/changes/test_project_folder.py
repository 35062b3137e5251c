from pathlib import Path

import pytest

from agent_fabric.domain.errors import ConfigError
from agent_fabric.infrastructure.runs.changes.project_folder import project_folder


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home" / "me"
    for folder in (".ssh", ".config/x", "project/src", "project/.fabric/runs", "other"):
        (home / folder).mkdir(parents=True)
    (home / "file").touch()
    (home / "link").symlink_to("project")
    (home / "to_root").symlink_to("/")
    return home


def test_a_project_is_known_by_its_real_path(home: Path) -> None:
    project = home / "project"
    root = project / ".fabric"
    assert project_folder(project, fabric_root=root, home=home) == project
    assert project_folder(home / "link", fabric_root=root, home=home) == project
    assert project_folder(project / "src", fabric_root=root, home=home) == project / "src"
    assert project_folder(home / "other", fabric_root=root, home=home) == home / "other"


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("/", "the whole machine"),
        ("to_root", "the whole machine"),
        (".", "your home folder"),
        ("..", "belongs to others"),
        ("/etc", "belongs to the system"),
        ("/usr/share", "belongs to the system"),
        ("/proc/self", "belongs to the system"),
        ("/tmp", "belongs to others"),
        ("/var", "belongs to others"),
        (".ssh", "keys and settings"),
        (".config/x", "keys and settings"),
        ("project/.fabric", "agent-fabric itself"),
        ("project/.fabric/runs", "agent-fabric itself"),
        ("file", "not a folder"),
        ("nowhere", "cannot be opened"),
    ],
)
def test_a_run_is_not_let_loose_on_what_is_no_project(home: Path, path: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason) as refused:
        project_folder(home / path, fabric_root=home / "project" / ".fabric", home=home)
    assert refused.value.hint


def test_a_fabric_folder_of_another_name_must_not_lie_in_the_project(home: Path) -> None:
    (home / "project" / "state").mkdir()
    with pytest.raises(ConfigError, match="lies in it"):
        project_folder(home / "project", fabric_root=home / "project" / "state", home=home)
