"""What is said about a tool server."""

from typing import Any

import pytest

from agent_fabric.config.loader import read_config
from agent_fabric.config.problems import ConfigProblem
from agent_fabric.config.schema.tools import MCPServerConfig
from agent_fabric.config.show import show_server


def load(**settings: Any) -> MCPServerConfig:
    overrides = {"specialists": {"engineering": {"mcp_servers": [{"name": "docs", **settings}]}}}
    return read_config({}, overrides=overrides).config.specialists["engineering"].mcp_servers[0]


def test_a_server_is_confined_and_trusted_with_nothing_unless_it_is_said() -> None:
    server = load(command=["docs"])
    assert (server.trusted, server.network, server.workspace, server.folders) == (False, False, "none", ())
    assert (server.read_only_tools, dict(server.effects)) == ((), {})


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"command": ["./server"]}, "relative"),
        ({"command": ["bin/server"]}, "relative"),
        ({"command": ["docs", "a\0b"]}, "null character"),
        ({"command": ["docs", "{workspace}"]}, "does not see it"),
        ({"command": ["docs"], "read_only_tools": ["a"], "effects": {"a": "idempotent"}}, "'a'"),
        ({"command": ["docs"], "effects": {"a": "harmless"}}, "effects"),
        ({"command": ["docs"], "workspace": "all"}, "workspace"),
        ({"command": ["docs"], "folders": ["relative"]}, "absolute path"),
        ({"command": ["docs"], "call_timeout_s": 0}, "call_timeout_s"),
    ],
)
def test_a_mistake_is_explained(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigProblem, match=said):
        load(**settings)


def test_a_person_who_is_asked_sees_references_but_no_secrets() -> None:
    server = load(
        command=["docs"],
        env={"API_KEY": "s3cret", "TOKEN": "env:MY_TOKEN", "MODE": "fast"},
        headers={"Authorization": "Bearer env:MY_TOKEN"},
    )
    shown = show_server(server)
    assert shown["env"] == {"API_KEY": "***", "TOKEN": "env:MY_TOKEN", "MODE": "fast"}
    assert shown["headers"] == {"Authorization": "Bearer env:MY_TOKEN"}
