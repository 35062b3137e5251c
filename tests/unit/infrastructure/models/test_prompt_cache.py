"""Kept prompt_cache stay within their room."""

import os
from pathlib import Path

from agent_fabric.infrastructure.models.prompt_cache import adopt, prompt_cache_folder, remove_oldest, whole_file


def test_only_what_is_as_it_was_written_is_found(tmp_path: Path) -> None:
    assert whole_file(tmp_path, "a") is None
    (tmp_path / "a.7.part").write_bytes(b"read so far")
    adopt(tmp_path / "a.7.part", "a")
    kept = whole_file(tmp_path, "a")
    assert kept is not None
    assert kept.stat().st_mode & 0o777 == 0o600
    kept.write_bytes(b"read so")
    assert whole_file(tmp_path, "a") is None
    assert list(tmp_path.iterdir()) == []


def test_those_not_used_for_longest_go_first(tmp_path: Path) -> None:
    for age, name in enumerate(("newest", "middle", "oldest")):
        (tmp_path / name).write_bytes(b"x" * 100)
        os.utime(tmp_path / name, (1000 - age, 1000 - age))
    remove_oldest(tmp_path, 250)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["middle", "newest"]
    remove_oldest(tmp_path, 99)
    assert list(tmp_path.iterdir()) == []


def test_a_user_without_a_home_keeps_none() -> None:
    assert prompt_cache_folder({}) is None
    assert prompt_cache_folder({"HOME": "/home/me"}) == Path("/home/me/.cache/agent-fabric/prompts")
    assert prompt_cache_folder({"HOME": "/home/me", "XDG_CACHE_HOME": "/c"}) == Path("/c/agent-fabric/prompts")
