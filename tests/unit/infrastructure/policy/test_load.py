import json
import time
from pathlib import Path

import pytest

from agent_fabric.config.problems import ConfigProblem
from agent_fabric.config.schema.policy import PolicyConfig
from agent_fabric.config.schema.tools import ShellConfig, WebConfig
from agent_fabric.domain.policy.calls import ProposedCall
from agent_fabric.domain.policy.engine import RulePolicy
from agent_fabric.domain.policy.verdicts import Ruling, Verdict
from agent_fabric.domain.tools.specs import Effect
from agent_fabric.infrastructure.policy.load import policy_from
from agent_fabric.infrastructure.policy.rule_files import rules_in

NO_CURL = """\
rules:
  - id: no-curl
    verdict: block
    commands: [curl]
    reason: Use the fetch tool.
    matches: ["curl x", "env nice curl x", "echo $(curl x)"]
    matches_not: [ls, "echo curl"]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    fabric = tmp_path / "project" / ".fabric"
    fabric.mkdir(parents=True)
    return fabric


def load(folder: Path, *, shell: ShellConfig | None = None, **settings: object) -> RulePolicy:
    environ = {"HOME": str(folder.parent.parent / "home")}
    config = PolicyConfig.model_validate(settings)
    return policy_from(config, shell or ShellConfig(), WebConfig(), folder=folder, environ=environ)


def judge(policy: RulePolicy, command: str) -> Ruling:
    return policy.judge(
        ProposedCall(tool="shell", args={}, effect=Effect.CHANGES_WORKSPACE, command=command, sandbox="A")
    )


@pytest.mark.proves("FC-030")
def test_rules_come_from_the_user_the_named_files_and_the_configuration_together(folder: Path) -> None:
    own = folder.parent.parent / "home/.config/agent-fabric"
    own.mkdir(parents=True)
    (own / "policy.yaml").write_text(NO_CURL)
    (folder / "team.json").write_text(
        json.dumps({"rules": [{"id": "no-wget", "verdict": "block", "commands_matching": ["^wget\\b"]}]})
    )
    policy = load(folder, files=["team.json"], rules=[{"id": "jq", "verdict": "ask", "commands": ["jq"]}])
    assert [rule.id for rule in policy.rules] == ["no-curl", "no-wget", "jq"]
    assert judge(policy, "curl x") == Ruling(
        Verdict.BLOCK, "Use the fetch tool.", "no-curl", "curl x", "exactly `curl x`"
    )
    assert judge(policy, "ls | wget x").rule == "no-wget"
    assert judge(policy, "jq . a").verdict is Verdict.ASK
    assert judge(policy, "ls").verdict is Verdict.ALLOW


def test_a_policy_file_that_merely_lies_in_the_project_is_not_read(folder: Path) -> None:
    for place in (folder, folder.parent):
        (place / "policy.yaml").write_text(NO_CURL)
    assert load(folder).rules == ()


@pytest.mark.proves("AF-121")
def test_the_allowlist_of_the_shell_still_holds(folder: Path) -> None:
    assert judge(load(folder), "terraform plan").verdict is Verdict.ASK
    assert (
        judge(load(folder, shell=ShellConfig(extra_commands=("terraform",))), "terraform plan").verdict is Verdict.ALLOW
    )
    only = load(folder, shell=ShellConfig(allowed_commands=("pytest",)))
    assert judge(only, "pytest").verdict is Verdict.ALLOW
    assert judge(only, "ls").verdict is Verdict.ASK


def test_the_version_names_what_the_rules_say(folder: Path) -> None:
    one = {"id": "a", "verdict": "block", "commands": ["x"]}
    versions = {
        load(folder).version,
        load(folder, profile="open").version,
        load(folder, rules=[one]).version,
        load(folder, rules=[{**one, "verdict": "ask"}]).version,
        load(folder, rules=[{**one, "agents": ["b"]}]).version,
        load(folder, shell=ShellConfig(extra_commands=("x",))).version,
        load(folder, capabilities={"a": ["file-read"]}).version,
    }
    assert len(versions) == 7
    assert load(folder, rules=[one]).version == load(folder, rules=[{**one, "reason": "why"}]).version
    assert all(version.startswith("builtin-") and len(version) < 40 for version in versions)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "rules:\n  - id: a\n    verdict: block\n    comands: [x]\n",
            "(line 4): unknown key 'comands'; did you mean 'commands'?",
        ),
        ("ruls: []\n", "(line 1): unknown key 'ruls'; did you mean 'rules'?"),
        ("rules:\n  - id: a\n    verdict: forbid\n", "(line 3): rules[0].verdict"),
        ("rules:\n  - verdict: block\n", "rules[0].id is missing"),
        ("rules:\n  - id: A b\n    verdict: ask\n", "(line 2): rules[0].id must be"),
        ("rules: [x\n", "line 2"),
        ("a: &a [1]\nrules: *a\n", "aliases are not supported"),
        ("rules:\n  - {id: a, verdict: ask, id: b}\n", "appears twice"),
        ("- x\n", "the top level must be a mapping"),
        ("rules:\n  - {id: a, verdict: allow}\n", "rule 'a' allows everything"),
        (
            "rules:\n  - {id: a, verdict: ask, commands: [x]}\n  - {id: a, verdict: block, commands: [y]}\n",
            "two rules are called 'a'",
        ),
        ("rules:\n  - {id: a, verdict: ask, commands_matching: ['(x']}\n", "is no regular expression"),
        ("rules:\n  - {id: a, verdict: ask, commands_matching: ['(?=x)']}\n", "is no regular expression"),
        ("rules:\n  - {id: a, verdict: ask, commands: [x], matches: [y]}\n", "rule 'a' does not fit its example 'y'"),
        (
            "rules:\n  - {id: a, verdict: ask, commands: [x], matches_not: ['ls; x']}\n",
            "rule 'a' fits its example 'ls; x'",
        ),
        ("rules:\n  - {id: a, verdict: ask, domains: [x.org], matches: [y.org]}\n", "does not fit"),
        ("rules:\n  - {id: a, verdict: ask, paths: ['*.env'], matches: [a.txt]}\n", "does not fit"),
        ("rules:\n  - {id: a, verdict: ask, tools: ['mcp__*'], matches: [shell]}\n", "does not fit"),
    ],
)
def test_what_is_wrong_with_a_file_is_said_with_its_place(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text(text)
    with pytest.raises(ConfigProblem) as caught:
        rules_in(path)
    assert str(path) in caught.value.message
    assert said in caught.value.message


def test_a_mistake_in_json_is_placed_as_well(tmp_path: Path) -> None:
    path = tmp_path / "policy.json"
    path.write_text('{"rules": [\n  {"id": "a",\n   "verdct": "ask"}]}')
    with pytest.raises(ConfigProblem, match=r"\(line 3\): unknown key 'verdct'"):
        rules_in(path)


def test_files_that_are_no_policy_are_refused(tmp_path: Path, folder: Path) -> None:
    with pytest.raises(ConfigProblem, match="does not exist"):
        load(folder, files=["missing.yaml"])
    (tmp_path / "policy.txt").write_text("x")
    with pytest.raises(ConfigProblem, match=r"\.yaml, \.yml or \.json"):
        rules_in(tmp_path / "policy.txt")
    (tmp_path / "huge.yaml").write_text("# " + "x" * (2 << 20))
    with pytest.raises(ConfigProblem, match="larger than 1 MiB"):
        rules_in(tmp_path / "huge.yaml")
    (tmp_path / "empty.yaml").write_text("")
    assert rules_in(tmp_path / "empty.yaml") == ()


def test_an_expression_that_would_hang_python_does_not(folder: Path) -> None:
    policy = load(folder, rules=[{"id": "slow", "verdict": "ask", "commands_matching": ["(a+)+$"]}])
    started = time.process_time()
    judge(policy, "echo " + "a" * 5_000 + "!")
    assert time.process_time() - started < 2


def test_expressions_that_allow_must_fit_the_whole_command(folder: Path) -> None:
    policy = load(
        folder, rules=[{"id": "a", "verdict": "allow", "commands_matching": ["terraform plan( -out=[a-z]+)?"]}]
    )
    assert judge(policy, "terraform plan -out=x").verdict is Verdict.ALLOW
    assert judge(policy, "terraform plan -out=x -destroy").verdict is Verdict.ASK
    assert judge(policy, "terraform plan $x").verdict is Verdict.ASK
    assert judge(policy, "terraform plan; curl x").verdict is Verdict.ASK
    assert judge(policy, "echo \ud800").verdict is Verdict.ALLOW
