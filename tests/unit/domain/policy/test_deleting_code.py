"""Code in a line that deletes asks, unless plain strings tell that all of it lies in the workspace.

The lines are only ever given to `judge`, which runs nothing.
"""

from collections.abc import Iterator
from itertools import product

import pytest

from agent_fabric.domain.policy.calls import ProposedCall
from agent_fabric.domain.policy.engine import RulePolicy
from agent_fabric.domain.policy.profiles import Profile
from agent_fabric.domain.policy.rules import CommandPattern, Rule
from agent_fabric.domain.policy.verdicts import Ruling, Verdict
from agent_fabric.domain.tools.specs import Effect

pytestmark = pytest.mark.proves("WB-6")

EVERYTHING = Rule(id="all", verdict=Verdict.ALLOW, commands=(CommandPattern(text="*"),))


def judge(command: str, profile: Profile = Profile.WORKSPACE, level: str = "A") -> Ruling:
    call = ProposedCall(
        tool="shell",
        args={},
        effect=Effect.CHANGES_WORKSPACE,
        command=command,
        sandbox=level,
        workspace="/srv/work/project",
    )
    return RulePolicy(profile=profile, rules=(EVERYTHING,)).judge(call)


PYTHON = (
    *(
        "import shutil; shutil.rmtree({})",
        "import os; os.remove({})",
        "import os; os.unlink({})",
        "import os; os.rmdir({})",
    ),
    *("from pathlib import Path; Path({}).unlink()", "from pathlib import Path; Path({}).rmdir()"),
    *(
        "from shutil import rmtree as z; z({})",
        "from os import remove as r; r({})",
        "from os import unlink; unlink({})",
    ),
    *(
        'import os; os.system("rm " + {})',
        'import subprocess; subprocess.run(["rm", {}])',
        "import os; os.removedirs({})",
    ),
)
OTHERS = (
    *(("perl -e '{}'", "unlink {}"), ("perl -e '{}'", "unlink glob({})"), ("perl -e '{}'", "rmdir {}")),
    *(("perl -MFile::Path -e '{}'", "remove_tree({})"), ("perl -we '{}'", 'system("rm", {})')),
    *(("node -e '{}'", 'require("fs").rmSync({})'), ("node -e '{}'", 'require("fs").unlinkSync({})')),
    *(
        ("node --eval '{}'", "fs.promises.rm({})"),
        ("node -p '{}'", "fs.rmdirSync({})"),
        ("bun -e '{}'", "fs.unlinkSync({})"),
    ),
    *(
        ("deno eval '{}'", "Deno.removeSync({})"),
        ("ruby -e '{}'", "File.delete({})"),
        ("ruby -e '{}'", "File.unlink({})"),
    ),
    *(
        ("ruby -e '{}'", "FileUtils.rm_rf({})"),
        ("ruby -e '{}'", "Dir.rmdir({})"),
        ("ruby -e '{}'", "Pathname({}).rmtree"),
    ),
    *(("php -r '{}'", "unlink({});"), ("php -r '{}'", "rmdir({});"), ("lua -e '{}'", "os.remove({})")),
    *(("julia -e '{}'", "rm({})"), ("Rscript -e '{}'", "unlink({})"), ("R -e '{}'", "file.remove({})")),
    *(
        ("elixir -e '{}'", "File.rm_rf!({})"),
        ("tclsh <<< '{}'", "file delete -force {}"),
        ("groovy -e '{}'", "new File({}).deleteDir()"),
    ),
    *(("ghc -e '{}'", "removeDirectoryRecursive {}"), ("emacs --batch --eval '{}'", "(delete-directory {} t)")),
    *(("vim -es -c '{}'", 'call delete({}, "rf")'), ("pwsh -c '{}'", "Remove-Item -Recurse {}")),
)
STARTED = (
    "{}",
    "env {}",
    "timeout 5 {}",
    "bash -c '{}'",
    "nice -n 5 {}",
    "true && {}",
    "find . -exec {} \\;",
    "uv run {}",
)


def one_liners(target: str) -> Iterator[str]:
    for code in PYTHON:
        yield f"python3 -c '{code.format(target)}'"
        yield f"python3 - <<'E'\n{code.format(target)}\nE"
        yield f"python3 <<< '{code.format(target)}'"
        yield f"echo '{code.format(target)}' | python3"
        yield f"c='{code.format(target)}'; python3 -c \"$c\""
    for program, code in OTHERS:
        yield program.format(code.format(target))


@pytest.mark.parametrize("profile", list(Profile))
@pytest.mark.parametrize("target", ['"/srv/data/x"', '"../x"', '"/srv/work/project/../x"', "x", "argv[1]"])
def test_code_that_deletes_elsewhere_or_what_only_its_run_tells_asks(target: str, profile: Profile) -> None:
    passed = [line for line in one_liners(target) if judge(line, profile).verdict is Verdict.ALLOW]
    assert passed == []


@pytest.mark.parametrize("profile", list(Profile))
def test_so_does_code_that_another_program_starts(profile: Profile) -> None:
    code = (
        'perl -e "unlink @ARGV"',
        'python3 -c "import os, sys; os.remove(sys.argv[1])"',
        'ruby -e "File.delete(ARGV[0])"',
    )
    lines = [form.format(each) for form, each in product(STARTED, code) if not ("'" in form and "'" in each)]
    assert [line for line in lines if judge(line, profile).verdict is Verdict.ALLOW] == []


@pytest.mark.parametrize("profile", list(Profile))
@pytest.mark.parametrize(
    "command",
    [
        *(
            "python3 -c \"import base64; exec(base64.b64decode('aW1wb3J0'))\"",
            "python3 -c \"exec(bytes.fromhex('00'))\"",
        ),
        *("python3 -c \"import os; getattr(os, 'rem' + 'ove')('x')\"", "node -e \"eval(atob('eA=='))\""),
        *('perl -e \'eval pack("H*", "00")\'', "python3 -c \"exec('tropmi'[::-1])\"", "node -e 'Function(atob(x))()'"),
    ],
)
def test_code_that_hides_what_it_calls_asks(command: str, profile: Profile) -> None:
    assert judge(command, profile).verdict is Verdict.ASK


@pytest.mark.parametrize(
    "command",
    [
        *(
            "python3 -c \"import shutil; shutil.rmtree('build')\"",
            "python3 -c \"import os; os.remove('a/b')\"",
            "perl -e 'unlink \"x\"'",
        ),
        *(
            "python3 -c \"from pathlib import Path; Path('x').unlink()\"",
            "node -e \"require('fs').unlinkSync('dist/a')\"",
        ),
        *("ruby -e 'File.delete(\"a\")'", "php -r 'unlink(\"a\");'", 'python3 -c "l = [1]; l.remove(1); print(l)"'),
        *(
            "node -e \"new Map().delete('x')\"",
            "ruby -e 'a = [1]; a.delete(1); puts a'",
            "perl -e 'delete $h{x}; print 1'",
        ),
        *(
            "python3 -c \"s = 'a'; print(s.removesuffix('a'))\"",
            "python3 -c \"print(eval('1 + 1'))\"",
            "sed -i 's/unlink/x/' a.c",
        ),
        *("python3 -c \"import sqlite3; sqlite3.connect('x').execute('delete from t')\"", "awk '/unlink/ {print}' a.c"),
        *(
            "python3 -c \"import base64; print(base64.b64decode('eA=='))\"",
            "node -e \"new URLSearchParams('a').delete('a')\"",
        ),
        *(
            "python3 -c \"print(open('a').read())\"",
            "make clean",
            "grep -rn 'os.remove' src",
            "python3 build.py --remove",
        ),
    ],
)
def test_everyday_code_does_not_ask(command: str) -> None:
    assert judge(command).verdict is Verdict.ALLOW, judge(command)


@pytest.mark.parametrize("profile", list(Profile))
@pytest.mark.parametrize("level", ["A", "B", "C"])
@pytest.mark.parametrize(
    "command",
    [
        *(
            "rm -rf ..",
            "rm -rf ../",
            "rm -rf ../*",
            "rm -rf ../.",
            "rm -r ..",
            "rm -rf -- ..",
            'rm -rf "$PWD/.."',
            "rm -rf ~+/..",
        ),
        *(
            'rm -rf "$(pwd)/.."',
            "cd .. && rm -rf *",
            "cd .. && rm -rf .",
            "cd .. && rm -rf project",
            "(cd ..; rm -rf *)",
        ),
        *(
            "cd ../.. && rm -rf work",
            "pushd ..; rm -rf *",
            "rm -rf ../project",
            "rm -rf /srv/work",
            "rm -rf /srv/work/*",
        ),
        *("find .. -delete", "find .. -mindepth 1 -delete", "find .. -exec rm -rf {} +", "rsync -a --delete empty/ .."),
        *(
            "mv .. /tmp/x",
            "x=..; rm -rf $x",
            'x=..; rm -rf "$x/"',
            "env -C .. rm -rf .",
            "bash -c 'rm -rf ..'",
            "trash ..",
        ),
        *("ls .. | xargs rm -rf", "rm -rf ${PWD%/*}", "rm -rf $OLDPWD", "rm -rf ~-", "ln -s .. p; rm -rf p/"),
        *(
            'rm -rf "$(dirname "$PWD")"',
            "rm -rf sub/../..",
            "cd sub && rm -rf ../..",
            "for d in ..; do rm -rf $d; done",
        ),
    ],
)
def test_the_folder_above_the_workspace_is_never_removed_unasked(command: str, level: str, profile: Profile) -> None:
    assert judge(command, profile, level).verdict is not Verdict.ALLOW


def test_what_lies_beside_the_workspace_may_be_removed_under_open() -> None:
    for command in ("rm -rf ../other", "cd build && rm -rf ../dist", "rm -rf build", "rm -rf ./*", "rm -rf /srv/other"):
        assert judge(command, Profile.OPEN).verdict is Verdict.ALLOW, command
