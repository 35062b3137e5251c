"""Why something may happen on a node, or may not: each rule with where it stands and whether it has an effect.

Three have a say: the node's own floor, the hub's policy for it, and the hub's rules for all machines. The strictest
wins, so a rule that allows has an effect only where the other two allow as well.
"""

from collections.abc import Iterator
from enum import StrEnum
from typing import Final

from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.fleet.node_policy import NodePolicy, proposed_call
from agent_fabric.domain.fleet.node_tools import NODE_TOOLS
from agent_fabric.domain.policy.calls import ProposedCall
from agent_fabric.domain.policy.engine import RulePolicy, strictest
from agent_fabric.domain.policy.globs import any_name
from agent_fabric.domain.policy.profiles import Profile
from agent_fabric.domain.policy.rules import Rule
from agent_fabric.domain.policy.verdicts import OUTSIDE_ROOTS, Ruling, Verdict

_ORDER: Final = (Verdict.BLOCK, Verdict.ASK, Verdict.ALLOW)
_COMMAND: Final = "run_command"


class PolicySource(StrEnum):
    """Where a rule stands."""

    FLOOR = "floor"
    """The node's own file. No hub can lower it."""
    HUB = "hub"
    """The hub's policy for this node."""
    ALL_NODES = "all_nodes"
    """The hub's rules for all machines."""


SOURCE_WORDS: Final = {
    PolicySource.FLOOR: "the node's own file",
    PolicySource.HUB: "the hub's policy for the node",
    PolicySource.ALL_NODES: "the hub's rules for all machines",
}


@dataclass(frozen=True, slots=True)
class ExplainedRule:
    """A rule that holds on a node."""

    id: str
    source: PolicySource
    verdict: Verdict
    about: tuple[str, ...]
    """Commands, tools and paths; empty: everything."""
    reason: str
    effective: bool
    """False: something stricter decides about the same."""
    note: str
    """Why it has no effect, or on what that depends."""


@dataclass(frozen=True, slots=True)
class SaidAboutCall:
    """What one of the three says about a part of a call."""

    source: PolicySource
    subject: str
    verdict: Verdict
    rule: str
    reason: str
    decides: bool


@dataclass(frozen=True, slots=True)
class ExplainPolicy:
    """What holds on one node, and why."""

    node: str
    in_force: NodePolicy
    general: RulePolicy
    """The hub's rules for all machines."""

    @property
    def otherwise(self) -> Profile:
        """What holds where no rule is about a call: the stricter profile."""
        both = (self.in_force.floor.profile, self.in_force.hub.profile)
        return Profile.OPEN if both == (Profile.OPEN, Profile.OPEN) else Profile.NODE

    @property
    def otherwise_by(self) -> tuple[PolicySource, ...]:
        """Who says so."""
        said = {PolicySource.FLOOR: self.in_force.floor.profile, PolicySource.HUB: self.in_force.hub.profile}
        return tuple(source for source, profile in said.items() if profile is self.otherwise)

    @property
    def rules(self) -> tuple[ExplainedRule, ...]:
        """All rules, the strictest first."""
        found = [self._explain(rule, source) for source, rule in self._rules()]
        if roots := self.in_force.floor.roots:
            reason = "commands that name what lies outside of these folders ask"
            found.append(ExplainedRule(OUTSIDE_ROOTS, PolicySource.FLOOR, Verdict.ASK, roots, reason, True, ""))
        return tuple(sorted(found, key=lambda each: _ORDER.index(each.verdict)))

    def said_about(self, call: ProposedCall, decided: Ruling) -> tuple[SaidAboutCall, ...]:
        """Return everything that was said about a call; `decided` is what came of it."""
        said = []
        for source, policy in self._policies():
            for judgement in policy.explain(call):
                for ruling in judgement.said:
                    if source is PolicySource.ALL_NODES and ruling.verdict is Verdict.ALLOW:
                        continue  # without a rule they say nothing
                    same = (ruling.verdict, ruling.rule) == (decided.verdict, decided.rule)
                    reason = ruling.reason
                    said.append(SaidAboutCall(source, ruling.subject, ruling.verdict, ruling.rule, reason, same))
        return tuple(sorted(said, key=lambda each: _ORDER.index(each.verdict)))

    def _policies(self) -> tuple[tuple[PolicySource, RulePolicy], ...]:
        return (
            (PolicySource.FLOOR, self.in_force.floor),
            (PolicySource.HUB, self.in_force.hub),
            (PolicySource.ALL_NODES, self.general),
        )

    def _rules(self) -> Iterator[tuple[PolicySource, Rule]]:
        for source, policy in self._policies():
            for rule in policy.rules:
                if not rule.nodes or any_name(rule.nodes, self.node):
                    yield source, rule

    def _explain(self, rule: Rule, source: PolicySource) -> ExplainedRule:
        effective, note = self._effect(rule)
        about = [
            *(pattern.text if pattern.expression is None else f"/{pattern.text}/" for pattern in rule.commands),
            *rule.tools,
            *rule.paths,
            *rule.domains,
        ]
        return ExplainedRule(rule.id, source, rule.verdict, tuple(about), rule.reason, effective, note)

    def _effect(self, rule: Rule) -> tuple[bool, str]:
        """Try what the rule is about, and see whether something stricter decides."""
        if rule.verdict is Verdict.BLOCK:
            return True, ""
        tried = [self._deciding_source(call) for call in _examples(rule, self.node)]
        if not tried:
            return True, "counts where nothing stricter is said" if rule.allows else ""
        order = _ORDER.index
        stricter = [(source, ruling) for source, ruling in tried if order(ruling.verdict) < order(rule.verdict)]
        if len(stricter) < len(tried):
            return True, ""
        source, ruling = stricter[0]
        said = "asks about it" if ruling.verdict is Verdict.ASK else "blocks it"
        return False, f"{SOURCE_WORDS[source]} {said} ({ruling.rule})"

    def _deciding_source(self, call: ProposedCall) -> tuple[PolicySource, Ruling]:
        said = [(source, policy.judge(call)) for source, policy in self._policies()]
        decided = strictest([ruling for _, ruling in said])
        return next((source, ruling) for source, ruling in said if ruling is decided)


def _examples(rule: Rule, node: str) -> Iterator[ProposedCall]:
    """Return calls that a rule is about, as far as that can be told from its text."""
    for pattern in rule.commands:
        if pattern.expression is None:
            yield proposed_call(NODE_TOOLS[_COMMAND], {"command": pattern.text.removesuffix(" *")}, node)
    if rule.commands or rule.paths:
        return
    for name in rule.tools:
        if name in NODE_TOOLS and not NODE_TOOLS[name].command_argument:
            yield proposed_call(NODE_TOOLS[name], {}, node)
