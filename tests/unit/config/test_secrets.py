"""Where secrets are kept, as settings say it."""

from typing import Any

import pytest

from agent_fabric.config.loader import read_config
from agent_fabric.config.problems import ConfigProblem
from agent_fabric.config.schema.secrets import SecretsConfig
from agent_fabric.config.secret_references import SecretReference, is_reference, reference_in


def configured(**secrets: Any) -> SecretsConfig:
    return read_config({}, overrides={"secrets": secrets}).config.secrets


@pytest.mark.parametrize(
    "text",
    ["env:A", "env:_a1", "file:OPENAI_API_KEY", "file:my-key", "vault:a#b", "vault:team/blue.1/x_y-z#api-key.v2"],
)
def test_references_are_known_alone_and_behind_a_word(text: str) -> None:
    assert is_reference(text)
    assert reference_in(f"Bearer {text}") == SecretReference(text, "Bearer")
    assert not is_reference(f"Bearer {text}")


@pytest.mark.parametrize(
    "text",
    [
        *("", "env:", "env:1A", "env:A B", "sk-live", "file:", "file:data.db", "file:///etc/passwd", "file:./dev.db"),
        *("vault:a", "vault:#b", "vault:a#", "vault:/a#b", "vault:a/../b#c", "vault:a//b#c", "vault:a?v=1#b", "ENV:A"),
    ],
)
def test_everything_else_is_plain_text(text: str) -> None:
    assert reference_in(text) is None


@pytest.mark.parametrize("place", ["env:KEY", "file:KEY", "vault:models/cloud#key"])
def test_a_models_key_may_be_in_any_place(place: str) -> None:
    config = read_config({}, overrides={"models": {"cloud": {"base_url": "http://h/v1", "api_key": place}}}).config
    assert config.models["cloud"].api_key == place


def test_by_default_the_environment_comes_first_and_everything_is_allowed() -> None:
    assert configured() == SecretsConfig(sources=("env", "file", "vault"), allow=("*",), vault=None)


def test_a_vault_on_another_machine_needs_tls_unless_one_says_otherwise() -> None:
    with pytest.raises(ConfigProblem, match="without TLS"):
        configured(vault={"url": "http://vault.corp:8200"})
    assert configured(vault={"url": "http://vault.corp:8200", "allow_http": True}).vault
    assert configured(vault={"url": "http://127.0.0.1:8200"}).vault
    assert (
        configured(vault={"url": "https://vault.corp:8200/"}).vault
        == configured(vault={"url": "https://vault.corp:8200", "mount": "/secret/", "token": "env:VAULT_TOKEN"}).vault
    )


@pytest.mark.parametrize(
    "wrong",
    [
        {"sources": ["env", "env"]},
        {"sources": ["disk"]},
        {"vault": {"url": "https://v", "token": "hvs.AAAA"}},
        {"vault": {"url": "https://v", "token": "vault:a#b"}},
        {"vault": {"url": "https://v", "mount": "a/../b"}},
        {"vault": {"url": "https://v", "path": "a?version=1"}},
        {"vault": {"url": "https://v", "mount": ""}},
        {"vault": {"url": "https://v", "timeout_s": 0}},
        {"vault": {}},
        {"allow": [""]},
    ],
)
def test_what_cannot_be_meant_is_refused_without_repeating_a_token(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigProblem) as caught:
        configured(**wrong)
    assert "hvs" not in caught.value.message
