"""Files that other programs obey are put aside, whatever a command did to keep them."""

from collections.abc import Callable
from pathlib import Path

import pytest

from agent_fabric.domain.policy.protected import PROTECTED_AT_TOP
from agent_fabric.infrastructure.sandbox.mounts_protected import ProtectedPaths


@pytest.fixture
def watched(tmp_path: Path) -> ProtectedPaths:
    paths = ProtectedPaths(tmp_path, PROTECTED_AT_TOP)
    list(paths.cover())
    return paths


def take_every_name(workspace: Path) -> None:
    for nth in range(200):
        (workspace / f".envrc.refused{nth or ''}").touch()


def close_to_writing(workspace: Path) -> None:
    workspace.chmod(0o555)


def close_to_reading(workspace: Path) -> None:
    workspace.chmod(0o311)


@pytest.mark.parametrize("trick", [take_every_name, close_to_writing, close_to_reading])
def test_a_command_cannot_keep_what_it_made_at_a_protected_name(
    watched: ProtectedPaths, tmp_path: Path, trick: Callable[[Path], None]
) -> None:
    (tmp_path / ".envrc").write_text("evil\n")
    trick(tmp_path)
    assert watched.undo(has_ended=True) == [".envrc"]
    assert not (tmp_path / ".envrc").exists()


@pytest.mark.parametrize("mode", [0o555, 0o311])
def test_nor_a_hook_in_a_repository_that_it_made(watched: ProtectedPaths, tmp_path: Path, mode: int) -> None:
    (tmp_path / ".git/hooks").mkdir(parents=True)
    (tmp_path / ".git/hooks/post-commit").write_text("evil\n")
    for nth in range(200):
        (tmp_path / f".git/hooks.refused{nth or ''}/x").mkdir(parents=True)
    (tmp_path / ".git").chmod(mode)
    assert watched.undo(has_ended=True) == [".git/hooks"]
    assert not (tmp_path / ".git/hooks").exists()


@pytest.mark.parametrize("folder", [".yarn", ".hg"])
def test_nor_a_link_in_the_place_of_a_folder_with_protected_names(
    watched: ProtectedPaths, tmp_path: Path, folder: str
) -> None:
    (tmp_path / "evil/releases").mkdir(parents=True)
    (tmp_path / "evil/hgrc").write_text("evil\n")
    (tmp_path / folder).symlink_to("evil")
    assert watched.is_changed()
    assert watched.undo(has_ended=False) == [folder]
    assert not (tmp_path / folder).is_symlink()


@pytest.mark.parametrize("folder", [".git", ".yarn", ".hg"])
def test_a_folder_around_protected_names_is_mounted_so_that_it_cannot_be_moved_away(
    tmp_path: Path, folder: str
) -> None:
    (tmp_path / folder).mkdir()
    assert (tmp_path / folder, True) in list(ProtectedPaths(tmp_path, PROTECTED_AT_TOP).cover())
