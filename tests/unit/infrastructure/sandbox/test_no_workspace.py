from pathlib import Path

import pytest

from agent_fabric.domain.errors import ConfigError
from agent_fabric.infrastructure.sandbox.workspaces import require_workspace

# Only the check itself is called here, never a box or `give`: were the check wrong, a test run by root that went on to
# make a box would give the system's files away.


@pytest.mark.parametrize(
    "path",
    ["/", "/usr", "/usr/share", "/etc", "/etc/ssl", "/tmp", "/var", "/var/tmp", "/home", "/root", "/proc", "/dev"],
)
def test_a_folder_of_the_system_is_no_workspace(path: str) -> None:
    with pytest.raises(ConfigError, match="cannot be a workspace"):
        require_workspace(Path(path))


def test_a_whole_home_folder_is_no_workspace() -> None:
    with pytest.raises(ConfigError, match="home folder"):
        require_workspace(Path.home())


def test_a_link_to_a_folder_of_the_system_is_no_workspace(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/etc")
    with pytest.raises(ConfigError, match="cannot be a workspace"):
        require_workspace(tmp_path / "link")


def test_a_project_folder_is_a_workspace(tmp_path: Path) -> None:
    require_workspace(tmp_path)
