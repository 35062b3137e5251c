"""Logins are kept in private, one for each server, and shown to no other."""

import json
import stat
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from agent_fabric.client.credentials import Credential, credential_for, server_address
from agent_fabric.client.logins import MAX_LOGIN_S, Login, Logins, exact, login_from
from agent_fabric.domain.errors import ConfigError

pytestmark = pytest.mark.proves("A33-012", "C15")
THERE = "https://fabric.example.org"
HERE = "http://127.0.0.1:8787"


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {"HOME": str(tmp_path / "home")}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "home" / ".local" / "share" / "agent-fabric" / "logins.json"


def login(token: str = "there", *, lasts_s: float = 3600.0) -> Login:
    return Login("ada", token, time.time() + lasts_s, ("runs", "runs:read"))


def test_a_login_is_found_again_by_whoever_writes_the_address_differently(environment: dict[str, str]) -> None:
    kept = login()
    Logins(environment).keep(THERE, kept)
    for same in (THERE, "HTTPS://Fabric.Example.ORG:443/", " https://fabric.example.org/ "):
        assert Logins(environment).find(server_address(same)) == kept
    assert exact("http://[::1]:80/x/") == "http://[::1]/x"
    assert "there" not in repr(kept)


@pytest.mark.parametrize(
    "other",
    [
        "http://fabric.example.org",
        "https://fabric.example.org:8443",
        "https://fabric.example.org.evil.example",
        "https://example.org",
        "https://a.fabric.example.org",
        "https://fabric.example.org/other",
        HERE,
    ],
)
def test_a_login_is_shown_to_no_other_server(environment: dict[str, str], tmp_path: Path, other: str) -> None:
    Logins(environment).keep(THERE, login())
    assert credential_for(THERE, environment=environment, start=tmp_path) is not None
    assert credential_for(server_address(other), environment=environment, start=tmp_path) is None


def test_only_its_owner_can_read_the_file_and_nothing_else_is_left(environment: dict[str, str], file: Path) -> None:
    Logins(environment).keep(THERE, login())
    Logins(environment).keep(HERE, login("here"))
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert sorted(each.name for each in file.parent.iterdir()) == ["logins.json", "logins.lock"]


def test_a_file_that_cannot_be_trusted_counts_as_none_and_gives_way_to_a_new_login(
    environment: dict[str, str], file: Path, tmp_path: Path
) -> None:
    logins = Logins(environment)
    logins.keep(THERE, login())
    file.chmod(0o640)
    assert logins.find(THERE) is None, "others may have read it"
    file.chmod(0o600)
    elsewhere = file.rename(tmp_path / "elsewhere.json")
    file.symlink_to(elsewhere)
    before = elsewhere.read_bytes()
    assert logins.find(THERE) is None, "a link may lead to anything"
    logins.keep(HERE, login("here"))
    assert not file.is_symlink()
    assert elsewhere.read_bytes() == before
    assert (logins.find(HERE) is not None, logins.find(THERE)) == (True, None)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff",
        b"[]",
        b'{"servers": []}',
        b"[" * 100_000,
        b'{"servers": {"https://fabric.example.org": 7}}',
        b'{"servers": {"https://fabric.example.org": {"user": "a", "token": "x\\ny", "expires_at": 9, "scopes": []}}}',
        b'{"servers": {"https://fabric.example.org": {"user": "a", "token": "", "expires_at": 9, "scopes": []}}}',
    ],
)
def test_a_broken_file_counts_as_none(environment: dict[str, str], file: Path, content: bytes) -> None:
    file.parent.mkdir(parents=True)
    file.write_bytes(content)
    file.chmod(0o600)
    assert credential_for(THERE, environment=environment) is None
    Logins(environment).keep(THERE, login())
    assert credential_for(THERE, environment=environment) is not None


def test_the_environment_counts_more_than_a_login_and_that_more_than_the_folders_token(
    environment: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / ".fabric").mkdir()
    (tmp_path / ".fabric" / "token").write_text("own-token\n")

    def shown(**more: str) -> Credential:
        found = credential_for(HERE, environment={**environment, **more}, start=tmp_path)
        assert found is not None
        return found

    assert shown().value == "Bearer own-token"
    Logins(environment).keep(HERE, login("from-login"))
    assert (shown().value, shown().is_login, shown().origin) == ("Bearer from-login", True, "the login as ada")
    assert (shown(FABRIC_API_KEY="key").value, shown(FABRIC_TOKEN="token").value) == ("key", "Bearer token")
    assert not shown(FABRIC_TOKEN="token").is_login
    Logins(environment).keep(HERE, login("from-login", lasts_s=-1))
    assert shown().value == "Bearer own-token", "a login that has ended counts no more"


def test_a_login_that_has_ended_is_known_as_one_when_there_is_nothing_else(environment: dict[str, str]) -> None:
    Logins(environment).keep(THERE, login(lasts_s=-1))
    found = credential_for(THERE, environment=environment)
    assert found is not None
    assert found.is_login, "so that a person is told to log in again"


def test_forgetting_one_leaves_the_others(environment: dict[str, str], file: Path) -> None:
    logins = Logins(environment)
    assert not logins.forget(THERE)
    assert not file.parent.exists(), "to forget nothing, nothing is made"
    logins.keep(THERE, login())
    logins.keep(HERE, login("here"))
    assert logins.forget(f"{THERE}/")
    assert not logins.forget(THERE)
    assert list(json.loads(file.read_text())["servers"]) == [HERE]


def test_many_who_log_in_at_once_are_all_kept(environment: dict[str, str], file: Path) -> None:
    threads = [
        threading.Thread(target=Logins(environment).keep, args=(f"http://127.0.0.1:{port}", login()))
        for port in range(9000, 9020)
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(json.loads(file.read_text())["servers"]) == 20


def test_without_a_folder_nothing_is_kept_and_it_is_said_why(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no folder to keep a login in") as refused:
        Logins({}).keep(THERE, login())
    assert "FABRIC_TOKEN" in refused.value.hint
    (tmp_path / "agent-fabric").write_text("in the way")
    with pytest.raises(ConfigError, match="cannot be written"):
        Logins({"XDG_DATA_HOME": str(tmp_path)}).keep(THERE, login())


@pytest.mark.parametrize(
    "wrong",
    [
        {"expires_in": float("nan")},
        {"expires_in": 0},
        {"expires_in": MAX_LOGIN_S * 2},
        {"access_token": ""},
        {"access_token": "two words"},
        {"access_token": None},
        {"scopes": None},
    ],
)
def test_an_answer_that_is_no_login_is_not_kept(wrong: dict[str, Any]) -> None:
    right = {"access_token": "eyJ", "expires_in": 60, "scopes": ["runs"]}
    assert login_from(right, "ada", 100.0) == Login("ada", "eyJ", 160.0, ("runs",))
    with pytest.raises((TypeError, ValueError)):
        login_from({**right, **wrong}, "ada", 100.0)
