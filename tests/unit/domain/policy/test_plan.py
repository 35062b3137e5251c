"""A run that only makes a plan reads, and changes nothing, whatever the rules say."""

import pytest

from agent_fabric.domain.policy.calls import ProposedCall
from agent_fabric.domain.policy.engine import RulePolicy
from agent_fabric.domain.policy.profiles import Profile
from agent_fabric.domain.policy.verdicts import Verdict
from agent_fabric.domain.tools.specs import Effect

OPEN = RulePolicy(profile=Profile.OPEN)

pytestmark = pytest.mark.proves("CP-7")


def command(line: str, **more: object) -> ProposedCall:
    values: dict[str, object] = {"sandbox": "A", "plans": True, **more}
    return ProposedCall(tool="shell", args={}, effect=Effect.CHANGES_WORKSPACE, command=line, **values)  # type: ignore[arg-type] # test values


def call(tool: str, effect: Effect) -> ProposedCall:
    return ProposedCall(tool=tool, args={}, effect=effect, sandbox="A", plans=True)


READING = ("ls -l", "cat a | grep b | wc -l", "git log --oneline", "find . -name x", "ls 2>/dev/null", "cd src && ls")
CHANGING = (
    *("touch a", "rm a", "echo x > a", "ls > a", "cat a | tee b", "sed -i s/a/b/ c", "find . -delete", "sort -o a b"),
    *("git commit -am x", "python3 a.py", "make", "bash -c 'ls'; touch a", "$(echo touch) a", "ls; rm -r b", "./ls"),
    *("eval touch a", "if", "PATH=. ls"),
)


@pytest.mark.parametrize("line", READING)
def test_commands_that_only_read_run(line: str) -> None:
    assert OPEN.judge(command(line)).verdict is Verdict.ALLOW


@pytest.mark.parametrize("line", CHANGING)
def test_commands_that_may_change_something_are_blocked(line: str) -> None:
    assert OPEN.judge(command(line)).verdict is Verdict.BLOCK


def test_git_is_not_trusted_where_the_project_may_make_it_do_something_else() -> None:
    assert OPEN.judge(command("git log", altered=frozenset({"git"}))).verdict is Verdict.BLOCK


def test_tools_that_read_run_and_all_others_are_blocked() -> None:
    for tool in ("read_file", "fetch_url", "memory_search"):
        effect = Effect.READS if tool == "read_file" else Effect.IDEMPOTENT
        assert OPEN.judge(call(tool, effect)).verdict is Verdict.ALLOW, tool
    for effect in (Effect.IDEMPOTENT, Effect.CHANGES_WORKSPACE, Effect.LEAVES_SANDBOX):
        assert OPEN.judge(call("anything", effect)).verdict is Verdict.BLOCK, effect
        assert OPEN.judge(call("anything", effect)).rule == "plan"
