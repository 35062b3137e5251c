"""Keys that a tool server has are the run's: one that answers questions is warned of."""

import secrets
from collections.abc import Mapping

import pytest

from agent_fabric.application.observability.find_answering_keys import FindAnsweringKeys
from agent_fabric.config.schema.specialists import SpecialistConfig
from agent_fabric.domain.errors import ConfigError
from agent_fabric.domain.identity.accounts import ApiKey
from agent_fabric.domain.identity.principals import Scope

IDS = {"answers": "aaaaaaaaaaaa", "reads": "bbbbbbbbbbbb", "revoked": "cccccccccccc"}
FOLDER_TOKEN = f"local_{secrets.token_urlsafe(32)}"
TEXT = {name: f"a33_{key_id}_Zm9vYmFyYmF6" for name, key_id in IDS.items()}


def key(name: str, *scopes: Scope, revoked_at: float | None = None) -> ApiKey:
    return ApiKey(
        id=IDS[name],
        name=name,
        scopes=frozenset(scopes),
        created_by="ada",
        created_at=0.0,
        expires_at=None,
        revoked_at=revoked_at,
    )


KEYS = {
    each.id: each
    for each in (
        key("answers", Scope.RUNS, Scope.APPROVALS),
        key("reads", Scope.RUNS),
        key("revoked", Scope.ADMIN, revoked_at=1.0),
    )
}


async def resolve(reference: str) -> str:
    if reference != "env:ANSWERS":
        raise ConfigError(f"{reference} is not set")
    return TEXT["answers"]


async def find_key(key_id: str) -> ApiKey | None:
    return KEYS.get(key_id)


async def warned(server: Mapping[str, object]) -> list[str]:
    config = SpecialistConfig.model_validate({"description": "x", "mcp_servers": [{"name": "tools", **server}]})
    findings = await FindAnsweringKeys({"engineering": config}, resolve, find_key, lambda: 5.0)()
    return [finding.text for finding in findings]


@pytest.mark.proves("WA-5")
@pytest.mark.parametrize(
    "server",
    [
        {"command": ["x"], "env": {"KEY": "env:ANSWERS"}},
        {"transport": "http", "url": "https://a.example/mcp", "headers": {"X-API-Key": "env:ANSWERS"}},
        {"transport": "http", "url": "https://a.example/mcp", "headers": {"Authorization": "Bearer env:ANSWERS"}},
    ],
)
async def test_a_key_that_answers_is_warned_of_and_not_shown(server: Mapping[str, object]) -> None:
    (text,) = await warned(server)
    assert "API key answers (aaaaaaaaaaaa), which may answer approvals" in text
    assert TEXT["answers"] not in text


@pytest.mark.proves("WA-5")
@pytest.mark.parametrize("text", [FOLDER_TOKEN, f"Bearer {FOLDER_TOKEN}"])
async def test_the_token_of_a_folder_is_warned_of_and_not_shown(text: str) -> None:
    for server in (
        {"command": ["x"], "env": {"KEY": text}},
        {"transport": "http", "url": "https://a.example/mcp", "headers": {"Authorization": text}},
    ):
        (said,) = await warned(server)
        assert "holds the token of a fabric folder, which opens everything there: a run could use it" in said
        assert FOLDER_TOKEN not in said


@pytest.mark.parametrize("value", ["local_", "local_" + "a" * 42, "env:NOTHING", "vault:a/b#c", "plain words"])
async def test_what_holds_no_such_key_is_not(value: str) -> None:
    assert await warned({"command": ["x"], "env": {"KEY": value}}) == []
