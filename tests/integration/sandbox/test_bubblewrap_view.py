"""What commands at level A see of the files, and what they may write."""

import asyncio
import os
import socket
import venv
from pathlib import Path

import pytest

from agent_fabric.domain.errors import ConfigError
from agent_fabric.domain.policy.protected import PROTECTED_AT_TOP
from contract.sandbox_contract import names
from integration.sandbox.boxes import box, said
from services import need_program

need_program("bwrap", package="bubblewrap")


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    return workspace


def tree(folder: Path) -> dict[str, bytes]:
    return {str(one.relative_to(folder)): one.read_bytes() for one in folder.rglob("*") if one.is_file()}


# Protected paths


@pytest.mark.proves("AF-120")
async def test_protected_files_that_exist_can_be_read_and_not_changed(workspace: Path) -> None:
    for name in PROTECTED_AT_TOP:
        path = workspace / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("mine")
    before = tree(workspace)
    attacks = "".join(
        f"cat {name} > /dev/null || exit 9; echo evil > {name}; rm -rf {name}; mv -T {name} /tmp/x; ln -sf / {name}; "
        for name in PROTECTED_AT_TOP
    )
    async with box(workspace) as sandbox:
        moves = "".join(f"mv {around} moved; rm -rf {around}; " for around in (".git", ".hg", ".yarn"))
        outcome = await sandbox.run_command(f"{attacks} {moves} true", timeout_s=30)
        assert outcome.exit_code == 0
        assert b"undone" not in outcome.stderr
    assert tree(workspace) == before


@pytest.mark.proves("AF-120")
async def test_what_a_command_makes_at_a_protected_name_is_put_aside_and_told(workspace: Path) -> None:
    for around in (".git", ".hg", ".yarn", ".config"):
        (workspace / around).mkdir()
    made = [name for name in PROTECTED_AT_TOP if name != ".git/config"]
    async with box(workspace) as sandbox:
        outcome = await sandbox.run_command("; ".join(f"echo evil > {name}" for name in made), timeout_s=30)
        for name in made:
            assert f"[undone: {name!r} is protected]".encode() in outcome.stderr
            assert not (workspace / name).exists()
            assert (workspace / f"{name}.refused").read_text() == "evil\n"
        again = await sandbox.run_command("mkdir .vscode; ln -s /etc/passwd .envrc", timeout_s=30)
        assert again.stderr.count(b"[undone") == 2
        assert not (workspace / ".vscode").exists()
        assert not (workspace / ".envrc").is_symlink()


async def test_a_program_in_place_of_a_package_manager_is_put_aside_with_its_folder(workspace: Path) -> None:
    async with box(workspace) as sandbox:
        made = "mkdir -p .yarn/releases .yarn/cache && echo evil > .yarn/releases/yarn.cjs && echo x > .yarn/cache/x"
        assert b"'.yarn/releases' is protected" in (await sandbox.run_command(made, timeout_s=30)).stderr
        assert not (workspace / ".yarn/releases").exists()
        assert (workspace / ".yarn/cache/x").exists()


async def test_it_is_put_aside_while_a_long_command_still_runs(workspace: Path) -> None:
    async with box(workspace) as sandbox:
        watching = "for i in $(seq 500); do [ -e .envrc ] || { echo gone; exit; }; sleep 0.02; done"
        assert await said(sandbox, f"echo evil > .envrc; {watching}") == "gone"


async def test_a_box_leaves_nothing_in_the_workspace_while_it_works(workspace: Path) -> None:
    async with box(workspace) as sandbox:
        assert await said(sandbox, "ls -A") == ""
        assert names(workspace) == []


async def test_a_protected_link_that_was_replaced_is_put_back(workspace: Path) -> None:
    (workspace / "real").write_text("mine")
    (workspace / ".envrc").symlink_to("real")
    async with box(workspace) as sandbox:
        outcome = await sandbox.run_command("rm .envrc; echo evil > .envrc", timeout_s=30)
        assert b"[undone: '.envrc'" in outcome.stderr
    assert (workspace / ".envrc").readlink() == Path("real")


async def test_who_ends_its_box_after_making_a_protected_file_does_not_get_it_through(workspace: Path) -> None:
    async with box(workspace) as sandbox:
        await said(sandbox, "true")
        for nth in range(5):
            evil = sandbox.run_command(f"echo {nth} > .envrc; kill -9 $PPID; sleep 5", timeout_s=2)
            others = [sandbox.run_command("sleep 0.05; true", timeout_s=60) for _ in range(3)]
            await asyncio.gather(evil, *others)
            assert not (workspace / ".envrc").exists()


async def test_a_link_in_the_place_of_a_folder_leads_the_undoing_nowhere(workspace: Path, tmp_path: Path) -> None:
    (tmp_path / "other" / "hooks").mkdir(parents=True)
    async with box(workspace) as sandbox:
        outcome = await sandbox.run_command(f"ln -s {tmp_path}/other .git", timeout_s=30)
        assert b"[undone: '.git'" in outcome.stderr
    assert names(tmp_path / "other") == ["hooks"]
    assert names(workspace) == [".git.refused"]


async def test_what_a_person_puts_at_a_protected_name_stays_and_is_protected_from_then_on(workspace: Path) -> None:
    async with box(workspace) as sandbox:
        await said(sandbox, "true")
        (workspace / ".envrc").write_text("mine")
        outcome = await sandbox.run_command("echo evil > .envrc", timeout_s=30)
        assert b"Read-only" in outcome.stderr
    assert tree(workspace) == {".envrc": b"mine"}


async def test_a_repository_can_be_made_but_brings_nothing_that_git_would_execute(workspace: Path) -> None:
    need_program("git", package="git")
    async with box(workspace) as sandbox:
        make = "git init -q . && echo x > a && git add --all && git -c user.name=n -c user.email=e commit -qm first"
        outcome = await sandbox.run_command(f"{make}; echo evil > .git/hooks/post-commit", timeout_s=30)
        assert (outcome.exit_code, outcome.stderr.count(b"[undone: '.git/hooks'")) == (0, 1), outcome
        assert not (workspace / ".git" / "hooks").exists()
        outcome = await sandbox.run_command("echo evil > .git/config; git log --format=%s", timeout_s=30)
        assert outcome.stdout == b"first\n"
        assert b".git/config: Read-only file system" in outcome.stderr
        assert b"[the box was replaced" in outcome.stderr


async def test_settings_of_a_new_repository_that_start_something_are_put_aside(workspace: Path) -> None:
    need_program("git", package="git")
    async with box(workspace) as sandbox:
        outcome = await sandbox.run_command("git init -q .; git config core.fsmonitor evil", timeout_s=30)
        assert b"[undone: '.git/config'" in outcome.stderr
        assert await said(sandbox, "git status --short --ignored") == ""


async def test_in_a_repository_a_command_can_commit(workspace: Path) -> None:
    need_program("git", package="git")
    async with box(workspace) as sandbox:
        await said(sandbox, "git init -q .")
    async with box(workspace) as sandbox:
        await said(sandbox, "echo x > a && git add --all && git -c user.name=n -c user.email=e commit -qm first")
        assert await said(sandbox, "git status --short; git checkout -q -b other; git branch --show-current") == "other"
        outcome = await sandbox.run_command("git config core.hooksPath /tmp", timeout_s=30)
        assert outcome.exit_code != 0


# What is hidden


async def test_a_command_makes_no_bare_repository_of_the_project_itself(workspace: Path) -> None:
    async with box(workspace) as sandbox:
        outcome = await sandbox.run_command("git init -q --bare x; mv x/* .; rmdir x", timeout_s=30)
        assert b"[undone: 'HEAD' is protected]" in outcome.stderr
        assert {"HEAD.refused", "config", "objects", "refs"} <= set(names(workspace))
        assert "HEAD" not in names(workspace)
        with pytest.raises(PermissionError, match="protected"):
            await sandbox.write_file("HEAD", b"ref: refs/heads/main\n")
    (workspace / "HEAD.refused").rename(workspace / "HEAD")  # a person wants it
    async with box(workspace) as sandbox:
        assert await said(sandbox, "git --git-dir=. rev-parse --is-bare-repository") == "true"
    assert "HEAD" in names(workspace)


@pytest.mark.proves("AF-120")
@pytest.mark.parametrize("name", [".fabric", "records"])
async def test_fabrics_own_folder_is_invisible_to_commands_and_file_tools(workspace: Path, name: str) -> None:
    (workspace / name / "runs").mkdir(parents=True)
    (workspace / name / "token").write_text("secret")
    async with box(workspace, hidden=workspace / name) as sandbox:
        assert await said(sandbox, f"find {name} -type f; ls -A {name}; cat {name}/token 2>/dev/null || true") == ""
        await sandbox.run_command(f"echo evil > {name}/x; rm -rf {name}; mv {name} away", timeout_s=30)
        with pytest.raises(OSError, match=name):
            await sandbox.read_file(f"{name}/token", max_bytes=10)
        assert await sandbox.list_files(".", max_entries=10) == ([], False)
    assert tree(workspace) == {f"{name}/token": b"secret"}


async def test_a_workspace_inside_fabrics_folder_sees_nothing_of_it(tmp_path: Path) -> None:
    workspace = tmp_path / ".fabric" / "runs" / "1" / "workspace"
    workspace.mkdir(parents=True)
    (tmp_path / ".fabric" / "token").write_text("secret")
    async with box(workspace, hidden=tmp_path / ".fabric") as sandbox:
        assert await said(sandbox, f"find {tmp_path} -type f; pwd") == str(workspace)


async def test_fabrics_own_folder_is_empty_where_what_is_around_it_is_shown(workspace: Path, tmp_path: Path) -> None:
    fabric = tmp_path / "programs" / ".fabric"
    fabric.mkdir(parents=True)
    for path in (fabric / "token", tmp_path / "programs" / "tool"):
        path.write_text("text")
    async with box(workspace, hidden=fabric, environment={"PATH": f"/usr/bin:{fabric.parent}"}) as sandbox:
        assert (
            await said(sandbox, f"cat {fabric.parent}/tool; ls -A {fabric}; touch {fabric}/x 2>/dev/null || true")
            == "text"
        )


# Sockets of others


@pytest.mark.proves("AF-120")
async def test_a_socket_that_another_program_keeps_in_the_project_is_out_of_reach(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect = "import socket, sys; one = socket.socket(socket.AF_UNIX); one.connect(sys.argv[1]); print(one.recv(9))"
    tries = f"for each in app.sock sub/app.sock; do /usr/bin/python3 -c '{connect}' $each; done"
    (workspace / "sub").mkdir()
    monkeypatch.chdir(workspace)
    with socket.socket(socket.AF_UNIX) as one, socket.socket(socket.AF_UNIX) as other:
        one.bind("app.sock")  # as the kernel then lists it
        one.listen()
        async with box(workspace) as sandbox:
            outcome = await sandbox.run_command(tries, timeout_s=30)
            assert outcome.stderr.count(b"refused") == 1, outcome
            other.bind(str(workspace / "sub" / "app.sock"))
            other.listen()
            outcome = await sandbox.run_command(tries, timeout_s=30)
            assert outcome.stderr.count(b"Connection refused") == 2, outcome
            (workspace / "sub" / "app.sock").unlink()
            with socket.socket(socket.AF_UNIX) as anew:
                anew.bind(str(workspace / "sub" / "app.sock"))
                anew.listen()
                outcome = await sandbox.run_command(tries, timeout_s=30)
                assert outcome.stderr.count(b"Connection refused") == 2, outcome
            serve = (
                "import socket; one = socket.socket(socket.AF_UNIX); one.bind('own.sock'); one.listen();"
                " c = socket.socket(socket.AF_UNIX); c.connect('own.sock'); print('reached')"
            )
            assert await said(sandbox, f'/usr/bin/python3 -c "{serve}"') == "reached"
        for listener in (one, other):
            listener.setblocking(False)
            with pytest.raises(BlockingIOError):
                listener.accept()


async def test_a_fabric_folder_deep_in_the_workspace_is_refused(workspace: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be hidden"):
        async with box(workspace, hidden=workspace / "a" / ".fabric"):
            raise AssertionError


# Toolchains and environment


async def test_toolchains_of_the_home_folder_are_seen_read_only_and_nothing_else_of_it(
    workspace: Path, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    tool = home / ".local" / "bin" / "my-tool"
    tool.parent.mkdir(parents=True)
    tool.write_text("#!/bin/sh\necho works\n")
    tool.chmod(0o755)
    (home / ".ssh").mkdir()
    (home / ".ssh" / "id").write_text("secret")
    environment = {"HOME": str(home), "PATH": f"{tool.parent}:{os.environ['PATH']}", "MY_API_KEY": "secret"}
    async with box(workspace, environment=environment) as sandbox:
        assert await said(sandbox, "my-tool") == "works"
        assert await said(sandbox, f"cat {home}/.ssh/id 2>/dev/null; ls -A {home}; env | grep -c secret || true") == (
            ".local\n0"
        )
        outcome = await sandbox.run_command(f"echo evil > {tool.parent}/new; echo evil >> {tool}", timeout_s=30)
        assert outcome.exit_code == 1
        assert b"Read-only file system" in outcome.stderr
    assert "evil" not in tool.read_text()
    assert names(tool.parent) == ["my-tool"]


async def test_a_virtual_environment_on_the_path_works(workspace: Path, tmp_path: Path) -> None:
    place = tmp_path / "venv"
    await asyncio.to_thread(venv.create, place, symlinks=True)
    environment = {"HOME": str(tmp_path), "PATH": f"{place}/bin:/usr/bin:/bin", "VIRTUAL_ENV": str(place)}
    async with box(workspace, environment=environment) as sandbox:
        said_by = await said(sandbox, "python -c 'import sys; print(sys.prefix)'; echo $VIRTUAL_ENV")
        assert said_by == f"{place}\n{place}"


# Modes


@pytest.mark.proves("AF-120")
async def test_nothing_is_made_that_would_run_as_its_owner(workspace: Path) -> None:
    code = """
import os
made = []
for nth, make in enumerate((
    lambda: os.close(os.open("a", os.O_CREAT | os.O_WRONLY, 0o4755)),
    lambda: os.mknod("b", 0o104755),
    lambda: os.chmod("plain", 0o4755),
    lambda: os.chmod("plain", 0o2755),
    lambda: os.fchmod(os.open("plain", os.O_RDONLY), 0o6755),
)):
    try:
        make()
        made.append(nth)
    except PermissionError:
        pass
print(made)
"""
    (workspace / "try.py").write_text(code)
    async with box(workspace) as sandbox:
        assert await said(sandbox, "touch plain; chmod 1777 plain; chmod 755 plain; python3 try.py") == "[]"
        assert await said(sandbox, "cp plain q; install -m 4755 plain c 2>/dev/null; find . -perm /6000") == ""
