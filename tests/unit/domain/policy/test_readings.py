"""What a line reads is worked out from its words. Where no wall holds it, what may be anybody's own asks.

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

WORKSPACE = "/srv/work/project"
EVERYTHING = Rule(id="all", verdict=Verdict.ALLOW, commands=(CommandPattern(text="*"),))


def judge(
    command: str,
    *,
    profile: Profile = Profile.WORKSPACE,
    level: str = "C",
    node: str = "",
    rules: tuple[Rule, ...] = (),
) -> Ruling:
    call = ProposedCall(
        tool="shell",
        args={},
        effect=Effect.CHANGES_WORKSPACE,
        command=command,
        sandbox=level,
        workspace="" if node else WORKSPACE,
        node=node,
    )
    return RulePolicy(profile=profile, rules=rules).judge(call)


OUTSIDE = ("/etc/x", "~/x", "~other/x", "../x", "/srv/work/other/x", "/srv/work", "$HOME/x", "${HOME}/x", "sub/../../x")
AT_RUN_TIME = ("$X", '"$X"', "$(cat list)", "`cat list`", "src/$X", "$1", '"$@"', "${!X}", "~-/x")
READERS = (
    *("cat {}", "head -5 {}", "tail -n 3 {}", "grep word {}", "grep -r word {}", "wc -l {}", "md5sum {}", "jq . {}"),
    *("od -c {}", "diff -u a {}", "sort {}", "xxd {}", "base64 {}", "strings {}", "sed -n 1p {}", "rg word {}"),
    *("cat < {}", "< {} cat", "while read -r l; do echo $l; done < {}", "read x < {}; echo $x", "mapfile -t x < {}"),
    *('echo "$(< {})"', "x=$(< {}); echo $x", "cat <<E\n$(cat {})\nE", "cat <<E\n$(< {})\nE", 'cat <<< "$(cat {})"'),
    *("cat <(cat {})", "diff <(cat {}) <(cat a)", "exec 3< {}; cat <&3", "{{ cat; }} < {}", "(cat) < {}", "cat 0< {}"),
    *("if true; then cat; fi < {}", "for i in 1; do cat; done < {}", "timeout 5 cat {}", "env cat {}", "nice cat {}"),
    *("bash -c 'cat {}'", "eval cat {}", "command cat {}", "xargs -n 1 cat {} < a", "cat a {}", "cat -- {}"),
    *("grep -f {} a", "grep --file={} a", "wc --files0-from={}", "git diff --no-index -- a {}"),
)
BY_VARIABLE = (
    *("f={}; cat $f", 'f={}; cat "$f"', "for f in {}; do cat $f; done", "set -- {}; cat $1", "d={}; cat $d/y"),
    *(
        "export f={}; cat $f",
        "cd {} && cat y",
        "cd {}; grep x y",
        "(cd {}; cat y)",
        "pushd {}; cat y",
        "cd {} && cat < y",
    ),
)
BY_OTHERS = (
    *("cat list | xargs cat", "xargs cat < list", "xargs -a list cat", "ls .. | xargs cat", "find .. | xargs grep x"),
    *(
        "find ~ -type f | xargs cat",
        "find /home -name x -exec cat {} +",
        "find .. -exec cat {} \\;",
        "ls /etc | xargs cat",
    ),
    *("find $X -exec cat {} +", "while read f; do cat $f; done < list", "cat list | while read f; do cat $f; done"),
    *("echo ~/x | xargs cat", "printf '%s' /etc/x | xargs cat", "xargs -I{} cat {} < list", "fd . .. -x cat"),
)


BY_OTHER_MEANS = (
    *(
        "xargs -a ../x echo",
        "xargs -a../x echo",
        "xargs -0a ../x echo",
        "xargs --arg-file=/etc/x printf",
        "zipinfo ../x.zip",
    ),
    *(
        "cat .?/x",
        "cat .[.]/x",
        "grep -r word .?",
        "head .*/x",
        "cat {..,.}/x",
        "cat ../{x,y}",
        "cat .\\./x",
        "cat $'../x'",
    ),
    *(
        "ps auxe",
        "ps eww",
        "ps e",
        "ps -auxe",
        "ps axeww",
        "ps -o pid,environ",
        "ps -p $(echo 1 e)",
        "cat /proc/self/root/etc/x",
    ),
    *("f() { cat ../x; }; f", "a=(../x); cat ${a[@]}", "printf -v f ../x; cat $f", "cat $(echo Li4veA== | base64 -d)"),
    *(
        "cat /proc/self/environ",
        "cat /proc/$$/environ",
        "cat /proc/1/cmdline",
        "coproc cat ../x",
        "jq -n --rawfile a ../x '$a'",
    ),
)
"""What got through, or might have, when the page was attacked at level C."""


def outside() -> Iterator[str]:
    for form, place in product((*READERS, *BY_VARIABLE), OUTSIDE):
        if "'" not in form or "'" not in place:
            yield form.format(place)
    for form, place in product(READERS, AT_RUN_TIME):
        if not ("'" in form and "'" in place) and not ('"' in form and '"' in place):
            yield form.format(place)
    yield from BY_OTHERS
    yield from BY_OTHER_MEANS


@pytest.mark.parametrize("profile", list(Profile))
@pytest.mark.parametrize("rules", [(), (EVERYTHING,)], ids=["no rule", "all allowed"])
def test_without_a_box_reading_outside_of_the_workspace_asks(profile: Profile, rules: tuple[Rule, ...]) -> None:
    passed = [line for line in outside() if judge(line, profile=profile, rules=rules).verdict is Verdict.ALLOW]
    assert passed == []


@pytest.mark.parametrize("level", ["A", "A+", "B"])
def test_in_a_box_it_does_not_ask_because_the_box_shows_nothing_private(level: str) -> None:
    for line in ("cat < /etc/x", "cat $X", "cat list | xargs cat", "cat ../x", "find .. -exec cat {} +"):
        assert judge(line, level=level).verdict is Verdict.ALLOW, line


INSIDE = (
    *(
        "cat a",
        "cat *.py",
        "cat < a",
        "cat src/*.c",
        "head -n 5 src/a.py",
        "grep -rn word .",
        "grep -r word src",
        "rg x",
    ),
    *(
        "for f in *.py; do cat $f; done",
        "for f in src/a src/b; do wc -l $f; done",
        "f=src/a; cat $f",
        "cd src && cat a",
    ),
    *("git ls-files | xargs wc -l", "ls | xargs cat", "find . -name x | xargs grep y", "cat ./a/../b", 'cat "$PWD/a"'),
    *(
        "cat /srv/work/project/a",
        "cd /srv/work/project && cat a",
        "cat $(git ls-files)",
        "cat <<E\ntext\nE",
        "cat <<< x",
    ),
    *(
        "cat /usr/include/stdio.h",
        "cat /proc/cpuinfo",
        "cat /etc/os-release",
        "cat < /dev/null",
    ),
    *(
        "cat /tmp/out.log",
        "echo $X",
        'printf "%s" "$X"',
        "ls ~",
        "ls /etc",
        "ls ..",
        "stat ../x",
        "pwd",
        "tail -n $N a",
    ),
    *(
        'test -f "$X"',
        "basename $X",
        "which python3",
        "ps aux",
        "ps -ef",
        "ps -eo pid,cmd",
        "ps -C node",
        "ps -p $$",
        "cat *",
        "cat ./*",
        "xargs -a list echo",
        'cat "log-$(date +%F)"',
        "sort a | uniq -c",
        "wc -l < a",
    ),
    *("cat <(sort a)", "diff -u a b", "git log --oneline", "git diff", "while read l; do echo $l; done < a"),
)


@pytest.mark.parametrize("profile", [Profile.WORKSPACE, Profile.OPEN])
def test_reading_in_the_workspace_and_of_the_system_does_not_ask(profile: Profile) -> None:
    asked = {line: judge(line, profile=profile) for line in INSIDE}
    assert {line: ruling for line, ruling in asked.items() if ruling.verdict is not Verdict.ALLOW} == {}


SECRETS = (
    *(
        "cat ~/.ssh/id_rsa",
        "cd ~/.ssh && cat id_rsa",
        "d=.ssh; cat ~/$d/id_rsa",
        "cat ~/.s*/id_rsa",
        "cat ~/.??h/id_rsa",
    ),
    *(
        "cat /etc/shadow",
        "cat /etc/sh*",
        "cat /etc/*",
        "cd /etc && cat shadow",
        "cat < /etc/shadow",
        "cat /etc/../etc/shadow",
    ),
    *(
        "f=/etc/shadow; cat $f",
        "grep -r . ~",
        "grep -r . /root",
        "grep -r . /home/ada",
        "rg x ~",
        "cat /proc/1/environ",
    ),
    *(
        "cat $X",
        "cat list | xargs cat",
        "xargs -a list cat",
        "cat /var/log/$X",
        "grep x $(cat list)",
        "head `cat list`",
    ),
)


def test_on_a_machine_of_the_fleet_keys_and_what_only_run_time_tells_ask() -> None:
    assert [line for line in SECRETS if judge(line, node="lab").verdict is Verdict.ALLOW] == []


def test_on_a_machine_of_the_fleet_plain_reading_does_not_ask() -> None:
    lines = (
        *(
            "cat /etc/hosts",
            "tail -n 100 /var/log/syslog",
            "grep -r listen /etc/nginx",
            "cat /etc/nginx/*.conf",
            "df -h",
        ),
        *(
            "for f in /var/log/a.log /var/log/b.log; do tail -5 $f; done",
            "cat < /etc/hosts",
            "ls $X",
            "cd /var/log && cat a",
        ),
        *(
            "grep ERROR /var/log/app/$(date +%F).log",
            "ls /var/log | wc -l",
            "head -n $N /var/log/a",
            "ps aux | grep nginx",
        ),
    )
    assert [line for line in lines if judge(line, node="lab").verdict is not Verdict.ALLOW] == []


def test_a_question_about_reading_names_what_is_read_and_covers_only_this_call() -> None:
    ruling = judge("cat ../notes.txt")
    assert (ruling.rule, ruling.alike) == ("reads_outside", "")
    assert "'../notes.txt', which is not in the workspace" in ruling.reason
    assert judge("cat $X").rule == "unclear_reading"
    assert judge("for f in ~/.s*/k; do cat $f; done").rule == "reads_secret"


def test_a_rule_about_reading_files_holds_for_redirects_and_run_time_arguments_in_a_box() -> None:
    rule = Rule(id="no", verdict=Verdict.BLOCK, tools=("read_file",), paths=("secrets/",))
    named = (
        "cat < secrets/k",
        'x="$(< secrets/k)"',
        "while read l; do :; done < secrets/k",
        "cat <<E\n$(cat secrets/k)\nE",
    )
    for line in (*named, "diff <(cat secrets/k) a", "exec 3< secrets/k"):
        assert judge(line, level="A", rules=(rule,)).verdict is Verdict.BLOCK, line
    for line in ("cat $X", "cat list | xargs cat", "find . -exec cat {} +", "cat < $X", "xargs -a list cat"):
        assert judge(line, level="A", rules=(rule,)).verdict is Verdict.ASK, line
