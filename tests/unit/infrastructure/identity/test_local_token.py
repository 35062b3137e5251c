"""The token of a folder: made once, private, and never one that others put there or could have read."""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from agent_fabric.domain.errors import ConfigError
from agent_fabric.infrastructure.identity.local_token import (
    LocalToken,
    local_token,
    read_local_token,
    rotate_local_token,
    token_file,
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / ".fabric"


def put(root: Path, content: bytes, mode: int = 0o600) -> None:
    root.mkdir(exist_ok=True)
    token_file(root).write_bytes(content)
    token_file(root).chmod(mode)


@pytest.mark.proves("A33-011")
def test_it_is_made_once_for_its_owner_only_and_hidden_from_git(root: Path) -> None:
    assert read_local_token(root) is None
    assert not root.exists(), "reading makes nothing"
    token = local_token(root)
    assert local_token(root) == read_local_token(root) == token
    assert token_file(root).read_text() == f"{token}\n"
    assert token_file(root).stat().st_mode & 0o777 == 0o600
    assert (root / ".gitignore").read_text() == "*\n"
    assert sorted(path.name for path in root.iterdir()) == [".gitignore", "runs", "token"]


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o620, 0o602, 0o666])
def test_one_that_others_could_have_read_or_written_is_replaced(root: Path, mode: int) -> None:
    old = local_token(root)
    token_file(root).chmod(mode)
    assert read_local_token(root) is None
    assert local_token(root) != old
    assert token_file(root).stat().st_mode & 0o777 == 0o600


def test_a_link_is_neither_followed_nor_written_through(root: Path, tmp_path: Path) -> None:
    local_token(root)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("k" * 43)
    elsewhere.chmod(0o600)
    for target in (elsewhere, tmp_path / "nothing"):
        token_file(root).unlink()
        token_file(root).symlink_to(target)
        assert read_local_token(root) is None
        assert local_token(root) != "k" * 43
        assert not token_file(root).is_symlink()
    assert elsewhere.read_text() == "k" * 43
    assert not (tmp_path / "nothing").exists()


@pytest.mark.parametrize("content", [b"", b"\n", b"short", b"two\nlines" * 20, b"\xff" * 64, b"x" * 100_000])
def test_what_is_no_token_is_replaced(root: Path, content: bytes) -> None:
    put(root, content)
    assert read_local_token(root) is None
    assert local_token(root).startswith("local_")


def test_something_else_in_its_place_is_explained(root: Path) -> None:
    token_file(root).mkdir(parents=True)
    with pytest.raises(ConfigError, match="cannot be written"):
        local_token(root)
    token_file(root).rmdir()
    os.mkfifo(token_file(root))
    assert read_local_token(root) is None, "and nobody waits for who would write into it"
    assert local_token(root).startswith("local_")


def test_of_many_who_make_it_at_once_all_get_the_same(root: Path) -> None:
    with ThreadPoolExecutor(8) as threads:
        tokens = set(threads.map(lambda _: local_token(root), range(32)))
    assert tokens == {read_local_token(root)}


def test_a_new_one_takes_the_place_of_the_old(root: Path) -> None:
    old = local_token(root)
    assert rotate_local_token(root) != old
    assert read_local_token(root) != old


def test_whoever_asks_often_sees_every_change(root: Path) -> None:
    now = LocalToken(root)
    assert now() is None
    first = local_token(root)
    assert now() == now() == first
    second = rotate_local_token(root)
    assert now() == second
    token_file(root).chmod(0o644)
    assert now() is None
    token_file(root).chmod(0o600)
    assert now() == second
    token_file(root).unlink()
    assert now() is None
