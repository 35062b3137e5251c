"""What a box has written is counted whole, or not at all."""

import os
import time
from pathlib import Path

import pytest

from agent_fabric.config.schema.sandbox import SandboxLimits
from agent_fabric.infrastructure.sandbox import landlock_watch, limits
from agent_fabric.infrastructure.sandbox.resource_use import OverLimit, written_since
from agent_fabric.infrastructure.tree_walk import remove_tree
from plain_user import plain_user
from unit.infrastructure.test_tree_walk import make_deep

MB = 1 << 20
LONG_AGO = 0.0


def count(folder: Path, since: float = LONG_AGO, *, files: int = 1_000, depth: int = 50) -> int:
    return written_since(folder, since, files=files, depth=depth)


def test_a_file_with_many_names_counts_once_and_holes_do_not_count(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(os.urandom(MB))
    for number in range(20):
        (tmp_path / f"link{number}").hardlink_to(tmp_path / "file")
    with (tmp_path / "holes").open("wb") as file:
        file.truncate(1_000 * MB)
    assert MB <= count(tmp_path) < 2 * MB


def test_what_was_there_before_does_not_count(tmp_path: Path) -> None:
    (tmp_path / "old").write_bytes(b"x" * MB)
    assert count(tmp_path, time.time() + 10) == 0


@pytest.mark.slow
def test_too_many_levels_and_too_many_files_are_told_with_their_setting(tmp_path: Path) -> None:
    make_deep(tmp_path, 10_000)
    with pytest.raises(OverLimit, match=r"sandbox\.limits\.depth = 50"):
        count(tmp_path)
    remove_tree(tmp_path / "deep")
    for number in range(101):
        (tmp_path / str(number)).touch()
    with pytest.raises(OverLimit, match=r"sandbox\.limits\.files = 100"):
        count(tmp_path, files=100)


def test_a_folder_that_cannot_be_listed_is_over_the_limit_unless_it_was_there_before() -> None:
    with plain_user() as folder:
        (folder / "closed").mkdir(mode=0o000)
        with pytest.raises(OverLimit, match="closed"):
            count(folder)
        assert count(folder, time.time() + 10) == 0


@pytest.mark.parametrize("level", ["bubblewrap", "landlock"])
def test_the_watch_of_a_box_tells_that_a_tree_is_too_deep(tmp_path: Path, level: str) -> None:
    allowed = SandboxLimits(depth=20)
    watch: limits.Watch | landlock_watch.Watch
    if level == "bubblewrap":
        watch = limits.Watch(allowed, os.getpid(), tmp_path)
    else:
        watch = landlock_watch.Watch(allowed.model_dump(), (str(tmp_path),))
    watch._whole_look_at = 0.0
    make_deep(tmp_path, 2_000)
    assert "sandbox.limits.depth = 20" in watch.look()
    remove_tree(tmp_path / "deep")
    watch._whole_look_at = 0.0
    assert watch.look() == ""
