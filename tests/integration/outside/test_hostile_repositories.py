"""A repository that a run has made up shows on the card what is pushed, or is not pushed."""

import subprocess
import zlib
from hashlib import sha1
from pathlib import Path

import pytest

from agent_fabric.domain.ids import RunId
from agent_fabric.domain.policy.outside import outside_call
from agent_fabric.domain.policy.outside_plan import CannotRunOutside, Outside
from agent_fabric.domain.tools.specs import ToolResult
from agent_fabric.infrastructure.policy.outside.commands import UsersCommands
from services import need_program

pytestmark = pytest.mark.proves("DU-1")
RUN = RunId("11111111-1111-4111-8111-111111111111")


def git(folder: Path, *words: str, given: str | None = None) -> str:
    who = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "core.commitGraph=false")
    done = subprocess.run(["git", *who, *words], cwd=folder, input=given, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def commit(folder: Path, subject: str) -> str:
    git(folder, "commit", "-q", "--allow-empty", "--cleanup=verbatim", "-F", "-", given=subject)
    return git(folder, "rev-parse", "HEAD")


@pytest.fixture
def at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    need_program("git", "git")
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    git(tmp_path, "init", "-q", "--bare", "-b", "main", "remote.git")
    project = tmp_path / "project"
    project.mkdir()
    git(project, "init", "-q", "-b", "main")
    git(project, "remote", "add", "origin", str(tmp_path / "remote.git"))
    commit(project, "The first one")
    return project


async def planned(at: Path, line: str = "git push origin main") -> Outside:
    call = outside_call(line)
    assert call is not None
    plan = await UsersCommands().plan(call, RUN, str(at))
    assert plan is not None
    return plan


async def pushed(at: Path, agreed: Outside, line: str = "git push origin main") -> ToolResult:
    call = outside_call(line)
    assert call is not None
    return await UsersCommands().run(agreed, call, RUN, str(at), timeout_s=30)


def over_there(at: Path) -> str:
    return git(at.parent / "remote.git", "for-each-ref")


async def test_a_made_up_remote_branch_does_not_hide_commits(at: Path) -> None:
    hidden = commit(at, "Secret plans")
    commit(at, "Harmless")
    git(at, "update-ref", "refs/remotes/origin/main", hidden)
    plan = await planned(at)
    assert "Secret plans" not in " ".join(plan.carries)
    result = await pushed(at, plan)
    assert result.output["exit_code"] != 0, "it was not there, so more would have been pushed than was shown"
    assert not over_there(at)


async def test_a_forced_push_replaces_only_what_was_shown(at: Path) -> None:
    git(at, "push", "-q", "origin", "main")
    commit(at, "Of another person")
    git(at, "push", "-q", "origin", "main")
    git(at, "reset", "-q", "HEAD~1")
    git(at, "update-ref", "refs/remotes/origin/main", "HEAD")
    commit(at, "Mine")
    before = over_there(at)
    line = "git push --force origin main"
    plan = await planned(at, line)
    assert "forced" in plan.carries[0]
    assert (await pushed(at, plan, line)).output["exit_code"] != 0
    assert over_there(at) == before
    git(at, "fetch", "-q")
    assert (await pushed(at, await planned(at, line), line)).output["exit_code"] == 0
    assert over_there(at) != before


async def test_what_is_behind_is_not_forced(at: Path) -> None:
    git(at, "push", "-q", "origin", "main")
    commit(at, "Of another person")
    git(at, "push", "-q", "origin", "main")
    git(at, "reset", "-q", "HEAD~1")
    with pytest.raises(CannotRunOutside, match="other commits"):
        await planned(at)


async def test_a_known_branch_is_pushed_further(at: Path) -> None:
    git(at, "push", "-q", "origin", "main")
    head = commit(at, "More")
    plan = await planned(at)
    assert "1 commit more" in plan.carries[0]
    assert (await pushed(at, plan)).output["exit_code"] == 0
    assert head in over_there(at)


async def test_a_folder_of_ours_is_no_place_to_push_to(at: Path) -> None:
    other = at.parent / ".fabric" / "workspaces" / "other" / "x.git"
    other.mkdir(parents=True)
    with pytest.raises(CannotRunOutside):
        await planned(at, f"git push {other} main")


@pytest.mark.parametrize("target", ["refs/tags/v1", "refs/for/main"])
async def test_a_new_tag_shows_its_commits(at: Path, target: str) -> None:
    commit(at, "Secret plans")
    git(at, "update-ref", target, "HEAD")
    plan = await planned(at, f"git push origin {target}")
    assert "not known" in plan.carries[0]
    assert "Secret plans" in " ".join(plan.carries)


async def test_no_subject_passes_for_another_line(at: Path) -> None:
    marks = "\u2028\u2029\x85\x0b\x0c\x1c\r"
    commit(at, "One" + "".join(f"{mark}abcdef0 Ada: Forged" for mark in marks) + "x" * 5_000)
    plan = await planned(at)
    assert len(plan.carries) == 3
    assert all(len(line) < 250 for line in plan.carries)


async def test_a_history_that_is_cut_off_is_told(at: Path) -> None:
    git(at, "push", "-q", "origin", "main")
    git(at, "checkout", "-q", "-b", "evil")
    hidden = commit(at, "Evil")
    end = commit(at, "Harmless")
    git(at, "checkout", "-q", "main")
    tree = git(at, "rev-parse", "HEAD^{tree}")
    merged = git(at, "commit-tree", tree, "-p", "HEAD", "-p", end, "-m", "Merge")
    git(at, "update-ref", "refs/heads/main", merged)
    (at / ".git" / "shallow").write_text(f"{end}\n")
    plan = await planned(at)
    assert any(hidden in line for line in plan.carries)


async def test_another_text_under_a_hash_is_not_shown(at: Path) -> None:
    shown = commit(at, "Evil")
    data = git(at, "cat-file", "commit", shown).replace("Evil", "Fine").encode()
    whole = b"commit %d\0" % len(data) + data
    assert sha1(whole, usedforsecurity=False).hexdigest() != shown
    place = at / ".git" / "objects" / shown[:2] / shown[2:]
    place.unlink()
    place.write_bytes(zlib.compress(whole))
    with pytest.raises(CannotRunOutside):
        await planned(at)


async def test_a_table_of_commits_does_not_tell_another_history(at: Path) -> None:
    git(at, "push", "-q", "origin", "main")
    commit(at, "Secret plans")
    commit(at, "Harmless")
    git(at, "commit-graph", "write", "--reachable")
    for graph in (at / ".git" / "objects" / "info").glob("commit-graph*"):
        graph.chmod(0o644)
        graph.write_bytes(b"CGPH nonsense")
    assert "2 commits more" in (await planned(at)).carries[0]


@pytest.mark.parametrize("what", ["pack", "a1", "info/alternates"])
async def test_objects_of_other_repositories_are_not_borrowed(at: Path, what: str) -> None:
    private = at.parent / "private"
    private.mkdir()
    place = at / ".git" / "objects" / what
    if place.is_dir():
        place.rmdir()
    place.symlink_to(private)
    with pytest.raises(CannotRunOutside):
        await planned(at)


async def test_a_folder_whose_name_has_several_lines_is_refused(at: Path) -> None:
    inner = at / "x\n" / "tmp"
    inner.mkdir(parents=True)
    (at / ".git").rename(inner / ".git")
    with pytest.raises(CannotRunOutside):
        await planned(at, "git -C 'x\n/tmp' push origin main")
