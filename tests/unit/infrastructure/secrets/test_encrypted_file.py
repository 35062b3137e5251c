"""Secrets in a file of our own."""

import json
import stat
from pathlib import Path

import pytest
from cryptography.fernet import Fernet

from agent_fabric.application.ports.secrets import MAX_SECRET_BYTES
from agent_fabric.domain.errors import ConfigError, StoreUnavailable
from agent_fabric.infrastructure.secrets.folder_secrets import EncryptedFile
from agent_fabric.infrastructure.secrets.keyring import Keyring, open_keyring
from agent_fabric.testing.fakes import FrozenClock

KEY, OTHER = Fernet.generate_key().decode(), Fernet.generate_key().decode()


def secrets_in(folder: Path, keys: str = KEY) -> EncryptedFile:
    return EncryptedFile(folder / "secrets.sealed", lambda: open_keyring({"ENCRYPTION_KEY": keys}), FrozenClock())


@pytest.mark.proves("A33-121")
async def test_a_secret_is_kept_sealed_and_its_name_in_clear(tmp_path: Path) -> None:
    file = secrets_in(tmp_path)
    assert file.set("GITHUB_TOKEN", "hunter2 ünd\nmore")
    assert await file.get("GITHUB_TOKEN") == "hunter2 ünd\nmore"
    assert await file.get("OTHER") is None
    text = file.path.read_text()
    assert "GITHUB_TOKEN" in text
    assert "hunter2" not in text
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600


def test_a_change_keeps_when_it_was_made_and_a_removal_forgets_it(tmp_path: Path) -> None:
    clock = FrozenClock()
    file = EncryptedFile(tmp_path / "s", lambda: open_keyring({"ENCRYPTION_KEY": KEY}), clock)
    file.set("B", "value one")
    made = clock.now()
    clock.time += 60
    assert not file.set("B", "value two")
    file.set("A", "value")
    assert [(each.name, each.created_at, each.updated_at) for each in file.list_secrets()] == [
        ("A", made + 60, made + 60),
        ("B", made, made + 60),
    ]
    assert file.value("B") == "value two"
    assert file.remove("B")
    assert not file.remove("B")
    assert [each.name for each in file.list_secrets()] == ["A"]


async def test_where_nothing_is_kept_no_key_is_asked_for(tmp_path: Path) -> None:
    def no_keys() -> Keyring:
        raise AssertionError("asked for")

    file = EncryptedFile(tmp_path / "secrets.sealed", no_keys, FrozenClock())
    assert await file.get("A") is None
    assert file.list_secrets() == []
    assert not file.remove("A")
    assert file.reseal() == 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["", "1A", "a b", "a.b", "a/b", "../x", "ü", "A" * 129, "A\n"])
def test_a_name_that_could_not_be_referred_to_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="no usable name"):
        secrets_in(tmp_path).set(name, "a value")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("value", ["", "abc", "  a  ", "a\0bcd", "x" * (MAX_SECRET_BYTES + 1), "\ud800abcd"])
def test_a_value_that_cannot_be_kept_is_refused_and_not_repeated(tmp_path: Path, value: str) -> None:
    with pytest.raises(ConfigError) as caught:
        secrets_in(tmp_path).set("NAME", value)
    assert caught.value.hint
    assert value not in caught.value.message or not value.strip()


def test_with_the_wrong_key_nothing_is_read_and_nothing_lost(tmp_path: Path) -> None:
    secrets_in(tmp_path).set("A", "a value")
    wrong = secrets_in(tmp_path, OTHER)
    with pytest.raises(StoreUnavailable, match="another key"):
        wrong.value("A")
    with pytest.raises(StoreUnavailable):
        wrong.reseal()
    assert [each.name for each in wrong.list_secrets()] == ["A"]
    assert secrets_in(tmp_path).value("A") == "a value"


def test_one_secret_cannot_be_given_out_as_another(tmp_path: Path) -> None:
    file = secrets_in(tmp_path)
    file.set("HARMLESS", "a value")
    file.set("PRECIOUS", "another")
    content = json.loads(file.path.read_text())
    content["secrets"]["HARMLESS"]["sealed"] = content["secrets"]["PRECIOUS"]["sealed"]
    file.path.write_text(json.dumps(content))
    with pytest.raises(StoreUnavailable, match="something else"):
        file.value("HARMLESS")


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        "null",
        '{"format": 1}',
        '{"format": 1, "secrets": []}',
        '{"format": 1, "secrets": {"A": 1}}',
        '{"format": 1, "secrets": {"A": {"sealed": 1, "created_at": 0, "updated_at": 0}}}',
        '{"format": 2, "secrets": {}}',
        "[" * 100_000,
        "\ufffd",
    ],
)
def test_a_damaged_file_is_told_and_never_overwritten(tmp_path: Path, content: str) -> None:
    file = secrets_in(tmp_path)
    file.path.write_text(content)
    file.path.chmod(0o600)
    for use in (file.list_secrets, lambda: file.value("A"), lambda: file.set("A", "a value"), lambda: file.remove("A")):
        with pytest.raises(StoreUnavailable, match="cannot be read"):
            use()
    assert file.path.read_text() == content


def test_a_file_that_others_may_read_is_refused(tmp_path: Path) -> None:
    file = secrets_in(tmp_path)
    file.set("A", "a value")
    file.path.chmod(0o644)
    with pytest.raises(StoreUnavailable, match="others on this machine"):
        file.value("A")


def test_everything_is_sealed_anew_with_the_newest_key(tmp_path: Path) -> None:
    secrets_in(tmp_path).set("A", "a value")
    secrets_in(tmp_path).set("B", "b value")
    both = secrets_in(tmp_path, f"{OTHER},{KEY}")
    assert both.reseal() == 2
    assert both.reseal() == 0
    alone = secrets_in(tmp_path, OTHER)
    assert [alone.value("A"), alone.value("B")] == ["a value", "b value"]
    ring = open_keyring({"ENCRYPTION_KEY": OTHER})
    assert {ring.generation_of(sealed) for sealed in alone.list_sealed()} == {ring.generation}


def test_what_a_killed_writer_left_is_in_nobodys_way(tmp_path: Path) -> None:
    file = secrets_in(tmp_path)
    file.set("A", "a value")
    (tmp_path / ".secrets.sealed.new").write_text('{"format": 1, "secr')
    file.set("B", "b value")
    assert [each.name for each in file.list_secrets()] == ["A", "B"]
    assert not (tmp_path / ".secrets.sealed.new").exists()
