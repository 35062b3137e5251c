"""Where running servers are found again."""

import stat
from pathlib import Path

import pytest

from agent_fabric.domain.errors import ConfigError
from agent_fabric.infrastructure.models.servers.folder import prepare_folder, servers_folder


def test_the_runtime_folder_of_the_user_is_preferred(tmp_path: Path) -> None:
    environ = {"XDG_RUNTIME_DIR": str(tmp_path), "XDG_STATE_HOME": "/state", "HOME": "/home/eve"}
    assert servers_folder(environ) == tmp_path / "agent-fabric" / "servers"


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"XDG_RUNTIME_DIR": "/no/such/folder", "XDG_STATE_HOME": "/state"}, "/state/agent-fabric/servers"),
        ({"XDG_RUNTIME_DIR": "relative", "HOME": "/home/eve"}, "/home/eve/.local/state/agent-fabric/servers"),
        ({"XDG_STATE_HOME": "relative", "HOME": "/home/eve"}, "/home/eve/.local/state/agent-fabric/servers"),
    ],
)
def test_without_one_the_state_folder_is_used(environ: dict[str, str], expected: str) -> None:
    assert servers_folder(environ) == Path(expected)


def test_without_any_home_there_is_still_a_place_of_our_own() -> None:
    assert servers_folder({}).parent.name.startswith("agent-fabric-")


def test_the_folder_is_closed_to_others_even_when_it_was_open(tmp_path: Path) -> None:
    folder = tmp_path / "agent-fabric" / "servers"
    folder.mkdir(parents=True)
    folder.chmod(0o777)
    assert stat.S_IMODE(prepare_folder(folder).stat().st_mode) == 0o700


def test_a_link_in_the_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "servers").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigError, match="not a folder of yours"):
        prepare_folder(tmp_path / "servers")
