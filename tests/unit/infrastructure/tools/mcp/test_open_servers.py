"""Whose tool servers a configuration has."""

import json
from pathlib import Path
from typing import Any

import pytest

from agent_fabric.config.loader import read_config
from agent_fabric.infrastructure.tools.mcp.lazy_servers import asked_by_project, mcp_folder
from agent_fabric.infrastructure.tools.mcp.pins import content_hash


def settings(*names: str) -> dict[str, Any]:
    servers = [{"name": name, "command": [name]} for name in names]
    return {"specialists": {"engineering": {"mcp_servers": servers}}}


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    for folder in (tmp_path / ".config" / "agent-fabric", tmp_path / "project" / ".fabric"):
        folder.mkdir(parents=True)
    return {"HOME": str(tmp_path)}


def test_only_what_a_projects_file_asks_for_is_the_projects(tmp_path: Path, environ: dict[str, str]) -> None:
    own = tmp_path / ".config" / "agent-fabric" / "config.json"
    fabric = tmp_path / "project" / ".fabric"
    own.write_text(json.dumps(settings("mine")))
    loaded = read_config(environ, fabric_folder=fabric)
    assert asked_by_project(loaded.config, loaded.origins, environ) == {}

    (fabric / "config.json").write_text(json.dumps(settings("theirs", "more")))
    loaded = read_config(environ, fabric_folder=fabric)
    servers = loaded.config.specialists["engineering"].mcp_servers
    assert asked_by_project(loaded.config, loaded.origins, environ) == {
        content_hash(server): str(fabric / "config.json") for server in servers
    }


def test_a_file_that_the_user_chose_and_a_flag_are_the_users_doing(tmp_path: Path, environ: dict[str, str]) -> None:
    chosen = tmp_path / "chosen.json"
    chosen.write_text(json.dumps(settings("mine")))
    environ["FABRIC_CONFIG_PATH"] = str(chosen)
    loaded = read_config(environ)
    assert asked_by_project(loaded.config, loaded.origins, environ) == {}
    del environ["FABRIC_CONFIG_PATH"]
    loaded = read_config(environ, overrides=settings("flagged"))
    assert asked_by_project(loaded.config, loaded.origins, environ) == {}


def test_what_is_known_about_servers_lies_in_the_users_data(tmp_path: Path) -> None:
    assert mcp_folder({"HOME": "/home/me"}) == Path("/home/me/.local/share/agent-fabric/mcp")
    assert mcp_folder({"XDG_DATA_HOME": str(tmp_path)}) == tmp_path / "agent-fabric" / "mcp"
    assert mcp_folder({}).name == "mcp"
