"""Commits that commands in a box make carry the user's name, and a repository's own settings go before."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from agent_fabric.infrastructure.sandbox.bubblewrap import BubblewrapSandbox
from agent_fabric.infrastructure.sandbox.git_identity import git_identity
from agent_fabric.infrastructure.sandbox.landlock import LandlockSandbox
from agent_fabric.infrastructure.sandbox.landlock_rules import landlock_version
from services import need, need_program

pytestmark = pytest.mark.proves("DU-1")

COMMIT = "git init -q . && git commit -q --allow-empty -m one && git log -1 --format='%an <%ae>'"


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """A user whose settings include another file, in which one half of the name stands."""
    home = tmp_path / "home"
    home.mkdir()
    (home / "more").write_text('[user]\n\temail = ann@example.org\n[core]\n\tpager = "touch /tmp/obeyed"\n')
    (home / ".gitconfig").write_text('[user]\n\tname = Ann \\"A\\" O\'Hara; \n[include]\n\tpath = more\n')
    return {"HOME": str(home), "PATH": os.environ["PATH"]}


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    return workspace


def test_name_and_address_are_all_that_enters(environment: dict[str, str]) -> None:
    assert git_identity(environment) == '[user]\n\tname = "Ann \\"A\\" O\'Hara"\n\temail = "ann@example.org"\n'


def test_a_user_without_a_name_has_no_settings(tmp_path: Path) -> None:
    assert git_identity({"HOME": str(tmp_path), "PATH": os.environ["PATH"]}) == ""
    assert git_identity({}) == ""


def test_changed_settings_and_variables_count_at_once(environment: dict[str, str]) -> None:
    assert "Ann" in git_identity(environment)
    Path(environment["HOME"], ".gitconfig").write_text("[user]\n\tname = Bea\n")
    assert git_identity(environment) == '[user]\n\tname = "Bea"\n'
    assert git_identity({**environment, "GIT_AUTHOR_NAME": "CI\n[alias]"}) == '[user]\n\tname = "CI[alias]"\n'


def test_a_repository_around_is_not_asked(environment: dict[str, str], workspace: Path) -> None:
    subprocess.run(["git", "init", "-q", str(workspace)], check=True)
    subprocess.run(["git", "-C", str(workspace), "config", "user.name", "Mallory"], check=True)
    assert "Mallory" not in git_identity({**environment, "GIT_DIR": str(workspace / ".git")})


async def test_a_commit_at_level_a_is_the_users(environment: dict[str, str], workspace: Path) -> None:
    need_program("bwrap", package="bubblewrap")
    box = BubblewrapSandbox(workspace, "test-run", environment=environment)
    try:
        outcome = await box.run_command(COMMIT, timeout_s=30)
        assert outcome.stdout.decode().strip() == 'Ann "A" O\'Hara <ann@example.org>', outcome
        own = "git -c user.name=Own commit -q --allow-empty -m two && git log -1 --format=%an"
        assert (await box.run_command(own, timeout_s=30)).stdout.decode().strip() == "Own"
    finally:
        await box.aclose()


async def test_a_commit_at_level_b_is_the_users(environment: dict[str, str], workspace: Path) -> None:
    need(sys.platform == "linux" and landlock_version() >= 6, "needs Linux with Landlock of version 6 or later")
    box = LandlockSandbox(workspace, "test-run", environment=environment)
    try:
        outcome = await box.run_command(COMMIT, timeout_s=30)
        assert outcome.stdout.decode().strip() == 'Ann "A" O\'Hara <ann@example.org>', outcome
    finally:
        await box.aclose()
