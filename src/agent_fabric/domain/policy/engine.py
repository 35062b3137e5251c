"""The policy: decides about calls by rules, a profile, capabilities and scopes; the strictest of what fits wins.

This is comfort and audit: it keeps mistakes from happening and says why. What a command can reach is limited by the
sandbox, not here.

What reads command lines, and the tables about programs, is imported with the first call that is judged: a run is
recorded, and its model asked, long before.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING

from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.policy.access import lacks_capability, lacks_scope
from agent_fabric.domain.policy.calls import ProposedCall
from agent_fabric.domain.policy.globs import plain_path
from agent_fabric.domain.policy.labels import USUAL_LIMITS, OutgoingLimits
from agent_fabric.domain.policy.profiles import Profile
from agent_fabric.domain.policy.programs import DEFAULT_ALLOWED_COMMANDS
from agent_fabric.domain.policy.rules import Fit, Rule
from agent_fabric.domain.policy.verdicts import EXACTLY, Ruling, Verdict
from agent_fabric.domain.tools.allowlists import NO_ALLOWLISTS, Allowlists

if TYPE_CHECKING:
    from agent_fabric.domain.policy.parts import Part

MAX_SUBJECT_CHARS = 500
"""Of a command, in the reason why it asks; the call itself is shown whole."""
_STRICTNESS = {Verdict.ALLOW: 0, Verdict.ASK: 1, Verdict.BLOCK: 2}


@dataclass(frozen=True, slots=True)
class Judgement:
    """What was said about one part of a call."""

    decided: Ruling
    said: tuple[Ruling, ...]
    """Everything that had a say, the decided one among it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RulePolicy:
    """A `Policy` made of rules."""

    version: str = "builtin-2"
    """Recorded with every decision, so that it can be told which rules held."""
    profile: Profile = Profile.WORKSPACE
    rules: tuple[Rule, ...] = ()
    allowed_commands: frozenset[str] = DEFAULT_ALLOWED_COMMANDS
    """Programs that need no rule in a box."""
    capabilities: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """By agent; one that is not named here is not limited by any."""
    floor: Allowlists = NO_ALLOWLISTS
    """Allowlists for every call."""
    agent_allowlists: Mapping[str, Allowlists] = field(default_factory=dict)
    """By agent; they narrow the floor, and never widen it."""

    roots: tuple[str, ...] = ()
    """Folders that commands may use unasked, as far as their words tell; empty: all."""
    outgoing: OutgoingLimits = USUAL_LIMITS
    """What a run that is exposed and private may still send unasked."""

    @property
    def named(self) -> Allowlists:
        """Programs that need no rule, and the paths and hosts of rules that allow. They are no limit."""
        allowing = [rule for rule in self.rules if rule.allows]
        return Allowlists(
            commands=tuple(sorted(self.allowed_commands)),
            paths=tuple(path for rule in allowing for path in rule.paths),
            domains=tuple(domain for rule in allowing for domain in rule.domains),
        )

    def limits_of(self, agent: str, own: Iterable[Allowlists] = ()) -> tuple[Allowlists, ...]:
        """Return every allowlist that holds for an agent: a call must be on all of them."""
        return tuple(filter(None, (self.floor, self.agent_allowlists.get(agent), *own)))

    def judge(self, call: ProposedCall) -> Ruling:
        """Decide about one call; never raises."""
        return strictest_part([judgement.decided for judgement in self.explain(call)])

    def explain(self, call: ProposedCall) -> tuple[Judgement, ...]:
        """Tell for each part of a call what was said about it; never raises."""
        from agent_fabric.domain.policy.parts import parts_of  # noqa: PLC0415 - see above

        profile = self.profile.for_call(call)
        limits = tuple(_limits(call, self.capabilities))
        return tuple(self._part(profile, call, part, limits) for part in parts_of(call))

    def judge_sending(self, call: ProposedCall) -> Ruling | None:
        """Decide whether a call may carry out what it carries, whatever it does there; None: nothing is against it."""
        from agent_fabric.domain.policy.outgoing import rule_outgoing  # noqa: PLC0415 - see above
        from agent_fabric.domain.policy.parts import Part, covered_calls  # noqa: PLC0415 - see above

        subject = call.command[:MAX_SUBJECT_CHARS] or call.tool
        part = Part(subject=subject, alike=covered_calls(call.tool, (), (call.destination,)))
        said = list(rule_outgoing(call, part, self.outgoing, self._trusted_domains()))
        return strictest(said) if said else None

    def _part(self, profile: Profile, call: ProposedCall, part: "Part", limits: tuple[Ruling, ...]) -> Judgement:
        from agent_fabric.domain.policy import defaults  # noqa: PLC0415 - see above

        lists = self.limits_of(call.agent, call.limits)
        said = [
            *limits,
            *defaults.refuse_unlisted(call, part, lists),
            *(defaults.refuse_changes(call, part) if call.plans else ()),
            *defaults.floors(profile, call, part, self.outgoing, self._trusted_domains()),
            *defaults.outside_roots(call, part, self.roots),
        ]
        ruled = [ruling for rule in self.rules for ruling in _by_rule(rule, profile, call, part)]
        if not ruled and not part.problem:
            ruled = [defaults.default(profile, call, part, self.allowed_commands)]
        said += [*ruled, *defaults.unboxed_rulings(call, part)]
        return Judgement(strictest(said), tuple(said))

    def _trusted_domains(self) -> tuple[str, ...]:
        return tuple(domain for rule in self.rules if rule.allows for domain in rule.domains)


def _limits(call: ProposedCall, capabilities: Mapping[str, frozenset[str]]) -> Iterator[Ruling]:
    if reason := lacks_capability(call, capabilities):
        yield Ruling(Verdict.BLOCK, reason, "capability", call.tool)
    if reason := lacks_scope(call):
        yield Ruling(Verdict.BLOCK, reason, "scope", call.tool)


def _by_rule(rule: Rule, profile: Profile, call: ProposedCall, part: "Part") -> Iterator[Ruling]:
    if part.problem:
        yield from _by_rule_unread(rule, call, part)
        return
    if rule.allows and rule.commands and part.changed:
        # With another PATH, or as a function, the program of the rule may be something else.
        return
    if rule.allows and rule.commands and not rule.paths and any(_lies_outside(call, path) for path in part.written):
        # A rule that lets a program run does not let it write a file of the system.
        return
    fit = rule.fit(call, part.invocation, moved=part.moved)
    if fit is Fit.NO or (fit is Fit.MAYBE and rule.allows):
        return
    if rule.allows and profile is Profile.NODE and part.writes and not rule.paths:
        # A rule that lets `cat` run does not let it write into any file.
        return
    if rule.allows and _leaves_unnamed(rule, part):
        # Who allows `make`, or everything, did not think of `make deploy`.
        return
    if fit is Fit.MAYBE:
        reason = f"{part.subject!r} may be what the rule {rule.id!r} is about; that is only known at run time."
        yield Ruling(Verdict.ASK, reason, rule.id, part.subject)
        return
    reason = rule.reason or f"The rule {rule.id!r} says {rule.verdict.value}."
    yield Ruling(rule.verdict, reason, rule.id, part.subject, part.alike)


def _leaves_unnamed(rule: Rule, part: "Part") -> bool:
    """Tell whether a command pushes or deploys, and the rule does not name the words that say so."""
    if part.invocation is None:
        return False
    from agent_fabric.domain.policy.outward import find_outward_effect  # noqa: PLC0415 - see above

    outward = find_outward_effect(part.invocation)
    return outward is not None and not rule.names(part.invocation, outward.told_by)


def _by_rule_unread(rule: Rule, call: ProposedCall, part: "Part") -> Iterator[Ruling]:
    """Yield what a rule says about a command line that is not understood."""
    if rule.fit_unread(call) is Fit.YES:
        reason = rule.reason or f"The rule {rule.id!r} says {rule.verdict.value}."
        yield Ruling(rule.verdict, f"{reason} (The command is not understood: {part.problem}.)", rule.id, part.subject)


def _lies_outside(call: ProposedCall, path: str) -> bool:
    path = plain_path(call.from_workspace(path))
    return path.startswith(("/", "~", "..")) and not path.startswith("/tmp/")  # noqa: S108 - shared by all users


def strictest(rulings: Sequence[Ruling]) -> Ruling:
    """Return the strictest ruling; of equals the first."""
    return max(rulings, key=lambda ruling: _STRICTNESS[ruling.verdict])


def strictest_part(rulings: Sequence[Ruling]) -> Ruling:
    """Return the ruling on a whole call; what a person agrees to for a run covers every part that asks."""
    decided = strictest(rulings)
    if decided.verdict is not Verdict.ASK:
        return decided
    asked = {ruling.alike for ruling in rulings if ruling.verdict is Verdict.ASK}
    # Who agrees to the very same line agrees to all of it.
    exact = {alike for alike in asked if alike.startswith(EXACTLY)}
    alike = " and ".join(sorted(exact or asked)) if all(asked) else ""
    return Ruling(decided.verdict, decided.reason, decided.rule, decided.subject, alike)
