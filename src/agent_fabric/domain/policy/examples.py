"""Examples of what a rule is about."""

from dataclasses import replace
from typing import NamedTuple

from agent_fabric.domain.policy.calls import ProposedCall
from agent_fabric.domain.policy.parts import parts_of
from agent_fabric.domain.policy.rules import Fit, Rule
from agent_fabric.domain.tools.specs import Effect


class Misfit(NamedTuple):
    """An example that comes out otherwise than its rule says."""

    example: str
    fits: bool


def misfits(rule: Rule) -> Misfit | None:
    """Return the first example that comes out otherwise than the rule says, if there is one."""
    for example in rule.matches:
        if not _fits(rule, example):
            return Misfit(example, fits=False)
    for example in rule.matches_not:
        if _fits(rule, example):
            return Misfit(example, fits=True)
    return None


def _fits(rule: Rule, example: str) -> bool:
    """Tell whether an example is what a rule is about; agents, nodes, effects and scopes do not count."""
    anywhere = replace(rule, agents=(), nodes=(), effects=frozenset(), scopes=(), unless_scopes=())
    if rule.commands:
        call = ProposedCall(tool="", args={}, effect=Effect.CHANGES_WORKSPACE, command=example)
        fits = [replace(anywhere, tools=()).fit(call, part.invocation) for part in parts_of(call)]
        return bool(fits) and (all(f is Fit.YES for f in fits) if rule.allows else Fit.YES in fits)
    if rule.domains:
        call = ProposedCall(tool="", args={}, effect=Effect.READS, urls=(_address(example),))
        return replace(anywhere, tools=(), paths=()).fit(call) is Fit.YES
    if rule.paths:
        call = ProposedCall(tool="", args={}, effect=Effect.READS, paths=(example,))
        return replace(anywhere, tools=()).fit(call) is Fit.YES
    return anywhere.fit(ProposedCall(tool=example, args={}, effect=Effect.READS)) is Fit.YES


def _address(example: str) -> str:
    return example if "://" in example else f"https://{example}/"
