"""What a person has agreed to is done: outside the box, and nothing but that."""

import asyncio
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from agent_fabric.application.ports.approvals import Answer, ApprovalCard
from agent_fabric.application.ports.workflows import SoundWorkflow
from agent_fabric.application.runs.new_task import task_from
from agent_fabric.bootstrap.local import LocalFabric
from agent_fabric.bootstrap.records import owner_here
from agent_fabric.bootstrap.workflows import open_workflows
from agent_fabric.config.loader import read_config
from agent_fabric.domain.approvals.answers import Decision, Reach
from agent_fabric.domain.approvals.events import ApprovalRequested
from agent_fabric.domain.errors import ApprovalRefused
from agent_fabric.domain.events import Body, ToolCalled, ToolErred, ToolReturned
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.task import RunResult, RunStatus
from agent_fabric.domain.workflows.definition import definition_from
from agent_fabric.testing.scripted_model import Call, Finish, Script, ScriptedModel
from e2e.fabric_process import local_fabric, settings
from free_ports import free_port
from services import need, need_program

DONE = Finish(summary="done")

pytestmark = pytest.mark.proves("DU-1")


@pytest.fixture(autouse=True)
def _git() -> None:
    need_program("git", "git")


def git(folder: Path, *words: str) -> str:
    who = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")
    done = subprocess.run(["git", *who, *words], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@dataclass
class Project:
    """A project with a commit, and a bare repository elsewhere."""

    folder: Path
    configured: dict[str, Any] = field(default_factory=dict)

    @property
    def at(self) -> Path:
        return self.folder / "project"

    @property
    def remote(self) -> Path:
        return self.folder / "remote.git"

    @property
    def pushed(self) -> str:
        """The commit of the branch in the remote repository; empty: it is not there."""
        words = ("rev-parse", "--verify", "--quiet", "refs/heads/main")
        done = subprocess.run(["git", *words], cwd=self.remote, capture_output=True, text=True, check=False)
        return done.stdout.strip()

    @asynccontextmanager
    async def fabric(self, *commands: str) -> AsyncIterator["Runs"]:
        script = [Call("shell", {"command": command}) for command in commands]
        async with ScriptedModel(Script(turns=(*script, DONE, DONE))) as model:
            configured = settings(model.base_url, **self.configured)
            async with local_fabric(self.folder, configured) as fabric:
                need(fabric.execute_task.sandbox_level != "C", "needs bubblewrap")
                yield Runs(self, fabric, configured, model)


@dataclass
class Runs:
    project: Project
    fabric: LocalFabric
    configured: dict[str, Any]
    model: ScriptedModel

    async def start(self, *, outside: bool = True, here: bool = True) -> RunResult:
        config = read_config({}, overrides=self.configured).config
        task = task_from(config, "push it", pack="engineering", project=self.project.at if here else None)
        return await self.fabric.execute_task(replace(task, outside_allowed=outside))

    async def card(self, result: RunResult) -> ApprovalCard:
        assert result.status is RunStatus.WAITING, await self.told(result.run_id)
        (waiting,) = result.waiting_for
        return await self.fabric.records.approvals.find(waiting)

    async def answer(self, result: RunResult, args: dict[str, Any] | None = None) -> RunResult:
        answer = Answer(decision=Decision.APPROVE, by="ada", via="a test", reach=Reach.ONCE, args=args)
        await self.fabric.decide_approval(result.waiting_for[0], answer, by=owner_here())
        return await self.fabric.resume_run(result.run_id)

    async def told(self, run_id: RunId) -> list[Body]:
        return [event.body for event in await self.fabric.records.runs.read(run_id)]

    async def one(self, run_id: RunId, kind: type[Any]) -> Any:
        return [body for body in await self.told(run_id) if isinstance(body, kind) and body.tool == "shell"][-1]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    made = Project(tmp_path)
    made.at.mkdir()
    git(tmp_path, "init", "-q", "--bare", "-b", "main", "remote.git")
    git(made.at, "init", "-q", "-b", "main")
    (made.at / "a.txt").write_text("one\n")
    git(made.at, "add", ".")
    git(made.at, "commit", "-qm", "The first one")
    git(made.at, "remote", "add", "origin", str(made.remote))
    return made


@pytest.mark.proves("AF-125")
async def test_an_approved_push_arrives(project: Project) -> None:
    head = git(project.at, "rev-parse", "HEAD")
    async with project.fabric("git push origin main") as runs:
        result = await runs.start()
        assert not project.pushed
        card = await runs.card(result)
        assert card.outside is not None
        assert card.outside.goes_to == str(project.remote) == card.destination
        assert any("The first one" in line for line in card.outside.carries)
        assert not card.alike, "agreeing for the whole run would cover what was not shown"
        result = await runs.answer(result)
        assert result.status is RunStatus.COMPLETED, await runs.told(result.run_id)
        returned = await runs.one(result.run_id, ToolReturned)
        assert returned.result["exit_code"] == 0
        assert "outside the box" in returned.result["ran"]
        assert returned.origin == f"outside: {project.remote}"
        called = await runs.one(result.run_id, ToolCalled)
        assert called.outside == card.outside
        assert called.approved_by == "ada"
        assert returned.result["note"].endswith("Set it: git branch --set-upstream-to=origin/main main")
    assert project.pushed == head
    assert git(project.at, "rev-parse", "refs/remotes/origin/main") == head, "as git itself notes it"
    git(project.at, "branch", "--set-upstream-to=origin/main", "main")
    git(project.at, "commit", "-qm", "Another one", "--allow-empty")
    async with project.fabric("git push origin main") as runs:
        returned = await runs.one((await runs.answer(await runs.start())).run_id, ToolReturned)
        assert "note" not in returned.result, "there is an upstream now"


async def test_a_push_with_nothing_to_push_asks_nobody_and_runs_nothing(project: Project) -> None:
    git(project.at, "push", "-q", "origin", "main")
    head = project.pushed
    async with project.fabric("git push origin main") as runs:
        result = await runs.start()
        assert result.status is RunStatus.COMPLETED, await runs.told(result.run_id)
        returned = await runs.one(result.run_id, ToolReturned)
        assert returned.result["not_run"].startswith(f"Nothing to push: origin already has main ({head[:10]})")
        assert "exit_code" not in returned.result, "it is no proof of a push"
        assert "git branch --set-upstream-to=origin/main main" in returned.result["not_run"]
        assert not [body for body in await runs.told(result.run_id) if isinstance(body, ApprovalRequested)]
    assert project.pushed == head


async def test_what_the_repository_does_not_know_to_be_there_is_still_asked_about(project: Project) -> None:
    git(project.at, "push", "-q", "origin", "main")
    git(project.at, "tag", "v1")
    for command in ("git push origin main v1", "git push origin :main", "git push origin main:other"):
        async with project.fabric(command) as runs:
            assert (await runs.card(await runs.start())).outside is not None


async def test_a_step_with_nothing_to_push_succeeds(project: Project) -> None:
    git(project.at, "push", "-q", "origin", "main")
    steps = [{"id": "push", "action": "run-command", "command": "git push origin main"}]
    plain: dict[str, Any] = {"name": "job", "version": "1.0.0", "steps": steps}
    async with project.fabric() as runs:
        workflows = open_workflows(project.folder / ".fabric", read_config({}, overrides=runs.configured).config)
        sound = SoundWorkflow(plain=plain, definition=definition_from(plain), source="")
        result = await runs.fabric.execute_task(workflows.task(sound, {}, project=project.at))
        assert result.status is RunStatus.COMPLETED, result.error


async def test_neither_hooks_nor_settings_of_the_workspace_are_obeyed(project: Project) -> None:
    fired = project.folder / "fired"
    hook = project.at / ".git" / "hooks" / "pre-push"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {fired}\n")
    hook.chmod(0o755)
    evil = f"sh -c 'touch {fired}'"
    for name, value in {
        "core.sshCommand": evil,
        "core.hooksPath": str(hook.parent),
        "core.fsmonitor": evil,
        "core.gitProxy": evil,
        "credential.helper": f"!{evil}",
        "remote.origin.receivepack": f"touch {fired}; git-receive-pack",
        "remote.origin.vcs": "evil",
        "alias.push": f"!{evil}",
        "push.gpgSign": "true",
        "gpg.program": str(hook),
        f"url.ext::{evil} .insteadOf": str(project.remote),
        "include.path": str(project.at / "more.config"),
    }.items():
        git(project.at, "config", "--file", ".git/config", name, value)
    (project.at / "more.config").write_text(f'[remote "origin"]\n\tpushurl = "ext::{evil}"\n')
    async with project.fabric("git push") as runs:
        result = await runs.answer(await runs.start())
        assert result.status is RunStatus.COMPLETED, await runs.told(result.run_id)
    assert project.pushed
    assert not fired.exists()


@pytest.mark.parametrize("address", ["ext::sh -c touch% fired", "evil::x", "-oProxyCommand=touch fired"])
async def test_an_address_that_starts_a_program_is_refused(project: Project, address: str) -> None:
    git(project.at, "config", "remote.origin.url", address)
    async with project.fabric("git push origin main") as runs:
        result = await runs.start()
        assert result.status is RunStatus.COMPLETED
        erred = await runs.one(result.run_id, ToolErred)
        assert erred.error_type == "CannotRunOutside"


async def test_commits_made_after_the_agreement_are_not_pushed(project: Project) -> None:
    async with project.fabric("git push origin main") as runs:
        result = await runs.start()
        git(project.at, "commit", "-qm", "Another one", "--allow-empty")
        result = await runs.answer(result)
        erred = await runs.one(result.run_id, ToolErred)
        assert "no longer what the person agreed to" in erred.error_message
    assert not project.pushed


async def test_another_address_after_the_agreement_is_not_used(project: Project) -> None:
    git(project.folder, "init", "-q", "--bare", "evil.git")
    async with project.fabric("git push origin main") as runs:
        result = await runs.start()
        git(project.at, "config", "remote.origin.url", str(project.folder / "evil.git"))
        result = await runs.answer(result)
        assert "no longer what the person agreed to" in (await runs.one(result.run_id, ToolErred)).error_message
    assert not git(project.folder / "evil.git", "for-each-ref")


async def test_a_changed_call_is_asked_about_again_with_what_it_does(project: Project) -> None:
    git(project.at, "branch", "other")
    async with project.fabric("git push origin main") as runs:
        first = await runs.start()
        second = await runs.answer(first, {"command": "git push origin other"})
        card = await runs.card(second)
        assert card.approval_id != first.waiting_for[0]
        assert card.outside is not None
        assert any("refs/heads/other" in line for line in card.outside.carries)
        result = await runs.answer(second)
        assert result.status is RunStatus.COMPLETED
    assert "refs/heads/other" in git(project.remote, "for-each-ref")
    assert not project.pushed


async def test_no_agreement_for_the_run_reaches_the_outside(project: Project) -> None:
    async with project.fabric("git push origin main", "git push origin main:other") as runs:
        first = await runs.start()
        answer = Answer(decision=Decision.APPROVE, by="ada", via="a test", reach=Reach.RUN)
        with pytest.raises(ApprovalRefused):
            await runs.fabric.decide_approval(first.waiting_for[0], answer, by=owner_here())
        second = await runs.answer(first)
        assert project.pushed
        card = await runs.card(second)
        assert card.outside is not None
    assert "other" not in git(project.remote, "for-each-ref")


async def test_an_agreement_to_run_in_the_box_does_not_reach_the_outside(project: Project) -> None:
    git(project.at, "init", "-q", "--bare", "inner.git")
    git(project.at, "config", "remote.origin.url", "inner.git")
    async with project.fabric("git push origin main") as runs:
        result = await runs.start()
        git(project.at, "config", "remote.origin.url", str(project.remote))
        result = await runs.answer(result)
        called = await runs.one(result.run_id, ToolCalled)
        assert called.outside is None
    assert not project.pushed


@pytest.mark.proves("DB-10")
@pytest.mark.parametrize("forbidden", ["by the configuration", "for the run"])
async def test_nothing_runs_outside_where_that_is_forbidden(project: Project, forbidden: str) -> None:
    if forbidden == "by the configuration":
        project.configured = {"policy": {"outside": "never"}}
    async with project.fabric("git push origin main") as runs:
        result = await runs.start(outside=forbidden == "by the configuration")
        assert result.status is RunStatus.COMPLETED, "nobody is asked for what will not be done"
        erred = await runs.one(result.run_id, ToolErred)
        assert "may not leave its box" in erred.error_message
        assert erred.proposal == "git push origin main"
    assert not project.pushed


@pytest.mark.proves("DB-10")
async def test_a_line_with_a_push_in_it_is_refused_without_a_question_as_well(project: Project) -> None:
    async with project.fabric("git commit -qam more && git push origin main") as runs:
        result = await runs.start(outside=False)
        assert result.status is RunStatus.COMPLETED
        assert "may not leave its box" in (await runs.one(result.run_id, ToolErred)).error_message


async def test_a_push_inside_the_workspace_may_be_agreed_to_where_nothing_runs_outside(project: Project) -> None:
    git(project.at, "init", "-q", "--bare", "inner.git")
    git(project.at, "config", "remote.origin.url", "inner.git")
    async with project.fabric("git push origin main") as runs:
        result = await runs.answer(await runs.start(outside=False))
        assert (await runs.one(result.run_id, ToolReturned)).result["exit_code"] == 0
    assert git(project.at / "inner.git", "for-each-ref")


async def test_what_was_agreed_to_is_not_done_once_it_is_forbidden(project: Project) -> None:
    async with project.fabric("git push origin main") as runs:
        result = await runs.start()
        answer = Answer(decision=Decision.APPROVE, by="ada", via="a test", reach=Reach.ONCE)
        await runs.fabric.decide_approval(result.waiting_for[0], answer, by=owner_here())
    project.configured = {"policy": {"outside": "never"}}
    async with project.fabric() as runs:
        again = await runs.fabric.resume_run(result.run_id)
        assert again.status is not RunStatus.WAITING
        assert "may not leave its box" in (await runs.one(result.run_id, ToolErred)).error_message
    assert not project.pushed


async def test_a_push_among_other_commands_is_to_be_a_call_of_its_own(project: Project) -> None:
    async with project.fabric("git commit -qam more && git push origin main") as runs:
        result = await runs.start()
        erred = await runs.one(result.run_id, ToolErred)
        assert "call of its own" in erred.error_message
        assert result.status is RunStatus.COMPLETED


async def test_a_push_that_stays_in_the_workspace_needs_no_outside(project: Project) -> None:
    git(project.at, "init", "-q", "--bare", "inner.git")
    git(project.at, "config", "remote.origin.url", "inner.git")
    async with project.fabric("git push origin main") as runs:
        result = await runs.start()
        assert (await runs.card(result)).outside is None
        result = await runs.answer(result)
        assert (await runs.one(result.run_id, ToolReturned)).result["exit_code"] == 0
    assert git(project.at / "inner.git", "for-each-ref")


async def test_a_repository_that_points_elsewhere_is_refused(project: Project) -> None:
    git(project.folder, "clone", "-q", "--bare", str(project.at), "private.git")
    shutil.rmtree(project.at / ".git")
    (project.at / ".git").write_text(f"gitdir: {project.folder / 'private.git'}\n")
    async with project.fabric(f"git push {project.remote} main") as runs:
        result = await runs.start()
        assert "no repository of its own" in (await runs.one(result.run_id, ToolErred)).error_message
    assert not project.pushed


async def test_after_a_kill_in_the_middle_a_person_says_what_happened(project: Project) -> None:
    slow = project.remote / "hooks" / "pre-receive"
    slow.parent.mkdir(exist_ok=True)
    slow.write_text(f"#!/bin/sh\ntouch {project.folder}/begun\nsleep 60\n")
    slow.chmod(0o755)
    async with project.fabric("git push origin main") as runs:
        result = await runs.start()
        answer = Answer(decision=Decision.APPROVE, by="ada", via="a test", reach=Reach.ONCE)
        await runs.fabric.decide_approval(result.waiting_for[0], answer, by=owner_here())
        going = asyncio.create_task(runs.fabric.resume_run(result.run_id))
        async with asyncio.timeout(20):
            while not (project.folder / "begun").exists():
                await asyncio.sleep(0.02)
        going.cancel()
        await asyncio.gather(going, return_exceptions=True)
    slow.unlink()
    async with project.fabric() as runs:
        again = await runs.fabric.resume_run(result.run_id)
        card = await runs.card(again)
        assert card.question.value == "did_it_happen"
        assert card.outside is not None
        await runs.answer(again)
        assert (await runs.one(result.run_id, ToolReturned)).result["exit_code"] == 0
    assert project.pushed == git(project.at, "rev-parse", "HEAD")


async def test_a_step_of_a_workflow_pushes_once_a_person_has_agreed(project: Project) -> None:
    steps = [{"id": "push", "action": "run-command", "command": "git push origin main"}]
    plain: dict[str, Any] = {"name": "job", "version": "1.0.0", "steps": steps}
    async with project.fabric() as runs:
        workflows = open_workflows(project.folder / ".fabric", read_config({}, overrides=runs.configured).config)
        sound = SoundWorkflow(plain=plain, definition=definition_from(plain), source="")
        result = await runs.fabric.execute_task(workflows.task(sound, {}, project=project.at))
        assert (await runs.card(result)).outside is not None
        result = await runs.answer(result)
        assert result.status is RunStatus.COMPLETED, result.error
        assert result.payload["outputs"]["push"]["exit_code"] == 0
    assert project.pushed


def stub(folder: Path, name: str, lines: Sequence[str]) -> Path:
    """Put a program on the path of the user."""
    program = folder / name
    folder.mkdir(exist_ok=True)
    program.write_text("\n".join([f"#!{sys.executable}", *lines]))
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return program


@pytest.fixture
def publisher(project: Project, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stub of `twine` that says what it was given and what it sees."""
    said = project.folder / "published.txt"
    stub(
        project.folder / "bin",
        "twine",
        [
            "import os, sys, pathlib",
            "seen = sorted(str(p) for p in pathlib.Path('.').rglob('*') if p.is_file())",
            f"pathlib.Path({str(said)!r}).write_text(repr((sys.argv[1:], seen, os.environ.get('TWINE_PASSWORD'),",
            "    [n for n in os.environ if n.startswith('FABRIC_SECRET')])))",
            "pathlib.Path('receipt.txt').write_text('thank you')",
        ],
    )
    monkeypatch.setenv("PATH", f"{project.folder / 'bin'}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("TWINE_PASSWORD", "users-own")
    monkeypatch.setenv("FABRIC_SECRET_X", "ours")
    return said


async def test_a_publisher_gets_the_files_that_it_names_and_nothing_else(project: Project, publisher: Path) -> None:
    (project.at / "dist").mkdir()
    for name in ("a-1.0.whl", "a-1.0.tar.gz", ".hidden"):
        (project.at / "dist" / name).write_text(name)
    (project.at / ".pypirc").write_text("obey me")
    async with project.fabric("twine upload dist/*") as runs:
        result = await runs.start()
        card = await runs.card(result)
        assert card.outside is not None
        assert [line.split(",")[0] for line in card.outside.carries] == [
            "file dist/a-1.0.tar.gz",
            "file dist/a-1.0.whl",
        ]
        assert all("sha256" in line for line in card.outside.carries)
        assert not publisher.exists()
        result = await runs.answer(result)
        returned = await runs.one(result.run_id, ToolReturned)
        assert returned.result["exit_code"] == 0, returned
        assert returned.result["new_files"] == ["receipt.txt"]
    files = ["dist/a-1.0.tar.gz", "dist/a-1.0.whl"]
    assert publisher.read_text() == repr((["upload", *files], files, "users-own", []))
    assert (project.at / "receipt.txt").read_text() == "thank you"


async def test_what_a_command_outside_brings_is_a_strangers_text_for_later_runs(
    project: Project, publisher: Path
) -> None:
    (project.at / "a.whl").write_text("x")
    async with project.fabric("twine upload a.whl") as runs:
        await runs.answer(await runs.start())
    assert publisher.exists()
    async with project.fabric("cat receipt.txt") as runs:
        result = await runs.start()
        assert result.untrusted, "the file came from outside"


async def test_a_push_makes_no_file_of_the_project_a_strangers_text(project: Project) -> None:
    async with project.fabric("git push origin main") as runs:
        result = await runs.answer(await runs.start())
        assert result.status is RunStatus.COMPLETED, await runs.told(result.run_id)
        said = [each for each in result.untrusted if each.startswith("outside: ")]
        assert said, "what the other side of the push says is a stranger's text"
        assert set(said) <= set(result.private)
    async with project.fabric("git log -1 --format=%s") as runs:
        result = await runs.start()
        assert not result.untrusted, "a push writes nothing but what was pushed"


@pytest.mark.parametrize(("after", "is_strange"), [("git status --short", False), ("echo note > note.txt", True)])
async def test_only_what_may_write_after_a_push_makes_files_a_strangers_text(
    project: Project, after: str, is_strange: bool
) -> None:
    async with project.fabric("git push origin main", after) as runs:
        result = await runs.answer(await runs.start())
        assert result.status is RunStatus.COMPLETED, await runs.told(result.run_id)
    async with project.fabric("git log -1 --format=%s") as runs:
        assert bool((await runs.start()).untrusted) is is_strange


async def test_another_file_after_the_agreement_is_not_published(project: Project, publisher: Path) -> None:
    (project.at / "a.whl").write_text("agreed")
    async with project.fabric("twine upload a.whl") as runs:
        result = await runs.start()
        (project.at / "a.whl").write_text("other")
        result = await runs.answer(result)
        assert "no longer what the person agreed to" in (await runs.one(result.run_id, ToolErred)).error_message
    assert not publisher.exists()


async def test_a_publisher_of_the_workspace_is_not_executed(project: Project, publisher: Path) -> None:
    stub(project.at / "bin", "twine", ["raise SystemExit(7)"])
    (project.at / "a.whl").write_text("x")
    async with project.fabric("./bin/twine upload a.whl") as runs:
        result = await runs.start()
        erred = await runs.one(result.run_id, ToolErred)
        assert erred.error_type == "CannotRunOutside"
        assert erred.proposal, "a person can run it"
    assert not publisher.exists()


async def test_what_leads_out_of_the_workspace_is_not_taken_along(project: Project, publisher: Path) -> None:
    (project.folder / "private.txt").write_text("private")
    (project.at / "a.whl").symlink_to(project.folder / "private.txt")
    async with project.fabric("twine upload a.whl") as runs:
        result = await runs.start()
        outside = (await runs.card(result)).outside
        assert outside is not None
        assert outside.carries == ()


async def test_a_push_over_ssh_arrives(project: Project) -> None:
    sshd = need_program("sshd", "openssh-server")
    keys = project.folder / "ssh"
    keys.mkdir(mode=0o700)
    for name in ("host", "user"):
        words = ("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(keys / name))
        assert await (await asyncio.create_subprocess_exec(*words)).wait() == 0
    shutil.copy(keys / "user.pub", keys / "authorized")
    (keys / "authorized").chmod(0o600)
    port = free_port()
    (keys / "sshd_config").write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {keys}/host\nAuthorizedKeysFile {keys}/authorized\n"
        f"PidFile {keys}/pid\nStrictModes no\nUsePAM no\nPermitRootLogin yes\nPasswordAuthentication no\n"
    )
    Path("/run/sshd").mkdir(exist_ok=True) if os.geteuid() == 0 else None
    server = await asyncio.create_subprocess_exec(sshd, "-D", "-e", "-f", str(keys / "sshd_config"))
    try:
        await listening(port)
        # The user's own settings name the key; those of the workspace are not obeyed.
        command = f"ssh -i {keys}/user -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null"
        git(project.folder, "config", "--file", str(project.folder / "home" / ".gitconfig"), "core.sshCommand", command)
        git(project.at, "config", "remote.origin.url", f"ssh://127.0.0.1:{port}{project.remote}")
        async with project.fabric("git push -u origin main 2>&1") as runs:
            result = await runs.answer(await runs.start())
            returned = await runs.one(result.run_id, ToolReturned)
            assert returned.result["exit_code"] == 0, returned
    finally:
        server.terminate()
        await server.wait()
    assert project.pushed == git(project.at, "rev-parse", "HEAD")


async def listening(port: int) -> None:
    async with asyncio.timeout(60):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(0.05)
            else:
                writer.close()
                return
