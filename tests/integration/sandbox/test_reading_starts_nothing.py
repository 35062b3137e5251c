"""At level C a command that counts as reading starts no program that a file, an option or a variable names."""

import asyncio
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from string import ascii_letters

import pytest

from agent_fabric.domain.policy.calls import ProposedCall
from agent_fabric.domain.policy.engine import RulePolicy
from agent_fabric.domain.policy.read_only import ANY_OPTION, CHECKED_PROGRAMS
from agent_fabric.domain.policy.verdicts import Verdict
from agent_fabric.domain.tools.specs import Effect
from agent_fabric.infrastructure.sandbox.altered_programs import altered_programs
from agent_fabric.infrastructure.sandbox.unconfined import UnconfinedSandbox
from services import need_program

GIT = shutil.which("git") or ""


@pytest.fixture
def needs_git() -> str:
    return need_program("git", "git")


READING = (
    "git status",
    "git status --short",
    "git diff",
    "git diff HEAD",
    "git log -p",
    "git log --oneline",
    "git show",
    "git show HEAD:a.txt",
    "git blame a.txt",
    "git ls-files -m",
    "git grep x",
    "git describe --always --dirty",
    "git stash list",
    "git log --format=%H",
)


def runs_unasked(command: str, workspace: Path, altered: frozenset[str] | None = None) -> bool:
    call = ProposedCall(
        tool="shell",
        args={},
        effect=Effect.CHANGES_WORKSPACE,
        command=command,
        sandbox="C",
        workspace=str(workspace),
        altered=altered_programs(str(workspace)) if altered is None else altered,
    )
    return RulePolicy().judge(call).verdict is Verdict.ALLOW


def git(folder: Path, *words: str) -> None:
    identity = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main")
    subprocess.run([GIT, *identity, *words], cwd=folder, check=True, capture_output=True)


def repository(folder: Path) -> Path:
    folder.mkdir(parents=True)
    git(folder, "init", "-q")
    (folder / "a.txt").write_text("x\n")
    git(folder, "add", "a.txt")
    git(folder, "commit", "-qm", "x")
    return folder


def hostile(at: Path, evil: Path) -> Iterator[tuple[str, Path, str]]:
    """Yield projects that make git start a program, with what a run would write before a command."""
    settings = {
        "fsmonitor": ("core.fsmonitor", ""),
        "filter": ("filter.x.clean", "* filter=x\n"),
        "process": ("filter.x.process", "* filter=x\n"),
        "textconv": ("diff.x.textconv", "* diff=x\n"),
        "command": ("diff.x.command", "* diff=x\n"),
        "external": ("diff.external", ""),
        "signatures": ("gpg.program", ""),
    }
    for name, (key, attributes) in settings.items():
        folder = repository(at / name)
        git(folder, "config", key, str(evil))
        git(folder, "config", "log.showSignature", "true")
        if attributes:
            (folder / ".gitattributes").write_text(attributes)
        (folder / "a.txt").write_text("y\n")
        yield name, folder, ""
    included = repository(at / "included")
    (included / "more").write_text(f"[core]\n\tfsmonitor = {evil}\n")
    git(included, "config", "include.path", "../more")
    yield "included", included, ""
    hooked = repository(at / "hooked")
    hook = hooked / ".git/hooks/post-index-change"
    hook.parent.mkdir(exist_ok=True)
    shutil.copy(evil, hook)
    (hooked / "a.txt").touch()
    yield "hooked", hooked, ""
    bare = repository(at / "bare")
    git(bare, "config", "core.bare", "false")
    git(bare, "config", "core.worktree", str(bare))
    git(bare, "config", "core.fsmonitor", str(evil))
    clone = at / "clone"
    (clone / "docs").mkdir(parents=True)
    shutil.copytree(bare / ".git", clone / "docs", dirs_exist_ok=True)
    yield "bare below", repository_around(clone), "cd docs && "
    top = at / "top"
    shutil.copytree(bare / ".git", top)
    yield "bare at the top", top, ""
    pointed = at / "pointed"
    shutil.copytree(clone / "docs", pointed / "docs")
    (pointed / ".git").write_text("gitdir: docs\n")
    yield "pointed", pointed, ""
    nested = repository(at / "nested")
    shutil.copytree(at / "fsmonitor", nested / "inner")
    yield "nested", nested, "cd inner && "
    yield "nested, named", nested, "env -C inner "


def obey(before: str, folder: Path) -> None:
    """Run the same without any care."""
    for command in READING:
        subprocess.run(["bash", "-c", f"{before}{command}"], cwd=folder, capture_output=True, check=False)


def repository_around(folder: Path) -> Path:
    git(folder, "init", "-q")
    return folder


@pytest.mark.usefixtures("needs_git")
async def test_no_repository_makes_git_start_a_program_unasked(tmp_path: Path) -> None:
    made = tmp_path / "made"
    evil = tmp_path / "evil"
    evil.write_text(f"#!/bin/sh\necho $0 >> {made}\ncat\n")
    evil.chmod(0o755)
    asked = fired = 0
    for name, folder, before in hostile(tmp_path / "projects", evil):
        box = UnconfinedSandbox(folder, "r")
        for command in READING:
            line = f"{before}{command}"
            if runs_unasked(line, folder):
                await box.run_command(line, timeout_s=20)
                assert not made.exists(), (name, line)
            else:
                asked += 1
        await asyncio.to_thread(obey, before, folder)
        fired += made.exists()
        made.unlink(missing_ok=True)
    assert asked
    assert fired >= 10, "the projects are not hostile any more"


@pytest.mark.usefixtures("needs_git")
async def test_a_plain_repository_and_its_worktrees_need_no_question(tmp_path: Path) -> None:
    plain = repository(tmp_path / "plain")
    git(plain, "remote", "add", "origin", "https://example.org/x.git")
    git(plain, "worktree", "add", "-q", str(tmp_path / "further"))
    (plain / "src").mkdir()
    for folder in (plain, tmp_path / "further", plain / "src"):
        assert all(runs_unasked(command, folder) for command in READING)
        assert (await UnconfinedSandbox(folder, "r").run_command("git log --oneline", timeout_s=20)).exit_code == 0


@pytest.mark.usefixtures("needs_git")
async def test_git_obeys_no_folder_that_only_looks_like_a_repository(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "--bare", "docs")
    outcome = await UnconfinedSandbox(tmp_path, "r").run_command("cd docs && git log", timeout_s=20)
    assert b"safe.bareRepository" in outcome.stderr or b"cannot use bare repository" in outcome.stderr


def test_a_program_that_path_finds_in_the_workspace_does_not_count_as_reading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools = tmp_path / ".venv/bin"
    tools.mkdir(parents=True)
    (tools / "ls").write_text("#!/bin/sh\n")
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    assert not runs_unasked("ls", tmp_path)
    assert runs_unasked("cat a", tmp_path)


# ── every option that a program's help lists ──────────────────────────────────────────────────────────────────────────

_OPTION = re.compile(r"(?<![\w-])(--?[A-Za-z0-9][\w-]*)")
_ENDLESS = {"pidof", "vmstat", "sleep", "tty"}
_NOT_TRIED = {"systemctl", "journalctl", "docker", "podman", "kubectl", "apt", "dmesg"}
"""They speak to services of the machine."""
PROGRAMS = sorted(
    name
    for name in (ANY_OPTION | CHECKED_PROGRAMS) - _NOT_TRIED - _ENDLESS
    if (shutil.which(name) or "").startswith(("/usr/bin/", "/bin/"))
)


def options_of(program: str) -> list[str]:
    """Return the options that the program's own help lists, and every letter if not all are allowed."""
    commands = [[program, "--help"], [program, "--help", "all"]]
    if program == "git":
        commands = [
            [program, action, "-h"] for action in ("diff", "log", "show", "status", "grep", "blame", "ls-files")
        ]
    texts = (
        subprocess.run(words, capture_output=True, check=False, timeout=20, stdin=subprocess.DEVNULL)
        for words in commands
    )
    found = chain.from_iterable(_OPTION.findall((each.stdout + each.stderr).decode(errors="replace")) for each in texts)
    letters = [] if program in ANY_OPTION else ascii_letters
    return sorted({*found, *(f"-{letter}" for letter in letters)})


def spellings(program: str, option: str, evil: str) -> Iterator[str]:
    start = f"{program} log" if program == "git" else program
    joined = "=" if option.startswith("--") else ""
    for arguments in (f"{option} {evil} a", f"{option}{joined}{evil}", f"{option} a out"):
        yield f"{start} {arguments}"


@pytest.mark.parametrize("program", PROGRAMS)
def test_no_option_of_a_reading_program_starts_another_or_writes(program: str, tmp_path: Path) -> None:
    made, evil, folder = tmp_path / "made", tmp_path / "evil", tmp_path / "project"
    evil.write_text(f"#!/bin/sh\necho $0 >> {made}\n")
    evil.chmod(0o755)
    repository(folder) if program == "git" else folder.mkdir()
    (folder / "a").write_text("x\ny\n")
    before = set(folder.iterdir())
    unasked = [
        line
        for option in options_of(program)
        for line in spellings(program, option, str(evil))
        if runs_unasked(line, folder, frozenset())
    ]
    if program in ANY_OPTION:
        assert unasked or not options_of(program)

    def is_harmless(lines: list[str]) -> bool:
        script = "\n".join(f"timeout -s KILL 0.5 {line} </dev/null >/dev/null 2>&1" for line in lines)
        subprocess.run(["bash", "-c", script], cwd=folder, capture_output=True, check=False)
        return not made.exists() and set(folder.iterdir()) == before

    assert is_harmless(unasked), next(line for line in unasked if not is_harmless([line]))


def test_a_program_that_starts_others_by_an_option_is_on_no_list() -> None:
    """What is known of such options by name, for the programs that are not on this machine."""
    starting = [
        *("diff3 --diff-program=./x a b c", "sdiff --diff-program=./x a b", "diff -l a b", "diff --paginate a b"),
        *("less a", "more a", "man ls", "man -P ./x ls", "vim a", "view a", "ed a", "ex a"),
        *("sort --compress-program=./x a", "sort --compress-prog=./x a", "split --filter=./x a"),
        *("tar --to-command=./x -tf a", "tar -I ./x -tf a", "tar -tf a --use-compress-program ./x", "tar -tf host:a"),
        *("tar tf a --checkpoint-action=exec=./x", "tar -tvf a -F ./x", "tar --rsh-command=./x -tf h:a"),
        *("find . -exec ./x {} +", "find . -execdir ./x ;", "find . -ok ./x ;", "find . -fprintf a b", "find -delete"),
        *("rg --pre ./x y", "rg --pre=./x y", "rg -z y", "rg --search-zip y", "rg --hostname-bin=./x y"),
        *("fd -x ./x", "fd -X ./x", "fd --exec ./x", "fd --exec-batch=./x", "fd -l"),
        *("awk 'BEGIN{system(\"x\")}'", "gawk -f a", "sed 1e a", "sed 's/a/b/e' a", "sed --expression=1e a"),
        *("file -z a", "file -Z a", "file -C -m a", "tree -R -H . -L 1", "tree -o a", "zgrep x a", "zless a"),
        *("ss -K", "ss -D a", "ss --kill", "ss -N x", "sysctl a.b=c", "sysctl -p", "arch -x86_64 ./x"),
        *("getconf -v ../../x A", "journalctl -M x", "journalctl --rotate", "systemctl -H x status", "dmesg -H"),
        *("rpm -q --pipe ./x a", "rpm --eval '%(x)'", "dpkg --pre-invoke=./x -l", "dpkg -i a", "apt -o a=b list"),
        *("kubectl get -k .", "kubectl get -f a", "kubectl --kubeconfig a get x", "docker -H ssh://x ps"),
        *("docker --config a ps", "pip --python ./x list", "pip list --log a", "yq -i .a b", "yq -s .a b"),
        *("xargs --process-slot-var=PATH ls", "xargs -I{} sh -c {}", "env -S './x'", "env", "base64 -o a b"),
        *("yarn --version", "cargo --version", "mvn --version", "pylint --version", "npm --version", "rustc --version"),
        *("git -c alias.x=y status", "git --exec-path=. log", "git -p log", "git --git-dir=docs status"),
        *("git --work-tree=. --git-dir docs status", "git -C docs status", "git --bare status", "git difftool"),
        *("git diff --ext-diff", "git log --textconv", "git show --textconv", "git cat-file --filters HEAD:a"),
        *(
            "git cat-file --textconv HEAD:a",
            "git grep -Ox y",
            "git grep --open-files-in-pager=x y",
            "git log --output a",
        ),
        *("git diff -o a", "git stash show --output=a", "git submodule status", "git log --show-signature"),
        *("git log --format=%G?", "git for-each-ref --format='%(signature)'", "git config --file=a -l", "git help log"),
        *(
            "git rev-list --alternate-refs",
            "git diff --submodule=diff",
            "git fetch",
            "git ls-remote a",
            "git archive a",
        ),
        *("PAGER=./x git log", "LESSOPEN=x ls", "PATH=. ls", "PATH=$PWD:$PATH ls", "GIT_DIR=docs git status"),
        *("export PATH=.; ls", "LD_PRELOAD=./x ls", "GIT_EXTERNAL_DIFF=./x git diff", "BASH_ENV=x bash -c ls"),
        *("x='a[$(y)]'; echo $((x))", "[[ 'a[$(y)]' -eq 0 ]]", "read x; echo $((x))", "let 'a[$(y)]'"),
        *("ls() { ./x; }; ls", "alias ls=./x; ls", "hash -p ./x ls; ls", "enable -f ./x ls", "cat <(./x)"),
    ]
    passed = [line for line in starting if runs_unasked(line, Path("/"))]
    assert passed == []
