"""What can be set for the server."""

import pytest

from agent_fabric.config.loader import read_config
from agent_fabric.config.problems import ConfigProblem
from agent_fabric.config.schema.server import ServerConfig


def test_without_settings_it_listens_on_this_machine_only() -> None:
    assert read_config({}).config.server == ServerConfig(
        host="127.0.0.1",
        port=8787,
        max_running=64,
        max_queued=1_000,
        max_body_bytes=2_000_000,
        shutdown_timeout_s=10.0,
        hosts=(),
        tls=None,
    )


def test_it_can_be_set_by_variables() -> None:
    config = read_config({"FABRIC_SERVER__PORT": "0", "FABRIC_SERVER__HOST": "::1"}).config
    assert (config.server.port, config.server.host) == (0, "::1")


@pytest.mark.parametrize(
    "settings", [{"port": 65_536}, {"max_running": 0}, {"max_queued": -1}, {"shutdown_timeout_s": 0.5}, {"unknown": 1}]
)
def test_what_makes_no_sense_is_refused(settings: dict[str, object]) -> None:
    with pytest.raises(ConfigProblem):
        read_config({}, overrides={"server": settings})
