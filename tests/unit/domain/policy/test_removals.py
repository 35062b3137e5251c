"""Removing everything, in as many spellings as a generator finds, never runs; everyday removals do not ask."""

import tracemalloc
from collections.abc import Iterator
from itertools import product

import pytest

from agent_fabric.domain.policy.calls import ProposedCall
from agent_fabric.domain.policy.engine import RulePolicy
from agent_fabric.domain.policy.profiles import Profile
from agent_fabric.domain.policy.rules import CommandPattern, Rule
from agent_fabric.domain.policy.verdicts import Ruling, Verdict
from agent_fabric.domain.tools.specs import Effect

WORKSPACE = "/home/me/project"
EVERYTHING = Rule(id="all", verdict=Verdict.ALLOW, commands=(CommandPattern(text="*"),))


def judge(command: str, profile: Profile = Profile.WORKSPACE, level: str = "A") -> Ruling:
    call = ProposedCall(
        tool="shell",
        args={},
        effect=Effect.CHANGES_WORKSPACE,
        command=command,
        sandbox=level,
        workspace=WORKSPACE,
    )
    return RulePolicy(profile=profile, rules=(EVERYTHING,)).judge(call)


VITAL = (
    "/",
    "//",
    "/.",
    "/..",
    "/*",
    "/usr",
    "/usr/",
    "/etc/*",
    "/home",
    "/var/../etc",
    "/u*",
    "~",
    "~/",
    "~/*",
    "$HOME",
    "${HOME}/*",
    "~root",
)
DIRECT = (
    "rm -rf {}",
    "rm -r -f -- {}",
    "rm --recursive --no-preserve-root {}",
    "rm -fR build {}",
    "/bin/rm -rf {}",
    "\\rm -rf {}",
    "command rm -rf {}",
    "env X=1 rm -rf {}",
    "timeout 5 rm -rf {}",
    "busybox rm -rf {}",
    "sudo rm -rf {}",
    "bash -c 'rm -rf {}'",
    "sh -c 'cd src; rm -rf {}'",
    "eval rm -rf {}",
    "true && rm -rf {} || true",
    "if true; then rm -rf {}; fi",
    "(rm -rf {})",
    "{{ rm -rf {}; }}",
    "rm -rf {} &",
    "find {} -delete",
    "find -L {} -mindepth 1 -delete",
    "find {} -exec rm -rf {{}} +",
    "find {} -type f -exec rm {{}} \\;",
    "find {} | xargs rm -rf",
    "rsync -a --delete empty/ {}",
    "rsync --delete-after -r empty/ {}",
    "rimraf {}",
    "npx rimraf {}",
    "chmod -R 777 {}",
    "chown --recursive me {}",
    "mv {} away",
    "tar -cf x --remove-files {}",
    "echo {} | xargs rm -rf",
    "printf '%s' {} | xargs -0 rm -rf",
    "echo {} | while read d; do rm -rf $d; done",
    "rm -rf $(echo {})",
    "rm -rf `echo {}`",
    "for d in {}; do rm -rf $d; done",
    'for d in a {} b; do rm -rf "$d"; done',
    "x={}; rm -rf $x",
    'x={}; rm -rf "$x"',
    "x={}; y=$x; rm -rf ${{y}}",
    "export x={}; rm -rf $x",
    'x={} && bash -c "rm -rf $x"',
    "read x <<< {}; rm -rf $x",
    "printf -v x {}; rm -rf $x",
    'x=({} a); rm -rf "${{x[@]}}"',
    'set -- {}; rm -rf "$@"',
    "set -- {}; rm -rf $1",
    'f() {{ rm -rf "$1"; }}; f {}',
    "rm -rf ${{x:-{}}}",
    "cmd=rm; $cmd -rf {}",
    "coproc rm -rf {}",
    "r=rm; f=-rf; $r $f {}",
    "ln -s {} x && rm -rf x/",
    "ln -s {} x; rm -rf ./x/*",
    "cat <<E | xargs rm -rf\n{}\nE",
    "bash <<E\nrm -rf {}\nE",
)
FOLDERS = ("/", "/usr", "/etc", "~", "$HOME", "")
FROM_FOLDER = (
    "cd {} && rm -rf *",
    "cd {} ; rm -rf ./*",
    "cd {} && rm -rf .",
    "cd {}\nrm -rf *",
    "pushd {} && rm -rf *",
    "(cd {} && rm -rf *)",
    "{{ cd {}; rm -rf *; }}",
    "if cd {}; then rm -rf *; fi",
    "bash -c 'cd {} && rm -rf *'",
    "cd {} && find . -delete",
    "cd {} && find -delete",
    "cd {} && rsync -a --delete /tmp/empty/ .",
    "cd {} && chmod -R 000 .",
    "cd {} && rm -rf $PWD",
    'cd {} && rm -rf "$(pwd)"/*',
    "cd {} && for f in *; do rm -rf $f; done",
)
CODE = (
    "python3 -c \"import shutil; shutil.rmtree('{}')\"",
    "python -c 'import os; os.system(\"rm -rf {}\")'",
    "python3 - <<E\nimport shutil\nshutil.rmtree('{}')\nE",
    "python3 -c \"import subprocess; subprocess.run(['rm', '-rf', '{}'])\"",
    "make -f /dev/stdin <<E\nall:\n\trm -rf {}\nE",
    "perl -MFile::Path -e 'remove_tree(\"{}\")'",
    'ruby -e \'require "fileutils"; FileUtils.rm_rf("{}")\'',
    'node -e \'require("fs").rmSync("{}", {{recursive: true}})\'',
    "awk 'BEGIN {{ system(\"rm -rf {}\") }}'",
    "php -r 'system(\"rm -rf {}\");'",
)
OTHER = (
    *(
        "mkfs.ext4 /dev/sda1",
        "dd if=/dev/zero of=/dev/sda",
        "cat x > /dev/sda",
        "cp x /dev/nvme0n1",
        "tee /dev/sda < x",
    ),
    *("echo x | tee /dev/vda", "shred /dev/sda", "mv x /dev/sda", "wipefs -a /dev/sda", "shutdown now", "init 0"),
    *(
        "systemctl poweroff",
        "echo b > /proc/sysrq-trigger",
        "python3 -c 'import shutil, pathlib; shutil.rmtree(pathlib.Path.home())'",
    ),
)


def spellings() -> Iterator[str]:
    yield from (form.format(target) for form, target in product(DIRECT, VITAL))
    yield from (form.format(folder) for form, folder in product(FROM_FOLDER, FOLDERS))
    yield from (form.format(target) for form, target in product(CODE, ("/", "/usr", "/etc/", "/home", "/*")))
    yield from OTHER


@pytest.mark.parametrize("profile", list(Profile))
def test_a_catastrophe_never_runs_however_it_is_spelled(profile: Profile) -> None:
    passed = [command for command in spellings() if judge(command, profile).verdict is not Verdict.BLOCK]
    assert passed == []


@pytest.mark.parametrize(
    "command",
    [
        *("rm -rf build/ dist *.egg-info", "rm -rf node_modules && npm ci", "rm -rf ./*", "rm -rf src/*.o"),
        *("rm -rf /home/me/project/build", "rm -rf $PWD/build", 'rm -rf "$(pwd)/out"', "rm -rf /tmp/x", "rm -f a b"),
        *("find . -name __pycache__ -exec rm -rf {} +", "find . -name '*.pyc' -delete", "find build -delete"),
        *("find . -name node_modules -prune | xargs rm -rf", "ls -d build* | xargs rm -rf", "git clean -fd"),
        *('for d in a b; do rm -rf "$d"; done', 'for d in */; do rm -rf "$d/build"; done', "out=build; rm -rf $out"),
        *('x=$(mktemp -d); make; rm -rf "$x"', "cd src && rm -rf *", "cd src && rm -rf ../build", "rm -rf a/../b"),
        *(
            "rsync -a --delete src/ dst/",
            "chmod -R u+w .",
            "mv a b",
            "echo 'never rm -rf /'",
            "grep -rn 'rm -rf /' src",
        ),
        *(
            "git commit -m 'do not rm -rf /'",
            "python3 -c \"import shutil; shutil.rmtree('build')\"",
            "ls / && rm -rf build",
        ),
        *("(cd src && make) && rm -rf build", 'rm -rf "build/$x"', "tar -xf a && rm -rf a", "rm -rf -- -x"),
        *("cd /home/me/project/src && rm -rf build", "cat /home/me/project/a", "cp /etc/hosts . && rm -rf build"),
    ],
)
def test_everyday_removals_need_no_question(command: str) -> None:
    assert judge(command).verdict is Verdict.ALLOW, judge(command)


@pytest.mark.parametrize(
    "command",
    [
        *("rm -rf $x", 'rm -rf "$OUT"/', "rm -rf ${x:?}/*", "cat list | xargs rm -rf", "rm -rf $(cat list)"),
        *("while read d; do rm -rf $d; done < list", 'cd "$x" && rm -rf *', "python3 names.py | xargs rm -rf"),
        *("head -1 list | xargs rm -rf", "sed 's/^/x/' list | xargs rm -rf", "rm -rf $1"),
    ],
)
def test_a_removal_that_is_only_known_at_run_time_asks(command: str) -> None:
    assert judge(command).rule == "unclear_removal"


@pytest.mark.parametrize(
    "command",
    [
        *(
            "rm -rf .git",
            "rm -rf ./.git/",
            "rm -r .git/objects",
            "rm .git/HEAD",
            "rm -rf .",
            'rm -rf "$PWD"',
            "rm -rf .*",
        ),
        *(
            "rm -rf .g*",
            "find . -delete",
            "find . -mindepth 1 -delete",
            "find ./ -path x -o -delete",
            "mv .git x",
            "cd src && rm -rf ../.git",
        ),
        *(
            "rm -rf /home/me/project/.git",
            "rm -rf /home/me/project",
            "rsync -a --delete empty/ ./",
            "x=.git; rm -rf $x",
        ),
        *(
            "echo x > .git/HEAD",
            "cp x .git/index",
            "truncate -s0 .git/index",
            "tee .git/HEAD < x",
            "rm -rf $(echo .git)",
        ),
        *("python3 -c \"import shutil; shutil.rmtree('.git')\"", "echo .git | xargs rm -rf", "shred .git/HEAD"),
        *(
            "git gc --prune=now",
            "git reflog expire --expire=now --all",
            "git prune",
            "git filter-branch x",
            "rm -rf .git*",
        ),
        *("cd .git && rm -rf *", "find .git -delete", "find . -name .git -exec rm -rf {} +", "rm -rf sub/.git"),
    ],
)
def test_what_undo_cannot_restore_asks_before(command: str) -> None:
    assert judge(command).rule == "not_undoable"


def test_a_file_tool_asks_before_it_writes_into_the_repository_itself() -> None:
    def write(path: str, effect: Effect = Effect.IDEMPOTENT) -> Ruling:
        call = ProposedCall(tool="write_file", args={}, effect=effect, paths=(path,), workspace=WORKSPACE)
        return RulePolicy().judge(call)

    for path in (".git/HEAD", "./.git/index", "sub/.git/HEAD", f"{WORKSPACE}/.git/HEAD", ".GIT/HEAD"):
        assert write(path).rule == "not_undoable", path
    for path in (".gitignore", "a/.github/x", "git/HEAD"):
        assert write(path).verdict is Verdict.ALLOW, path
    assert write(".git/HEAD", Effect.READS).verdict is Verdict.ALLOW


def test_a_long_line_is_judged_quickly() -> None:
    values = " ".join(f"x{n}=/a{n};" for n in range(200))
    used = "".join(f"$x{n}" for n in range(200))
    assert (
        judge(f"{values} rm -rf {used} {{a,b}}{{a,b}}{{a,b}}{{a,b}}{{a,b}}{{a,b}}{{a,b}}").verdict is not Verdict.ALLOW
    )


@pytest.mark.parametrize("assignments", [2, 4, 12])
def test_variables_that_hold_each_other_many_times_over_take_neither_time_nor_memory(assignments: int) -> None:
    doubled = "a=$a$a$a$a$a$a$a$a;" * assignments
    tracemalloc.start()
    ruling = judge(f"a=xxxxxxxxxx;{doubled}rm -rf $a")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert ruling.verdict is not Verdict.ALLOW
    assert peak < 20_000_000
