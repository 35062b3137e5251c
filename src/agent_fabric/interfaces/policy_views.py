"""Questions about the policy that the command line and HTTP share."""

from collections.abc import Iterable

from agent_fabric.domain.errors import ConfigError
from agent_fabric.domain.policy.calls import ProposedCall
from agent_fabric.domain.policy.engine import RulePolicy, strictest_part
from agent_fabric.domain.policy.programs import BOXES
from agent_fabric.domain.policy.rules import Rule
from agent_fabric.domain.tools import Effect
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
    in_force: RulePolicy, command: str, *, agent: str, level: str, scopes: Iterable[str] = (), folder: str = ""
) -> CheckedCommand:
    """Tell what a policy says about a command line, part by part; `scopes` are those of the user.

    `folder` is the project that it would run in. Without a box, its git settings and programs matter.

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
    return CheckedCommand(strictest_part([part.decided for part in parts]), in_force.version, level, parts)
