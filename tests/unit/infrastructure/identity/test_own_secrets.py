"""What the server signs and recognises with: long enough, private, kept, and one for each folder."""

import secrets
from pathlib import Path

import pytest

from agent_fabric.domain.errors import ConfigError
from agent_fabric.domain.secrets.strength import weakness
from agent_fabric.infrastructure.identity.local_token import local_token
from agent_fabric.infrastructure.identity.own_secrets import PepperedHash, jwt_secret, key_pepper, long_enough
from agent_fabric.infrastructure.secrets.redaction import Redactor

LONG = "0123456789abcdef0123456789abcdef-tokens"
PEPPER = "another value, which nobody has written down"


def kept(home: Path, name: str) -> Path:
    return home / ".local" / "share" / "agent-fabric" / name


def test_without_any_they_are_made_once_in_the_users_data_folder(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path / "home")}
    root = tmp_path / ".fabric"
    first = jwt_secret(root, environ), key_pepper(root, environ)
    assert (jwt_secret(root, environ), key_pepper(root, environ)) == first
    assert len({*first, kept(tmp_path / "home", "jwt.key").read_bytes()}) == 3
    for name in ("jwt.key", "identity.key"):
        assert kept(tmp_path / "home", name).stat().st_mode & 0o777 == 0o600
    assert not root.exists()


def test_each_folder_has_its_own_secret_for_tokens_whatever_way_leads_to_it(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path)}
    (tmp_path / "one" / ".fabric").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "one")
    one = jwt_secret(tmp_path / "one" / ".fabric", environ)
    assert one != jwt_secret(tmp_path / "two" / ".fabric", environ)
    assert one == jwt_secret(tmp_path / "link" / ".fabric", environ)


@pytest.mark.proves("A33-012")
def test_those_of_the_environment_count_if_they_are_long_enough(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path), "JWT_SECRET": LONG, "API_KEY_PEPPER": PEPPER}
    assert jwt_secret(tmp_path, environ) == LONG.encode()
    assert key_pepper(tmp_path, environ) == PEPPER.encode()
    for name, read in (("JWT_SECRET", jwt_secret), ("API_KEY_PEPPER", key_pepper)):
        with pytest.raises(ConfigError, match=f"{name} has 31 bytes") as raised:
            read(tmp_path, environ | {name: "x" * 31})
        assert "openssl rand" in raised.value.hint
        assert "xxx" not in raised.value.message + raised.value.hint
    with pytest.raises(ConfigError, match="env:MY_SECRET has 5 bytes"):
        long_enough("short", "env:MY_SECRET")


@pytest.mark.proves("WA-8")
@pytest.mark.parametrize(
    "weak",
    [
        *("x" * 64, "ab" * 40, "0123456789" * 10, "1" * 63 + "2", "", "a", "0" * 64, "password" * 5 + "1"),
        *(
            "changeme" * 5,
            "changeme" + "0" * 40,
            "passwordPASSWORDpassword" + "!" * 20,
            "secret-secret-secret-secret-secret-42",
        ),
        *("abcdefghijklmnopqrstuvwxyz0123456789", "zyxwvutsrqponmlkjihgfedcba9876543210", "k3yk3yk3y" * 8 + "-prod"),
    ],
)
def test_what_can_be_guessed_is_refused_however_long_it_is(tmp_path: Path, weak: str) -> None:
    with pytest.raises(ConfigError, match=r"guessed|too short") as raised:
        long_enough(weak, "env:MY_SECRET")
    assert "openssl rand" in raised.value.hint


@pytest.mark.proves("WA-8")
def test_random_values_of_the_usual_tools_are_never_weak() -> None:
    for _ in range(2_000):
        for value in (secrets.token_hex(16), secrets.token_urlsafe(24), secrets.token_hex(32)):
            assert weakness(value.encode(), shortest=16) == ""
        assert weakness(secrets.token_bytes(32), shortest=32) == ""


def test_who_has_no_home_has_them_in_the_folder(tmp_path: Path) -> None:
    assert key_pepper(tmp_path, {}) == (tmp_path / "identity.key").read_bytes()


@pytest.mark.parametrize("content", [b"", b"short", b"x" * 33])
def test_a_damaged_one_is_an_error_and_stays(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "identity.key"
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(ConfigError, match="damaged") as raised:
        key_pepper(tmp_path, {})
    assert "backup" in raised.value.hint
    assert path.read_bytes() == content


def test_one_that_others_can_read_is_an_error(tmp_path: Path) -> None:
    key_pepper(tmp_path, {})
    (tmp_path / "identity.key").chmod(0o644)
    with pytest.raises(ConfigError, match="can be read by others") as raised:
        key_pepper(tmp_path, {})
    assert "chmod 600" in raised.value.hint


def test_a_hash_tells_which_pepper_it_was_made_with(tmp_path: Path) -> None:
    here, there = PepperedHash(b"1" * 32), PepperedHash(b"2" * 32)
    hashed = here.hash("a33_x_y")
    assert here.made(hashed)
    assert not there.made(hashed)
    assert hashed != there.hash("a33_x_y") != here.hash("a33_x_z")
    assert len(hashed) == 36


def test_what_opens_the_server_is_kept_out_of_the_operations_log(tmp_path: Path) -> None:
    for secret in (local_token(tmp_path / ".fabric"), f"a33_0123456789ab_{'x' * 43}"):
        assert Redactor().text(f"got {secret} from there") == "got [redacted] from there"
