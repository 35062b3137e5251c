"""Files that take effect later, outside of the box, are not written unasked unless a rule says so."""

from itertools import product

import pytest

from agent_fabric.domain.policy.calls import ProposedCall
from agent_fabric.domain.policy.engine import RulePolicy
from agent_fabric.domain.policy.profiles import Profile
from agent_fabric.domain.policy.rules import Rule
from agent_fabric.domain.policy.verdicts import Ruling, Verdict
from agent_fabric.domain.tools.specs import Effect

WORKSPACE = "/home/me/project"
FILES = (
    ".github/workflows/ci.yml",
    "./.gitlab-ci.yml",
    ".pre-commit-config.yaml",
    f"{WORKSPACE}/mise.toml",
    "a/Jenkinsfile",
)
WRITERS = (
    *("echo x > {}", "echo x >> {}", "make &> {}", "cp x {}", "mv x {}", "tee {} < x", "ln -sf x {}", "rm {}"),
    *("cd sub && cp x ../{}", "bash -c 'echo x > {}'", "f={}; cp x $f", "install -m 644 x {}", "truncate -s 0 {}"),
    *("sed -i s/a/b/ {}", "perl -pi -e s/a/b/ {}", "mv {} x"),
)


def judge(command: str = "", *rules: Rule, profile: Profile = Profile.WORKSPACE, path: str = "") -> Ruling:
    call = ProposedCall(
        tool="shell" if command else "write_file",
        args={},
        effect=Effect.CHANGES_WORKSPACE if command else Effect.IDEMPOTENT,
        command=command,
        paths=(path,) if path else (),
        sandbox="A",
        workspace=WORKSPACE,
    )
    return RulePolicy(profile=profile, rules=rules).judge(call)


def test_a_command_that_writes_such_a_file_asks() -> None:
    lines = [form.format(file) for form, file in product(WRITERS, FILES) if "../" not in form or file[0] == "."]
    assert [line for line in lines if judge(line).rule != "obeyed_later"] == []


@pytest.mark.parametrize("path", FILES)
def test_a_file_tool_that_writes_such_a_file_asks_and_a_rule_can_let_it(path: str) -> None:
    assert judge(path=path).rule == "obeyed_later"
    allowed = Rule(id="ci", verdict=Verdict.ALLOW, tools=("write_file",), paths=("**",))
    assert judge("", allowed, path=path).verdict is Verdict.ALLOW
    assert judge(path=path, profile=Profile.OPEN).verdict is Verdict.ALLOW


@pytest.mark.parametrize(
    "command",
    [
        "cat .github/workflows/ci.yml",
        "git add .github",
        "cp .gitlab-ci.yml /tmp/x",
        "echo x > Makefile",
        "cp a b",
        "ls .github",
    ],
)
def test_reading_them_and_writing_code_needs_no_question(command: str) -> None:
    assert judge(command).verdict is Verdict.ALLOW, judge(command)
