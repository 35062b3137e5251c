"""Holds a call against the allowlists of the configuration and of its agent."""

from collections.abc import Iterable, Iterator, Sequence

from agent_fabric.domain.policy.allowlists import refuse_domain, refuse_path
from agent_fabric.domain.policy.calls import ProposedCall
from agent_fabric.domain.policy.command_lines.invocation import Invocation
from agent_fabric.domain.policy.command_tools import hosts_of, use_of
from agent_fabric.domain.policy.globs import any_name
from agent_fabric.domain.policy.hosts import host_of
from agent_fabric.domain.policy.parts import Part
from agent_fabric.domain.policy.programs import SHELL_BUILTINS
from agent_fabric.domain.policy.verdicts import Ruling, Verdict
from agent_fabric.domain.tools.allowlists import Allowlists

COMMANDS, PATHS, DOMAINS = "allowlist:commands", "allowlist:paths", "allowlist:domains"
_UNKNOWN = "is only known at run time, and the {kind} allowlist of {owner} limits it: a person has to agree."


def refuse_unlisted(call: ProposedCall, part: Part, limits: Sequence[Allowlists]) -> Iterator[Ruling]:
    """Yield a ruling for everything in a part of a call that is not on an allowlist."""
    invocation = part.invocation
    if not limits:
        return
    if part.problem:
        yield from _refuse(COMMANDS, part, (_refuse_unread(each, part) for each in limits if each.commands))
        return
    if invocation is None:
        yield from _refuse(PATHS, part, (refuse_path(limits, call.from_workspace(path)) for path in call.paths))
        yield from _refuse(DOMAINS, part, (refuse_domain(limits, host_of(url)) for url in call.urls))
        return
    yield from _refuse(COMMANDS, part, (_refuse_command(each, invocation) for each in limits if each.commands))
    if any(each.paths for each in limits):
        use = use_of(invocation)
        yield from _refuse(PATHS, part, (_refuse_operand(limits, call, part, path) for path in use.paths))
        if use.hidden:
            yield _ask(PATHS, part, "path", limits)
    if any(each.domains for each in limits):
        hosts, hidden = hosts_of(invocation)
        yield from _refuse(DOMAINS, part, (refuse_domain(limits, host) for host in hosts))
        if hidden:
            yield _ask(DOMAINS, part, "domain", limits)


def _refuse(rule: str, part: Part, reasons: Iterable[str]) -> Iterator[Ruling]:
    for reason in reasons:
        if reason:
            yield Ruling(Verdict.BLOCK, reason, rule, part.subject)


def _refuse_command(limit: Allowlists, invocation: Invocation) -> str:
    name = invocation.name
    if not name or invocation.dynamic or name in SHELL_BUILTINS or any_name(limit.commands, name):
        return ""  # a program that is only known at run time asks anyway
    listed = ", ".join(limit.commands[:10])
    return f"{name!r} is not on the command allowlist of {limit.owner}: {listed}. Use only what is on it."


def _refuse_unread(limit: Allowlists, part: Part) -> str:
    reason = f"The command is not understood ({part.problem}), so it is not on the command allowlist of {limit.owner}."
    return f"{reason} Write it plainly."


def _refuse_operand(limits: Sequence[Allowlists], call: ProposedCall, part: Part, path: str) -> str:
    reason = refuse_path(limits, call.from_workspace(path))
    if reason and part.moved:
        return f"{reason} Name paths from the top of the workspace, without `cd`."
    return reason


def _ask(rule: str, part: Part, kind: str, limits: Sequence[Allowlists]) -> Ruling:
    owner = next(each.owner for each in limits if (each.paths if kind == "path" else each.domains))
    reason = f"A {kind} in {part.subject!r} {_UNKNOWN.format(kind=kind, owner=owner)}"
    return Ruling(Verdict.ASK, reason, rule, part.subject)
