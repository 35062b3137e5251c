"""What can be set about who may use the server."""

from typing import Any

import pytest

from agent_fabric.config.loader import read_config
from agent_fabric.config.problems import ConfigProblem
from agent_fabric.domain.identity.principals import Scope

PROVIDER = {"issuer": "https://id.example.org", "audience": "fabric", "jwks": "https://id.example.org/keys"}


def test_without_settings_a_login_lasts_an_hour_and_there_is_no_other_provider() -> None:
    identity = read_config({}).config.identity
    assert (identity.token_lifetime_s, identity.provider, identity.jwt_secret) == (3600, None, None)


def test_a_secret_is_named_and_never_written_down() -> None:
    assert read_config({}, overrides={"identity": {"jwt_secret": "env:MINE"}}).config.identity.jwt_secret == "env:MINE"
    with pytest.raises(ConfigProblem, match="never the key itself") as raised:
        read_config({}, overrides={"identity": {"jwt_secret": "abcdefghijklmnopqrstuvwxyz0123456789"}})
    assert "env:" in raised.value.hint
    assert "abcdef" not in raised.value.message


def test_the_secret_of_the_seeds_is_no_setting() -> None:
    read_config({"JWT_SECRET": "x" * 40, "API_KEY_PEPPER": "y" * 40})


def test_a_provider_gives_the_least_by_default() -> None:
    provider = read_config({}, overrides={"identity": {"provider": PROVIDER}}).config.identity.provider
    assert provider is not None
    assert (provider.default_scopes, provider.scopes, provider.scope_claim) == (("runs:read",), {}, "scope")


@pytest.mark.parametrize(
    "jwks", ["https://id.example.org/keys", "/etc/keys.json", "http://127.0.0.1:8080/keys", "http://localhost/keys"]
)
def test_keys_come_from_https_this_machine_or_a_file(jwks: str) -> None:
    read_config({}, overrides={"identity": {"provider": PROVIDER | {"jwks": jwks}}})


@pytest.mark.parametrize(
    "wrong",
    [
        {"jwks": "http://id.example.org/keys"},
        {"jwks": "keys.json"},
        {"jwks": "https://me:secret@id.example.org/keys"},
        {"jwks": "ftp://id.example.org"},
        {"jwks": "https://[broken"},
        {"jwks": ""},
        {"issuer": ""},
        {"scopes": {"x": "god"}},
        {"default_scopes": ["god"]},
        {"unknown": 1},
    ],
)
def test_what_makes_no_sense_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigProblem):
        read_config({}, overrides={"identity": {"provider": PROVIDER | wrong}})


@pytest.mark.parametrize("scope", list(Scope))
def test_a_provider_can_give_every_scope(scope: Scope) -> None:
    settings = {"identity": {"provider": {**PROVIDER, "scopes": {"staff": scope.value}}}}
    provider = read_config({}, overrides=settings).config.identity.provider
    assert provider is not None
    assert provider.scopes == {"staff": scope.value}
