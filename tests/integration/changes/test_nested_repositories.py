"""What git would execute in repositories below a project is as it was, whatever a run has put there."""

import subprocess
from pathlib import Path

import pytest

from agent_fabric.infrastructure.runs.changes.nested_repositories import nested_repositories, put_back_orders
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


def shape_like_bare(folder: Path, settings: str) -> Path:
    for name in ("objects", "refs"):
        (folder / name).mkdir(parents=True)
    (folder / "HEAD").write_text("ref: refs/heads/main\n")
    (folder / "config").write_text(settings)
    return folder


@pytest.mark.parametrize("where", ["docs", "node_modules/a/b"])
def test_a_folder_shaped_like_a_repository_executes_nothing_when_a_person_uses_git_in_it(
    project: Path, tmp_path: Path, where: str
) -> None:
    before, executed = nested_repositories(project), tmp_path / "executed"
    folder = shape_like_bare(
        project / where,
        f"[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tworktree = ..\n\tfsmonitor = touch {executed}\n",
    )
    git(folder, "status")
    assert executed.exists(), "git does not obey such a folder any more, so this shows nothing"
    executed.unlink()
    assert put_back_orders(project, before) == [f"{where}/HEAD"]
    git(folder, "status")
    assert not executed.exists()


def test_a_project_without_a_repository_does_not_become_one_by_its_shape(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    before = nested_repositories(project)
    shape_like_bare(project, "[alias]\n\tst = !evil\n")
    assert put_back_orders(project, before) == ["./HEAD"]
    assert not (project / "HEAD").exists()


def test_a_folder_that_leads_git_elsewhere_is_no_repository_any_more(project: Path) -> None:
    before = nested_repositories(project)
    (project / "docs").mkdir()
    (project / "docs/HEAD").write_text("ref: refs/heads/main\n")
    (project / "docs/commondir").write_text("../evil\n")
    assert put_back_orders(project, before) == ["docs/HEAD"]


def test_bare_repositories_that_start_nothing_stay_and_settings_of_old_ones_are_put_back(project: Path) -> None:
    git(project, "init", "-q", "--bare", "old.git")
    before, was = nested_repositories(project), (project / "old.git/config").read_text()
    git(project, "init", "-q", "--bare", "new.git")
    (project / "old.git/config").write_text("[core]\n\tpager = evil\n")
    (project / "old.git/hooks/pre-receive").write_text("#!/bin/sh\nevil\n")
    assert sorted(put_back_orders(project, before)) == ["old.git/config", "old.git/hooks/pre-receive"]
    assert (project / "old.git/config").read_text() == was
    assert (project / "new.git/HEAD").exists()
