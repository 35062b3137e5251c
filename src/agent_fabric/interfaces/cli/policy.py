"""`fabric policy`: what may happen, and why."""

import asyncio
import re
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from agent_fabric.application.policy.simulate_policy import Change, SimulatePolicy, Simulation
from agent_fabric.bootstrap.local import open_records
from agent_fabric.domain.errors import ConfigError, RunNotFound
from agent_fabric.domain.policy.calls import ProposedCall
from agent_fabric.domain.policy.engine import Judgement, RulePolicy, strictest_part
from agent_fabric.domain.policy.rules import Rule
from agent_fabric.domain.policy.verdicts import Ruling, Verdict
from agent_fabric.domain.tools import Effect
from agent_fabric.infrastructure.policy.load import policy_from, with_rules
from agent_fabric.infrastructure.policy.rule_files import refuse_doubles, rules_in
from agent_fabric.interfaces.cli.invocation import new_app
from agent_fabric.interfaces.cli.main import COMPLETED, FAILED, WAITING
from agent_fabric.interfaces.cli.options import AsJson, Workspace, configuration, existing_root, fabric_root
from agent_fabric.interfaces.cli.output import plain, print_json, shortened, styled

app = new_app("See what may happen and why: check, show, simulate.")

_STYLES = {Verdict.ALLOW: "green", Verdict.ASK: "yellow", Verdict.BLOCK: "red"}
_CODES = {Verdict.ALLOW: COMPLETED, Verdict.ASK: WAITING, Verdict.BLOCK: FAILED}
_AGE = re.compile(r"(\d{1,6})([smhdw])")
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}
_LEVELS = ("A", "A+", "B", "C")
MOST_SHOWN = 50


@app.callback()
def policy() -> None:
    """See what may happen without a question, what asks, and what never happens."""


@app.command()
def check(
    command: Annotated[str, typer.Argument(help="A command line, as an agent would send it.")],
    agent: Annotated[str, typer.Option(help="The specialist or agent who sends it.")] = "",
    level: Annotated[str, typer.Option(help="Level of the box that it runs in: A, A+, B or C.")] = "A",
    workspace: Workspace = None,
    as_json: AsJson = False,
) -> int:
    """Explain what the policy says about a command line, part by part. Nothing is run.

    Exit codes: 0 it would run, 3 a person would be asked, 1 it is blocked.

    Example: fabric policy check "make test && git push"
    """
    if level not in _LEVELS:
        raise ConfigError(f"There is no level {level!r}", hint=f"Choose: {', '.join(_LEVELS)}.")
    call = ProposedCall(
        tool="shell",
        args={"command": command},
        effect=Effect.CHANGES_WORKSPACE,
        command=command,
        agent=agent,
        sandbox=level,
    )
    in_force = _policy(workspace)
    parts = in_force.explain(call)
    decided = strictest_part([part.decided for part in parts])
    if as_json:
        print_json(
            {
                **_ruling(decided),
                "alike": decided.alike,
                "policy_version": in_force.version,
                "level": level,
                "parts": [{**_ruling(p.decided), "said": [_ruling(ruling) for ruling in p.said]} for p in parts],
            }
        )
    else:
        _print_parts(parts, decided)
    return _CODES[decided.verdict]


@app.command()
def show(workspace: Workspace = None, as_json: AsJson = False) -> None:
    """Show the rules in force and where they are written.

    Example: fabric policy show
    """
    in_force = _policy(workspace)
    if as_json:
        print_json(
            {
                "version": in_force.version,
                "profile": in_force.profile.value,
                "rules": [_rule(rule) for rule in in_force.rules],
                "allowed_commands": sorted(in_force.allowed_commands),
                "capabilities": {agent: sorted(own) for agent, own in in_force.capabilities.items()},
            }
        )
        return
    sys.stdout.write(f"Profile: {in_force.profile.value}   Version: {in_force.version}\n")
    for rule in in_force.rules:
        conditions = (
            "; ".join(f"{key}: {', '.join(values)}" for key, values in _conditions(rule).items()) or "everything"
        )
        sys.stdout.write(f"{_verdict(rule.verdict)} {rule.id}  [{rule.origin}]\n      {shortened(conditions, 200)}\n")
    if not in_force.rules:
        sys.stdout.write("No rules beside the built-in ones.\n")
    sys.stdout.write(
        f"{len(in_force.allowed_commands)} programs run without a question in a box (profile workspace).\n"
    )


@app.command()
def simulate(
    file: Annotated[Path, typer.Argument(help="A policy file, as YAML or JSON.")],
    since: Annotated[str, typer.Option(help="How far to look back, such as 12h, 30d or 4w.")] = "30d",
    workspace: Workspace = None,
    as_json: AsJson = False,
) -> None:
    """Decide about past calls once more, with the rules of a file added, and show what would change. Nothing is run.

    Example: fabric policy simulate stricter.yaml --since 30d
    """
    seconds = _seconds(since)
    before = _policy(workspace)
    added = rules_in(file)
    known = {rule.id for rule in added}
    # A newer text of a file that is in force already takes its place.
    rules = (*(rule for rule in before.rules if rule.id not in known), *added)
    refuse_doubles(rules)
    result = asyncio.run(_simulated(workspace, before, with_rules(before, rules), time.time() - seconds))
    if as_json:
        print_json({"runs": result.runs, "calls": result.calls, "changes": [_change(each) for each in result.changes]})
        return
    for each in result.changes[:MOST_SHOWN]:
        what = each.past.call.command or " ".join([each.past.call.tool, *each.past.call.paths, *each.past.call.urls])
        sys.stdout.write(
            f"{_verdict(each.before.verdict)} → {_verdict(each.after.verdict)}"
            f" {each.past.run_id}  {shortened(what, 70)}  ({each.after.rule})\n"
        )
    if len(result.changes) > MOST_SHOWN:
        sys.stdout.write(f"… and {len(result.changes) - MOST_SHOWN} more; --json shows all\n")
    sys.stdout.write(
        f"{len(result.changes)} of {result.calls} calls in {result.runs} runs would be decided otherwise.\n"
    )


async def _simulated(workspace: str | None, before: RulePolicy, after: RulePolicy, since: float) -> Simulation:
    try:
        root = existing_root(workspace)
    except RunNotFound:
        return Simulation(0, 0, ())
    records = open_records(root)
    try:
        return await SimulatePolicy(records.catalogue, records.runs)(before, after, since=since)
    finally:
        records.close()


def _policy(workspace: str | None) -> RulePolicy:
    root = fabric_root(workspace)
    config = configuration(root).config
    return policy_from(config.policy, config.shell, folder=root)


def _seconds(age: str) -> float:
    match = _AGE.fullmatch(age.strip().lower())
    if not match:
        raise ConfigError(f"{age!r} is no span of time", hint="For example: 12h, 30d or 4w.")
    return float(int(match[1]) * _UNITS[match[2]])


def _print_parts(parts: tuple[Judgement, ...], decided: Ruling) -> None:
    for part in parts:
        subject = shortened(part.decided.subject, 90) or "(nothing)"
        sys.stdout.write(f"{_verdict(part.decided.verdict)} {subject}\n")
        for ruling in part.said:
            sys.stdout.write(f"        {ruling.rule}: {plain(ruling.reason)}\n")
    sys.stdout.write(f"So: {_verdict(decided.verdict).strip()} ({decided.rule})\n")


def _verdict(verdict: Verdict) -> str:
    return styled(f"{verdict.value:<5}", _STYLES[verdict], sys.stdout)


def _ruling(ruling: Ruling) -> dict[str, Any]:
    return {
        "verdict": ruling.verdict.value,
        "rule": ruling.rule,
        "subject": ruling.subject,
        "reason": ruling.reason,
    }


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


def _change(change: Change) -> dict[str, Any]:
    call = change.past.call
    return {
        "run_id": change.past.run_id,
        "ts": change.past.ts,
        "tool": call.tool,
        "args": dict(call.args),
        "before": _ruling(change.before),
        "after": _ruling(change.after),
    }
