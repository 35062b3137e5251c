"""Where a user's files belong."""

from pathlib import Path

import pytest

from agent_fabric.config.folders import base_folder
from agent_fabric.infrastructure.models.cards import cards_file
from agent_fabric.infrastructure.models.ollama.starter import log_folder
from agent_fabric.infrastructure.models.servers.folder import servers_folder


@pytest.mark.parametrize(
    ("environ", "folder"),
    [
        ({"XDG_DATA_HOME": "/data", "HOME": "/home/me"}, Path("/data/agent-fabric")),
        ({"XDG_DATA_HOME": "data", "HOME": "/home/me"}, Path("/home/me/.local/share/agent-fabric")),
        ({"HOME": "/home/me"}, Path("/home/me/.local/share/agent-fabric")),
        ({"HOME": "me"}, None),
        ({}, None),
    ],
)
def test_a_base_folder_is_the_one_that_is_named_else_the_usual_one(
    environ: dict[str, str], folder: Path | None
) -> None:
    assert base_folder(environ, "XDG_DATA_HOME", ".local", "share") == folder


def test_a_user_without_a_home_has_folders_all_the_same() -> None:
    folders = (cards_file({}).parent, log_folder({}).parent, servers_folder({}).parent)
    assert len(set(folders)) == 1
    assert folders[0].is_absolute()
