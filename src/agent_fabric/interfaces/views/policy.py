"""Questions about the policy that the command line and HTTP share."""

from collections.abc import Iterable

from agent_fabric.domain.errors import ConfigError
from agent_fabric.domain.policy.calls import ProposedCall
from agent_fabric.domain.policy.engine import RulePolicy, strictest_part
from agent_fabric.domain.policy.outside import outside_call
from agent_fabric.domain.policy.outside_plan import CannotRunOutside
from agent_fabric.domain.policy.programs import BOXES
from agent_fabric.domain.policy.rules import Rule
from agent_fabric.domain.policy.verdicts import Verdict
from agent_fabric.domain.tools.specs import Effect
from agent_fabric.infrastructure.policy.load import with_rules
from agent_fabric.infrastructure.policy.rule_files import refuse_doubles
from agent_fabric.infrastructure.sandbox.altered_programs import altered_programs
from agent_fabric.wire.policy import CheckedCommand

LEVELS = ("A", "A+", "B", "C")


def with_added(before: RulePolicy, added: tuple[Rule, ...]) -> RulePolicy:
    """Return a policy with the rules of a file added.

    Raises:
        ConfigProblem: two rules have the same name.
    """
    known = {rule.id for rule in added}
    # A newer text of a file that is in force already takes its place.
    rules = (*(rule for rule in before.rules if rule.id not in known), *added)
    refuse_doubles(rules)
    return with_rules(before, rules)


def check_command(
    in_force: RulePolicy,
    command: str,
    *,
    agent: str,
    level: str,
    scopes: Iterable[str] = (),
    folder: str = "",
    may_leave: bool,
) -> CheckedCommand:
    """Tell what a policy says about a command line, part by part; `scopes` are those of the user.

    `folder` is the project that it would run in. Without a box, its git settings and programs matter. `may_leave` says
    whether calls run outside the box at all.

    Raises:
        ConfigError: there is no such level.
    """
    if level not in LEVELS:
        raise ConfigError(f"There is no level {level!r}", hint=f"Choose: {', '.join(LEVELS)}.")
    call = ProposedCall(
        tool="shell",
        args={"command": command},
        effect=Effect.CHANGES_WORKSPACE,
        command=command,
        agent=agent,
        sandbox=level,
        scopes=frozenset(scopes),
        workspace=folder,
        altered=altered_programs(folder) if folder and level not in BOXES else frozenset(),
    )
    parts = in_force.explain(call)
    decided = strictest_part([part.decided for part in parts])
    outside, refusal = _leaves(command, level) if may_leave and decided.verdict is Verdict.ASK else (False, "")
    return CheckedCommand(decided, in_force.version, level, parts, outside, refusal)


def _leaves(command: str, level: str) -> tuple[bool, str]:
    """Return whether a command would run outside the box, and why it cannot although it needs to."""
    try:
        return outside_call(command) is not None, ""
    except CannotRunOutside as problem:
        return False, str(problem) if level in BOXES else ""  # elsewhere commands have the network
