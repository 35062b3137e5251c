from dataclasses import replace

import pytest

from agent_fabric.domain.policy.calls import ProposedCall
from agent_fabric.domain.policy.engine import RulePolicy
from agent_fabric.domain.policy.rules import CommandPattern, Rule
from agent_fabric.domain.policy.verdicts import Ruling, Verdict
from agent_fabric.domain.tools.capabilities import CAPABILITIES, patterns_of, tools_of
from agent_fabric.domain.tools.specs import Effect

EVERYTHING = Rule(id="all", verdict=Verdict.ALLOW, tools=("*",))
POLICY = RulePolicy(
    rules=(EVERYTHING,),
    capabilities={
        "reader": frozenset({"file-read"}),
        "coder": frozenset({"file-read", "code-execution"}),
        "idle": frozenset(),
    },
)


def judge(tool: str, *, agent: str = "", scopes: frozenset[str] = frozenset(), effect: Effect = Effect.READS) -> Ruling:
    call = ProposedCall(tool=tool, args={}, effect=effect, agent=agent, scopes=scopes, sandbox="A")
    return POLICY.judge(call)


@pytest.mark.proves("A33-022")
@pytest.mark.parametrize(
    ("agent", "tool", "allowed"),
    [
        ("reader", "read_file", True),
        ("reader", "write_file", False),
        ("reader", "shell", False),
        ("reader", "mcp__files__read", False),
        ("reader", "finish_task", True),
        ("coder", "shell", True),
        ("coder", "fetch_url", False),
        ("idle", "read_file", False),
        ("somebody", "shell", True),
    ],
)
def test_capabilities_decide_which_tools_an_agent_may_use(agent: str, tool: str, allowed: bool) -> None:
    ruling = judge(tool, agent=agent)
    assert (ruling.verdict is Verdict.ALLOW) is allowed
    if not allowed:
        assert (ruling.verdict, ruling.rule) == (Verdict.BLOCK, "capability")
        assert agent in ruling.reason


def test_an_unknown_capability_opens_nothing() -> None:
    assert patterns_of(["fly", "file-read"]) == patterns_of(["file-read"])
    assert patterns_of(["fly"]) == ()


@pytest.mark.parametrize("name", CAPABILITIES)
def test_the_policy_lets_an_agent_use_what_a_capability_gives_it(name: str) -> None:
    assert set(tools_of([name])) <= set(patterns_of([name]))


@pytest.mark.proves("A33-017")
@pytest.mark.parametrize(
    ("scopes", "effect", "allowed"),
    [
        (frozenset(), Effect.LEAVES_SANDBOX, True),
        (frozenset({"tools:read"}), Effect.READS, True),
        (frozenset({"tools:read"}), Effect.CHANGES_WORKSPACE, False),
        (frozenset({"tools:write"}), Effect.CHANGES_WORKSPACE, True),
        (frozenset({"tools:write"}), Effect.LEAVES_SANDBOX, False),
        (frozenset({"tools:execute"}), Effect.LEAVES_SANDBOX, True),
        (frozenset({"tools:*"}), Effect.LEAVES_SANDBOX, True),
        (frozenset({"tools:x"}), Effect.LEAVES_SANDBOX, True),
        (frozenset({"tools:x*", "runs"}), Effect.LEAVES_SANDBOX, True),
        (frozenset({"tools:y"}), Effect.READS, False),
        (frozenset({"tools:none"}), Effect.READS, False),
        (frozenset({"runs:read"}), Effect.LEAVES_SANDBOX, True),
        (frozenset({"admin", "tools:read"}), Effect.LEAVES_SANDBOX, True),
    ],
)
def test_scopes_of_the_person_limit_what_tools_may_do(scopes: frozenset[str], effect: Effect, allowed: bool) -> None:
    ruling = judge("x", scopes=scopes, effect=effect)
    assert (ruling.verdict is Verdict.ALLOW) is allowed
    if not allowed:
        assert (ruling.verdict, ruling.rule) == (Verdict.BLOCK, "scope")


@pytest.mark.parametrize(
    ("scopes", "verdict"),
    [
        (frozenset(), Verdict.ALLOW),
        (frozenset({"runs", "tools:shell"}), Verdict.ALLOW),
        (frozenset({"runs", "tools:*"}), Verdict.ALLOW),
        (frozenset({"admin"}), Verdict.ALLOW),
        (frozenset({"runs"}), Verdict.BLOCK),
        (frozenset({"runs", "tools:read_file"}), Verdict.BLOCK),
    ],
)
def test_a_rule_can_require_a_scope(scopes: frozenset[str], verdict: Verdict) -> None:
    rule = Rule(id="by-grant", verdict=Verdict.BLOCK, tools=("shell",), unless_scopes=("tools:shell",))
    call = ProposedCall(
        tool="shell", args={}, effect=Effect.CHANGES_WORKSPACE, command="ls", scopes=scopes, sandbox="A"
    )
    assert RulePolicy(rules=(rule,)).judge(call).verdict is verdict


def test_a_rule_can_hold_only_for_users_with_a_scope() -> None:
    rule = Rule(id="ops", verdict=Verdict.ALLOW, commands=(CommandPattern(text="git push"),), scopes=("nodes",))
    call = ProposedCall(tool="shell", args={}, effect=Effect.CHANGES_WORKSPACE, command="git push", sandbox="A")
    policy = RulePolicy(rules=(rule,))
    assert policy.judge(replace(call, scopes=frozenset({"nodes"}))).verdict is Verdict.ALLOW
    assert policy.judge(replace(call, scopes=frozenset({"runs"}))).verdict is Verdict.ASK
