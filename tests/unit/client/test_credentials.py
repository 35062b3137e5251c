"""Who a client is to a server, and whom it never tells."""

import os
import socket
import sys
from pathlib import Path

import pytest

from agent_fabric.client.credentials import credential_for, proxy_for, server_address, users_listening_at
from agent_fabric.domain.errors import ConfigError
from agent_fabric.domain.models.addresses import is_local_url

pytestmark = pytest.mark.proves("A33-010")
HERE = "http://127.0.0.1:8000"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / ".fabric").mkdir()
    (tmp_path / ".fabric" / "token").write_text("own-token\n")
    below = tmp_path / "project" / "src"
    below.mkdir(parents=True)
    return below


def test_what_is_given_counts_more_than_the_environment_and_that_more_than_the_folder(folder: Path) -> None:
    environment = {"FABRIC_TOKEN": "from-env", "FABRIC_API_KEY": "key-from-env"}

    def shown(token: str | None = None, key: str | None = None) -> tuple[str, str]:
        found = credential_for(HERE, token=token, key=key, environment=environment, start=folder)
        assert found is not None
        return found.header, found.value

    assert shown(token="given", key="too") == ("Authorization", "Bearer given")
    assert shown(key="given") == ("X-API-Key", "given")
    assert shown() == ("Authorization", "Bearer from-env")
    del environment["FABRIC_TOKEN"]
    assert shown() == ("X-API-Key", "key-from-env")
    del environment["FABRIC_API_KEY"]
    assert shown() == ("Authorization", "Bearer own-token")


@pytest.mark.parametrize("address", ["http://localhost:1", "https://127.9.9.9", "http://[::1]:8", "http://LOCALHOST."])
def test_the_folders_token_is_shown_to_this_machine(folder: Path, address: str) -> None:
    assert is_local_url(address)
    assert credential_for(address, environment={}, start=folder) is not None


@pytest.mark.parametrize(
    "address",
    [
        "http://example.com",
        "http://10.0.0.1:8000",
        "http://127.0.0.1.example.com",
        "http://localhost.example.com",
        "http://0.0.0.0:8000",
        "http://[2001:db8::1]",
        "http://2130706433",
    ],
)
def test_the_folders_token_is_never_shown_to_another_machine(folder: Path, address: str) -> None:
    assert credential_for(server_address(address), environment={}, start=folder) is None


def test_a_folder_without_a_usable_token_gives_nothing(tmp_path: Path, folder: Path) -> None:
    token = tmp_path / ".fabric" / "token"
    token.write_text("\n")
    assert credential_for(HERE, environment={}, start=folder) is None
    token.write_text("two lines\nof text\n")
    assert credential_for(HERE, environment={}, start=folder) is None
    token.write_bytes(b"\xff\xfe")
    assert credential_for(HERE, environment={}, start=folder) is None
    token.unlink()
    assert credential_for(HERE, environment={}, start=folder) is None
    (tmp_path / "secret").write_text("somebody-elses")
    token.symlink_to(tmp_path / "secret")
    assert credential_for(HERE, environment={}, start=folder) is None
    token.unlink()
    token.mkdir()
    assert credential_for(HERE, environment={}, start=folder) is None


@pytest.mark.parametrize("token", ["two words", "line\r\nX-Other: 1", "tökén", " "])
def test_what_is_no_word_is_refused_before_it_is_sent(token: str) -> None:
    with pytest.raises(ConfigError, match="is not one word"):
        credential_for(HERE, environment={"FABRIC_TOKEN": token})


def test_a_credential_does_not_show_itself() -> None:
    assert "secret" not in repr(credential_for(HERE, token="secret-value", environment={}))


@pytest.mark.parametrize(
    "url",
    [
        "",
        "localhost:8000",
        "ftp://host",
        "http://",
        "http://host:99999",
        "http://host:x",
        "http://[::1",
        "//host",
        "http",
    ],
)
def test_what_is_no_address_is_refused_with_an_example(url: str) -> None:
    with pytest.raises(ConfigError, match="is no address of a server") as refused:
        server_address(url)
    assert "http://127.0.0.1:8787" in refused.value.hint


def test_an_address_keeps_its_path_and_loses_what_is_too_much() -> None:
    assert server_address(" https://host/fabric/ ") == "https://host/fabric"
    with pytest.raises(ConfigError, match="must not hold a password"):
        server_address("http://me:secret@host")
    with pytest.raises(ConfigError, match="query"):
        server_address("http://host/?a=1")


def test_proxies_lead_to_other_machines_only_unless_they_are_to_be_reached_directly() -> None:
    environment = {"HTTP_PROXY": "http://p:1", "https_proxy": "http://p:2", "NO_PROXY": "intern, .lan,*.home"}
    assert proxy_for("http://example.com", environment) == "http://p:1"
    assert proxy_for("https://example.com", environment) == "http://p:2"
    for direct in ("http://127.0.0.1:1", "http://localhost", "http://intern", "https://a.lan", "https://b.home"):
        assert proxy_for(direct, environment) is None
    assert proxy_for("http://example.com", {}) is None
    assert proxy_for("http://example.com", {**environment, "NO_PROXY": "*"}) is None


def test_the_folders_token_is_not_shown_to_a_program_of_another_user(folder: Path) -> None:
    me, other = os.geteuid(), os.geteuid() + 1

    def shown(*users: int) -> bool:
        return credential_for(HERE, environment={}, start=folder, listening=lambda _: frozenset(users)) is not None

    assert shown()
    assert shown(me)
    assert shown(0)
    assert not shown(other)
    assert not shown(me, other)


def test_whose_a_port_is_comes_from_the_kernel(tmp_path: Path) -> None:
    row = "   0: {0} 00000000:0000 {1} 00000000:00000000 00:00000000 00000000  {2}        0 27 1 0 100 0 0 10 0\n"
    (tmp_path / "tcp").write_text(
        "head\n"
        + row.format("0100007F:1F40", "0A", 1)
        + row.format("00000000:1F40", "0A", 2)
        + row.format("0100007F:1F40", "01", 3)
        + row.format("0100007F:1F41", "0A", 4)
        + row.format("0101A8C0:1F40", "0A", 5)
    )
    (tmp_path / "tcp6").write_text(
        "head\n"
        + row.format("00000000000000000000000001000000:1F40", "0A", 6)
        + row.format("0000000000000000FFFF00000100007F:1F40", "0A", 7)
        + row.format("000080FE000000000000000001000000:1F40", "0A", 8)
    )
    assert users_listening_at(8000, tmp_path) == {1, 2, 6, 7}
    assert users_listening_at(8000, tmp_path / "none") == frozenset()


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not tell")
def test_a_port_of_our_own_is_ours() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        assert users_listening_at(listener.getsockname()[1]) == {os.geteuid()}
