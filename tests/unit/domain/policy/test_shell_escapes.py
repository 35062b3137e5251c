"""A shell line that another program runs is judged like the line itself.

The lines are only ever given to `judge`, which runs nothing.
"""

from itertools import product

import pytest

from agent_fabric.domain.policy.calls import ProposedCall
from agent_fabric.domain.policy.engine import RulePolicy
from agent_fabric.domain.policy.profiles import Profile
from agent_fabric.domain.policy.rules import CommandPattern, Rule
from agent_fabric.domain.policy.verdicts import Ruling, Verdict
from agent_fabric.domain.tools.specs import Effect

EVERYTHING = Rule(id="all", verdict=Verdict.ALLOW, commands=(CommandPattern(text="*"),))

HOSTS = (
    "ed -s x <<E\n!{}\nE",
    "ed x <<'E'\nr !{}\nq\nE",
    "ed x <<< '!{}'",
    "printf '!{}\\nq\\n' | ed x",
    "echo '!{}' | ed",
    "ex -c '!{}' x",
    "vim -es -c ':!{}' -c q x",
    "vim '+!{}' x",
    "nvim --headless -c 'silent !{}'",
    "vim -c '%!{}' x",
    "gdb -batch -ex 'shell {}'",
    "gdb -ex '!{}' ./x",
    "gdb <<E\nshell {}\nE",
    "gdb -batch -ex run --args {}",
    "lldb -o 'platform shell {}'",
    "sqlite3 x.db '.shell {}'",
    "sqlite3 x.db '.system {}'",
    "sqlite3 x.db <<E\n.shell {}\nE",
    "echo '.shell {}' | sqlite3 x.db",
    "sqlite3 x.db '.once |{}'",
    "psql -c '\\! {}'",
    "mysql -e 'system {}'",
    "awk 'BEGIN {{ system(\"{}\") }}'",
    "awk '{{ print | \"{}\" }}' x",
    "awk 'BEGIN {{ \"{}\" | getline x }}'",
    "sed '1e {}' x",
    "m4 <<E\nsyscmd(`{}')\nE",
    "at now <<E\n{}\nE",
    "echo '{}' | at now",
    "valgrind -q {}",
    "ccache {}",
    "fakeroot {}",
)


def judge(command: str, *rules: Rule, profile: Profile = Profile.WORKSPACE) -> Ruling:
    call = ProposedCall(
        tool="shell",
        args={},
        effect=Effect.CHANGES_WORKSPACE,
        command=command,
        sandbox="A",
        workspace="/home/me/project",
    )
    return RulePolicy(profile=profile, rules=rules).judge(call)


@pytest.mark.parametrize("profile", list(Profile))
def test_a_catastrophe_inside_of_another_program_never_runs(profile: Profile) -> None:
    lines = [host.format(inner) for host, inner in product(HOSTS, ("rm -rf /", "rm -rf ~", "find / -delete"))]
    passed = [line for line in lines if judge(line, EVERYTHING, profile=profile).verdict is not Verdict.BLOCK]
    # What m4 and the pattern of a heredoc do with a backtick is not understood, and asks.
    assert [line for line in passed if judge(line, EVERYTHING, profile=profile).rule != "unparsable"] == []


@pytest.mark.parametrize("host", HOSTS)
def test_a_push_inside_of_another_program_asks(host: str) -> None:
    assert judge(host.format("git push"), EVERYTHING).verdict is not Verdict.BLOCK
    rule = Rule(id="no-push", verdict=Verdict.BLOCK, commands=(CommandPattern(text="git push"),))
    ruling = judge(host.format("git push"), rule)
    assert ruling.verdict is Verdict.BLOCK or ruling.rule == "unparsable"


@pytest.mark.parametrize(
    "command",
    [
        *("printf 'g/x/d\\nw\\nq\\n' | ed -s f", "ed f <<E\n,s/a!/b/\nw\nE", "gdb -batch -ex bt ./x core"),
        *("gdb -batch -ex 'show version' -ex 'set pagination off' -ex run ./x",),
        *("sqlite3 x.db 'select 1'", "sqlite3 x.db < schema.sql", "sqlite3 x.db '.tables'", "sqlite3 x.db '.schema t'"),
        *("awk '{print $1}' x", "awk -F: '{print | \"sort\"}' x", "sed -e 's/a/b/' x", "sed -n '1,5p' x"),
        *(
            "valgrind ./x",
            "ccache gcc -c x.c",
            "ccache -s",
            "ccache -M 5G",
            "gdb --args ./x -a",
            "echo 'a | b' | sqlite3 x",
        ),
        *("sqlite3 -csv x.db 'select a || b from t'", "awk '/a|b/ {print}' x", "sed 's/x/!y/' f"),
    ],
)
def test_everyday_lines_of_these_programs_need_no_question(command: str) -> None:
    assert judge(command).verdict is Verdict.ALLOW, judge(command)
