"""What git would execute in repositories below a project is as it was, whatever a run has put there."""

import subprocess
from pathlib import Path

import pytest

from agent_fabric.infrastructure.changes.nested_repositories import nested_repositories, put_back_orders
from services import need_program

EVIL = "[core]\n\tfsmonitor = touch {0}\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    need_program("git", package="git")
    return repository(tmp_path / "project")


def git(folder: Path, *arguments: str) -> None:
    who = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "advice.addEmbeddedRepo=false")
    subprocess.run(["git", *who, *arguments], cwd=folder, check=True, capture_output=True)


def repository(folder: Path) -> Path:
    folder.mkdir(parents=True)
    git(folder, "init", "-q")
    (folder / "file").write_text("one\n")
    git(folder, "add", "file")
    git(folder, "commit", "-qm", "one")
    return folder


def poison(repository: Path, executed: Path) -> None:
    with (repository / ".git" / "config").open("a") as config:
        config.write(EVIL.format(executed))


@pytest.mark.parametrize("where", ["lib", "node_modules/lib", "a/b/c"])
def test_a_repository_that_a_run_made_executes_nothing_when_a_person_asks_for_the_status(
    project: Path, tmp_path: Path, where: str
) -> None:
    before, executed = nested_repositories(project), tmp_path / "executed"
    inner = repository(project / where)
    poison(inner, executed)
    git(project, "-c", "core.fsmonitor=false", "add", "-f", where)
    executed.unlink(missing_ok=True)
    (project / where.split("/", maxsplit=1)[0]).chmod(0o311)
    assert put_back_orders(project, before) == [f"{where}/.git/config"]
    git(project, "status")
    assert not executed.exists()
    assert "fsmonitor" in (inner / ".git/config.refused").read_text()


def test_settings_and_hooks_of_a_repository_that_was_there_are_put_back(project: Path, tmp_path: Path) -> None:
    inner = repository(project / "vendor" / "lib")
    (inner / ".git/hooks/post-commit").write_text("#!/bin/sh\ntrue\n")
    was = (inner / ".git/config").read_text()
    before = nested_repositories(project)
    poison(inner, tmp_path / "executed")
    (inner / ".git/hooks/post-commit").write_text("#!/bin/sh\nevil\n")
    (inner / ".git/hooks/pre-commit").write_text("#!/bin/sh\nevil\n")
    undone = put_back_orders(project, before)
    assert sorted(undone) == [f"vendor/lib/.git/{name}" for name in ("config", "hooks/post-commit", "hooks/pre-commit")]
    assert (inner / ".git/config").read_text() == was
    assert "evil" not in (inner / ".git/hooks/post-commit").read_text()
    assert not (inner / ".git/hooks/pre-commit").exists()


@pytest.mark.parametrize("kind", ["folder", "file", "link"])
def test_a_submodule_is_not_led_to_another_repository(project: Path, kind: str) -> None:
    (project / "sub").mkdir()
    (project / "sub" / ".git").write_text("gitdir: ../.git/modules/sub\n")
    before = nested_repositories(project)
    (project / "sub" / ".git").unlink()
    match kind:
        case "folder":
            git(project / "sub", "init", "-q", ".")
        case "file":
            (project / "sub" / ".git").write_text("gitdir: ../elsewhere\n")
        case _:
            (project / "sub" / ".git").symlink_to("../elsewhere")
    assert put_back_orders(project, before) == ["sub/.git"]
    assert (project / "sub" / ".git").read_text() == "gitdir: ../.git/modules/sub\n"


def test_what_starts_nothing_is_left_as_it_is(project: Path) -> None:
    kept = repository(project / "kept")
    before = nested_repositories(project)
    git(kept, "config", "user.name", "somebody")
    repository(project / "made")
    assert put_back_orders(project, before) == []
    assert (project / "made/.git/config").exists()
