"""What a server's program and requests are given."""

from typing import Any

import pytest

from agent_fabric.config.schema.tools import MCPServerConfig
from agent_fabric.domain.errors import ConfigError
from agent_fabric.infrastructure.tools.mcp.confinement import (
    hidden_values,
    passed_on,
    request_headers,
    secrets_for,
    server_environment,
)


def server(**settings: Any) -> MCPServerConfig:
    return MCPServerConfig.model_validate({"name": "docs", "command": ["docs"], **settings})


def remote(**settings: Any) -> MCPServerConfig:
    return MCPServerConfig.model_validate(
        {"name": "docs", "transport": "http", "url": "http://localhost:1/mcp", **settings}
    )


OURS = {
    "PATH": "/bin",
    "HOME": "/home/me",
    "LC_ALL": "C",
    "OPENAI_API_KEY": "s3cret",
    "HTTPS_PROXY": "http://proxy:1",
    "http_proxy": "http://me:pass@proxy:1",
    "LD_PRELOAD": "/evil.so",
    "PYTHONPATH": "/evil",
}


def test_little_of_our_environment_is_passed_on() -> None:
    assert passed_on(OURS, network=False, trusted=False) == {"PATH": "/bin", "LC_ALL": "C"}
    assert passed_on(OURS, network=True, trusted=False).keys() == {"PATH", "LC_ALL", "HTTPS_PROXY"}
    assert passed_on(OURS, network=False, trusted=True).keys() == {"PATH", "LC_ALL", "HTTPS_PROXY", "HOME"}


async def test_references_are_replaced_and_can_be_hidden_again() -> None:
    config = server(env={"KEY": "env:OPENAI_API_KEY", "MODE": "fast", "ODD": "see env:OTHER here"})
    secrets = await secrets_for(config, OURS)
    assert server_environment(config, secrets) == {"KEY": "s3cret", "MODE": "fast", "ODD": "see env:OTHER here"}
    assert hidden_values(secrets) == ("s3cret",)


async def test_a_header_takes_a_reference_also_after_its_scheme() -> None:
    config = remote(headers={"Authorization": "Bearer env:OPENAI_API_KEY", "X-Key": "env:OPENAI_API_KEY"})
    headers = request_headers(config, await secrets_for(config, OURS))
    assert headers == {"Authorization": "Bearer s3cret", "X-Key": "s3cret"}


@pytest.mark.proves("A33-121")
async def test_references_to_other_places_are_resolved_there() -> None:
    async def resolve(reference: str) -> str:
        return f"value of {reference}"

    config = server(env={"A": "file:A_KEY", "B": "vault:team/blue#key", "C": "file:data.db", "D": "env:OPENAI_API_KEY"})
    secrets = await secrets_for(config, OURS, resolve)
    assert server_environment(config, secrets) == {
        "A": "value of file:A_KEY",
        "B": "value of vault:team/blue#key",
        "C": "file:data.db",
        "D": "s3cret",
    }
    assert set(hidden_values(secrets)) == {"value of file:A_KEY", "value of vault:team/blue#key", "s3cret"}


@pytest.mark.parametrize("value", ["", "  ", None])
async def test_a_variable_that_is_not_set_is_named(value: str | None) -> None:
    environ = {} if value is None else {"KEY": value}
    with pytest.raises(ConfigError, match="KEY") as caught:
        await secrets_for(server(env={"TOKEN": "env:KEY"}), environ)
    assert caught.value.hint == "export KEY=…"


@pytest.mark.parametrize("value", ["a\r\nX-Evil: 1", "ü"])
async def test_a_variable_cannot_smuggle_another_header(value: str) -> None:
    config = remote(headers={"Authorization": "env:KEY"})
    secrets = await secrets_for(config, {"KEY": value})
    with pytest.raises(ConfigError, match="Authorization") as caught:
        request_headers(config, secrets)
    assert value not in caught.value.message
