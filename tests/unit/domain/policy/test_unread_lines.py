"""A line that is not understood is not above the rules: where they block what it names, it is blocked.

The lines are only ever given to `judge`, which runs nothing.
"""

import pytest

from agent_fabric.domain.policy.calls import ProposedCall
from agent_fabric.domain.policy.engine import RulePolicy
from agent_fabric.domain.policy.profiles import Profile
from agent_fabric.domain.policy.rules import CommandPattern, Rule
from agent_fabric.domain.policy.verdicts import Ruling, Verdict
from agent_fabric.domain.tools.allowlists import Allowlists
from agent_fabric.domain.tools.specs import Effect

pytestmark = pytest.mark.proves("WB-6")

BROKEN = (
    "curl https://x.example 'oops",
    'curl -s https://x.example/a | "sh',
    "/usr/bin/curl https://x.example |",
    "if true; then curl https://x.example",
    "curl https://x.example <<E",
    "cat secrets/key; (curl https://x.example",
    "x=$(curl https://x.example",
    "curl https://x.example; " + "a;" * 60_000,
)


def judge(command: str, policy: RulePolicy, *, level: str = "A", by_itself: bool = False, node: str = "") -> Ruling:
    call = ProposedCall(
        tool="shell",
        args={},
        effect=Effect.CHANGES_WORKSPACE,
        command=command,
        sandbox=level,
        workspace="/srv/work/project",
        by_itself=by_itself,
        node=node,
        agent="research",
    )
    return policy.judge(call)


def commands(*texts: str) -> tuple[CommandPattern, ...]:
    return tuple(CommandPattern(text=text) for text in texts)


@pytest.mark.parametrize(
    "rule",
    [
        Rule(id="no", verdict=Verdict.BLOCK, commands=commands("curl")),
        Rule(id="no", verdict=Verdict.BLOCK, commands=commands("cu*")),
        Rule(id="no", verdict=Verdict.BLOCK, commands=commands("*")),
        Rule(id="no", verdict=Verdict.BLOCK, tools=("shell",)),
        Rule(id="no", verdict=Verdict.BLOCK, agents=("research",)),
        Rule(id="no", verdict=Verdict.BLOCK, domains=("x.example",)),
        Rule(
            id="no", verdict=Verdict.BLOCK, commands=(CommandPattern(text="c", expression=lambda text: "curl" in text),)
        ),
    ],
    ids=["program", "pattern", "everything", "tool", "agent", "domain", "expression"],
)
@pytest.mark.parametrize("profile", list(Profile))
def test_a_line_that_is_not_understood_is_blocked_where_a_rule_blocks_what_it_names(
    rule: Rule, profile: Profile
) -> None:
    policy = RulePolicy(rules=(rule,), profile=profile)
    rulings = {line[:60]: judge(line, policy) for line in BROKEN}
    assert {line: (r.verdict, r.rule) for line, r in rulings.items()} == dict.fromkeys(rulings, (Verdict.BLOCK, "no"))
    assert "not understood" in rulings[BROKEN[0]].reason


@pytest.mark.parametrize(
    "rule",
    [
        Rule(id="no", verdict=Verdict.BLOCK, commands=commands("wget", "git push")),
        Rule(id="no", verdict=Verdict.BLOCK, commands=commands("curl"), agents=("other",)),
        Rule(id="no", verdict=Verdict.BLOCK, tools=("read_file",)),
        Rule(id="no", verdict=Verdict.BLOCK, paths=("other/",)),
        Rule(id="yes", verdict=Verdict.ALLOW, commands=commands("*")),
        Rule(id="yes", verdict=Verdict.ALLOW, tools=("shell",)),
    ],
    ids=["program", "agent", "tool", "path", "allows commands", "allows the tool"],
)
def test_otherwise_it_asks_and_no_rule_allows_it(rule: Rule) -> None:
    for line in BROKEN:
        ruling = judge(line, RulePolicy(rules=(rule,)))
        assert (ruling.verdict, ruling.rule) == (Verdict.ASK, "unparsable"), line[:60]


def test_a_rule_about_files_blocks_a_broken_line_that_names_one() -> None:
    for tools in ((), ("read_file",)):
        policy = RulePolicy(rules=(Rule(id="no", verdict=Verdict.BLOCK, tools=tools, paths=("secrets/",)),))
        assert judge("cat secrets/key 'oops", policy).verdict is Verdict.BLOCK
        assert judge("cat < secrets/key; (true", policy).verdict is Verdict.BLOCK


def test_with_an_allowlist_of_commands_it_is_blocked() -> None:
    policy = RulePolicy(floor=Allowlists(owner="the configuration", commands=("curl", "git")))
    for line in BROKEN:
        ruling = judge(line, policy)
        assert (ruling.verdict, ruling.rule) == (Verdict.BLOCK, "allowlist:commands")


def test_an_unattended_run_without_a_box_has_no_shell_for_it_either() -> None:
    for line in BROKEN:
        ruling = judge(line, RulePolicy(), level="C", by_itself=True)
        assert (ruling.verdict, ruling.rule) == (Verdict.BLOCK, "unattended_shell")
