"""All places for secrets as one."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from agent_fabric.domain.errors import ConfigError, StoreUnavailable
from agent_fabric.infrastructure.secrets.folder_secrets import AllowedSecrets, SecretChain


@dataclass
class Place:
    """A SecretSource that remembers what it was asked for."""

    name: str
    values: Mapping[str, str]
    asked: list[str] = field(default_factory=list)

    async def get(self, name: str) -> str | None:
        self.asked.append(name)
        if name == "BROKEN":
            raise StoreUnavailable("it is sealed", hint="Unseal it.")
        return self.values.get(name)

    def how_to_set(self, name: str) -> str:
        return f"put {name} into {self.name}"


def chain_of(*places: Place, order: tuple[str, ...] = ("env", "file", "vault")) -> tuple[SecretChain, dict[str, str]]:
    learned: dict[str, str] = {}
    return SecretChain({place.name: place for place in places}, order, learned.update), learned


@pytest.mark.proves("A33-121")
async def test_the_first_place_in_order_that_knows_a_name_gives_the_value() -> None:
    env, file = Place("env", {"A": "env-a"}), Place("file", {"A": "file-a", "B": "file-b"})
    chain, learned = chain_of(env, file)
    assert [await chain.get(name) for name in "ABC"] == ["env-a", "file-b", None]
    assert file.asked == ["B", "C"]
    assert learned == {"A": "env-a", "B": "file-b"}
    turned, _ = chain_of(env, file, order=("file", "env"))
    assert await turned.get("A") == "file-a"


def test_it_tells_every_way_to_set_a_secret() -> None:
    chain, _ = chain_of(Place("env", {}), Place("file", {}))
    assert chain.how_to_set("A") == "put A into env Or: put A into file"
    assert "secrets.sources" in chain_of(order=())[0].how_to_set("A")


@pytest.mark.proves("A33-121")
async def test_a_reference_asks_the_place_that_it_names_and_no_other() -> None:
    env, file, vault = Place("env", {"A": "env-a"}), Place("file", {"A": " file-a\n"}), Place("vault", {"p/q#f": "v"})
    chain, learned = chain_of(env, file, vault, order=("env",))
    assert await chain.resolve("file:A") == "file-a"
    assert await chain.resolve("vault:p/q#f") == "v"
    assert env.asked == []
    assert learned == {"A": "file-a", "p/q#f": "v"}


@pytest.mark.parametrize(
    ("reference", "message", "hint"),
    [
        ("file:NONE", "file:NONE is not set", "put NONE into file"),
        ("file:BROKEN", "file:BROKEN cannot be read: it is sealed", "Unseal it."),
        ("vault:a#b", "vault:a#b is in a vault, but none is configured", "Set `secrets.vault.url`."),
        ("sk-123", "'sk-123' refers to no secret", "Write env:NAME, file:NAME or vault:path#field."),
    ],
)
async def test_a_reference_that_leads_nowhere_is_explained(reference: str, message: str, hint: str) -> None:
    chain, _ = chain_of(Place("file", {}))
    with pytest.raises(ConfigError) as caught:
        await chain.resolve(reference)
    assert (caught.value.message, caught.value.hint) == (message, hint)


@pytest.mark.proves("A33-121")
async def test_workflows_get_what_is_allowed_and_never_what_opens_us() -> None:
    place = Place("env", {"GITHUB_TOKEN": "one", "AWS_KEY": "two", "ENCRYPTION_KEY": "three"})
    some = AllowedSecrets(place, ("GITHUB_*", "ENCRYPTION_KEY"), frozenset({"ENCRYPTION_KEY"}))
    assert await some.get("GITHUB_TOKEN") == "one"
    assert await some.get("AWS_KEY") is None
    assert await some.get("github_token") is None
    assert await some.get("ENCRYPTION_KEY") is None
    assert place.asked == ["GITHUB_TOKEN"]
    assert "secrets.allow" in some.how_to_set("AWS_KEY")
    assert "no workflow" in some.how_to_set("ENCRYPTION_KEY")
    assert some.how_to_set("GITHUB_NEW") == "put GITHUB_NEW into env"
