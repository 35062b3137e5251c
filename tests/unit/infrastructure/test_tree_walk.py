"""Trees as hostile programs make them."""

import os
import random
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_fabric.infrastructure.tree_walk import TreeTooDeep, remove_tree, walk_tree
from plain_user import plain_user

LEVELS = 10_000


def make_deep(top: Path, levels: int = LEVELS) -> None:
    """Make folders in folders: their path is much longer than the system takes."""
    here = os.open(top, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir("deep", dir_fd=here)
        below = os.open("deep", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    end = os.open("end", os.O_CREAT | os.O_WRONLY, dir_fd=here)
    os.write(end, b"x" * 100)
    os.close(end)
    os.close(here)


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.fixture
def top(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "top"
    folder.mkdir()
    yield folder
    remove_tree(folder)


@pytest.mark.slow
def test_a_tree_without_an_end_is_walked_as_far_as_the_limit_and_then_said_to_be_too_deep(top: Path) -> None:
    make_deep(top)
    before = open_files()
    found = list(walk_tree(top, max_depth=60))
    assert len(found) == 60
    assert isinstance(found[-1].problem, TreeTooDeep)
    assert [each.problem for each in found[:-1]] == [None] * 59
    assert open_files() == before


@pytest.mark.slow
def test_a_tree_of_any_depth_is_removed(top: Path) -> None:
    make_deep(top)
    before = open_files()
    assert remove_tree(top) > 100
    assert not top.exists()
    assert open_files() == before


@pytest.mark.parametrize("seed", range(30))
def test_whatever_lies_in_a_tree_is_walked_and_removed(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "stays").write_text("x")
    top = tmp_path / "top"
    folders, expected = [top], set[str]()
    top.mkdir()
    for number in range(chance.randrange(1, 80)):
        place = chance.choice(folders) / chance.choice([f"n{number}", f"{number} ä\n", "x" * 255])
        if place.exists() or place.is_symlink():
            continue
        match chance.randrange(5):
            case 0 | 1:
                place.mkdir()
                folders.append(place)
            case 2:
                place.symlink_to(outside)
            case 3:
                os.mkfifo(place)
            case _:
                place.write_bytes(b"y" * chance.randrange(5_000))
        expected.add(str(place.relative_to(top)))
    found = {each.path: each for each in walk_tree(top)}
    assert set(found) == expected
    assert all(stat.S_ISLNK(each.status.st_mode) for path, each in found.items() if (top / path).is_symlink())
    for folder in chance.sample(folders, k=len(folders) // 2):
        folder.chmod(chance.choice([0o000, 0o500, 0o300]))
    remove_tree(top)
    assert not top.exists()
    assert (outside / "stays").read_text() == "x"


def test_a_folder_that_cannot_be_listed_is_told() -> None:
    with plain_user() as top:
        (top / "closed").mkdir(mode=0o000)
        (found,) = walk_tree(top)
        assert isinstance(found.problem, PermissionError)


def test_a_closed_folder_is_removed_with_what_is_in_it() -> None:
    with plain_user() as top:
        (top / "closed" / "inner").mkdir(parents=True)
        (top / "closed" / "file").touch()
        (top / "closed").chmod(0o000)
        remove_tree(top / "closed")
        assert list(top.iterdir()) == []


def test_a_tree_that_changes_all_the_time_is_walked_to_the_end(top: Path) -> None:
    over = threading.Event()

    def change() -> None:
        number = 0
        while not over.is_set():
            number += 1
            place = top / str(number % 7)
            place.mkdir(exist_ok=True)
            (place / "file").write_text("x")
            target = top / f"moved{number % 5}"
            if not target.exists():
                place.rename(target)
            remove_tree(top / f"moved{(number + 2) % 5}")

    changing = threading.Thread(target=change)
    changing.start()
    try:
        for _ in range(300):
            for found in walk_tree(top):
                assert found.problem is None
    finally:
        over.set()
        changing.join()
    assert open_files() < 200


def test_what_has_become_a_link_is_not_removed(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "file").write_text("x")
    (tmp_path / "link").symlink_to("real")
    assert remove_tree(tmp_path / "link") == 0
    assert (tmp_path / "real" / "file").exists()
