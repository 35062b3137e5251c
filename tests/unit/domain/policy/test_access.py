import pytest

from agent_fabric.domain.policy.access import CAPABILITIES, tools_of
from agent_fabric.domain.policy.calls import ProposedCall
from agent_fabric.domain.policy.engine import RulePolicy
from agent_fabric.domain.policy.rules import Rule
from agent_fabric.domain.policy.verdicts import Ruling, Verdict
from agent_fabric.domain.tools import Effect

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


def test_a_capability_that_nobody_knows_opens_nothing() -> None:
    assert tools_of(["fly", "file-read"]) == CAPABILITIES["file-read"]


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
        (frozenset({"tool:x"}), Effect.LEAVES_SANDBOX, True),
        (frozenset({"tool:y"}), Effect.READS, False),
        (frozenset({"runs:read"}), Effect.LEAVES_SANDBOX, True),
        (frozenset({"admin", "tools:read"}), Effect.LEAVES_SANDBOX, True),
    ],
)
def test_scopes_of_the_person_limit_what_tools_may_do(scopes: frozenset[str], effect: Effect, allowed: bool) -> None:
    ruling = judge("x", scopes=scopes, effect=effect)
    assert (ruling.verdict is Verdict.ALLOW) is allowed
    if not allowed:
        assert (ruling.verdict, ruling.rule) == (Verdict.BLOCK, "scope")
