"""What may happen, and why, as JSON objects: the same for the command line and for HTTP."""

from collections.abc import Iterable
from typing import Any

from agent_fabric.application.policy.simulate_policy import Change, Simulation
from agent_fabric.domain.allowlists import Allowlists
from agent_fabric.domain.errors import ConfigError
from agent_fabric.domain.policy.calls import ProposedCall
from agent_fabric.domain.policy.engine import RulePolicy, strictest_part
from agent_fabric.domain.policy.rules import Rule
from agent_fabric.domain.policy.verdicts import Ruling
from agent_fabric.domain.tools import Effect
from agent_fabric.infrastructure.policy.load import with_rules
from agent_fabric.infrastructure.policy.rule_files import refuse_doubles

LEVELS = ("A", "A+", "B", "C")


def policy_object(in_force: RulePolicy) -> dict[str, Any]:
    """Return the rules in force, and where they are written."""
    return {
        "version": in_force.version,
        "profile": in_force.profile.value,
        "rules": [_rule(rule) for rule in in_force.rules],
        "allowed_commands": sorted(in_force.allowed_commands),
        "capabilities": {agent: sorted(own) for agent, own in in_force.capabilities.items()},
        "allowlist": _allowlist(in_force.floor),
        "agent_allowlists": {agent: _allowlist(each) for agent, each in in_force.agent_allowlists.items()},
    }


def checked_object(
    in_force: RulePolicy, command: str, *, agent: str, level: str, scopes: Iterable[str] = ()
) -> dict[str, Any]:
    """Return what a policy says about a command line, part by part; `scopes` are those of the user.

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
    )
    parts = in_force.explain(call)
    decided = strictest_part([part.decided for part in parts])
    return {
        **_ruling(decided),
        "alike": decided.alike,
        "policy_version": in_force.version,
        "level": level,
        "parts": [{**_ruling(p.decided), "said": [_ruling(ruling) for ruling in p.said]} for p in parts],
    }


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


def simulation_object(result: Simulation) -> dict[str, Any]:
    """Return which past calls would be decided otherwise."""
    return {"runs": result.runs, "calls": result.calls, "changes": [_change(each) for each in result.changes]}


def _allowlist(lists: Allowlists) -> dict[str, list[str]]:
    return {"commands": list(lists.commands), "paths": list(lists.paths), "domains": list(lists.domains)}


def _conditions(rule: Rule) -> dict[str, list[str]]:
    said = {
        "tools": list(rule.tools),
        "commands": [pattern.text for pattern in rule.commands if pattern.expression is None],
        "commands_matching": [pattern.text for pattern in rule.commands if pattern.expression is not None],
        "paths": list(rule.paths),
        "domains": list(rule.domains),
        "effects": sorted(effect.value for effect in rule.effects),
        "agents": list(rule.agents),
        "nodes": list(rule.nodes),
        "scopes": list(rule.scopes),
        "unless_scopes": list(rule.unless_scopes),
    }
    return {key: values for key, values in said.items() if values}


def _rule(rule: Rule) -> dict[str, Any]:
    return {
        "id": rule.id,
        "verdict": rule.verdict.value,
        "reason": rule.reason,
        "origin": rule.origin,
        **_conditions(rule),
    }


def _ruling(ruling: Ruling) -> dict[str, Any]:
    return {
        "verdict": ruling.verdict.value,
        "rule": ruling.rule,
        "subject": ruling.subject,
        "reason": ruling.reason,
    }


def _change(change: Change) -> dict[str, Any]:
    call = change.past.call
    return {
        "run_id": change.past.run_id,
        "ts": change.past.ts,
        "tool": call.tool,
        "args": dict(call.args),
        "what": call.command or " ".join([call.tool, *call.paths, *call.urls]),
        "before": _ruling(change.before),
        "after": _ruling(change.after),
    }
