"""Whether one series of results is better than another, case by case, or whether that could be noise."""

import math
from collections.abc import Mapping, Sequence
from enum import StrEnum
from fractions import Fraction
from typing import Final, NamedTuple

from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.evals.intervals import Estimate, Tally, difference

SIGNIFICANT: Final = 0.05
_MAX_EXACT: Final = 4_000_000
"""Additions of the exact test; beyond, there are so many changes that their sum is distributed normally."""


class Conclusion(StrEnum):
    """What a comparison says, in a word."""

    BETTER = "better"
    WORSE = "worse"
    NOISE = "could be noise"
    SAME = "no difference"
    NOTHING = "nothing to compare"


class CaseChange(NamedTuple):
    """A case that was right more or less often than before."""

    case_id: str
    before: Tally
    after: Tally

    @property
    def up(self) -> bool:
        """Whether it was right more often."""
        return self.after.share > self.before.share


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """How a second series differs from a first one."""

    before: str
    after: str
    cases: int
    """Cases that both have tried."""
    changes: tuple[CaseChange, ...]
    difference: Estimate | None
    """Of the shares that are right; above 0 the second is better."""
    p_value: float
    """How often chance alone makes a difference as large."""
    altered: tuple[str, ...] = ()
    """Cases that are not the same in both, though they have the same id: left out."""
    unmatched: tuple[str, ...] = ()
    """Cases that only one has tried: left out."""

    @property
    def ups(self) -> int:
        """Cases that were right more often."""
        return sum(each.up for each in self.changes)

    @property
    def downs(self) -> int:
        """Cases that were right less often."""
        return len(self.changes) - self.ups

    @property
    def conclusion(self) -> Conclusion:
        """What to make of it. It is called better or worse only if the test and the interval agree."""
        if self.difference is None:
            return Conclusion.NOTHING
        if not self.changes:
            return Conclusion.SAME
        if self.p_value <= SIGNIFICANT and self.difference.low > 0:
            return Conclusion.BETTER
        if self.p_value <= SIGNIFICANT and self.difference.high < 0:
            return Conclusion.WORSE
        return Conclusion.NOISE


def compare(
    before: Mapping[str, Tally],
    after: Mapping[str, Tally],
    *,
    names: tuple[str, str],
    altered: frozenset[str] = frozenset(),
) -> Comparison:
    """Compare two series by case; those of `altered` are left out."""
    tried = [{case: tally for case, tally in each.items() if tally.of} for each in (before, after)]
    old, new = tried
    both = [case for case in new if case in old and case not in altered]
    pairs = [(old[case], new[case]) for case in both]
    return Comparison(
        before=names[0],
        after=names[1],
        cases=len(both),
        changes=tuple(CaseChange(case, old[case], new[case]) for case in both if old[case].share != new[case].share),
        difference=difference(pairs),
        p_value=sign_flip_p_value(pairs),
        altered=tuple(case for case in new if case in old and case in altered),
        unmatched=tuple(case for case in {**old, **new} if (case in old) != (case in new)),
    )


def sign_flip_p_value(pairs: Sequence[tuple[Tally, Tally]]) -> float:
    """Return how often chance alone makes a difference as large.

    If nothing has changed, each case's difference could as well have had the other sign. Exact; with one try of each
    case it is McNemar's exact test. With very many changes it is approximated.
    """
    changes = [Fraction(new.right, new.of) - Fraction(old.right, old.of) for old, new in pairs if old.of and new.of]
    changes = [each for each in changes if each]
    if not changes:
        return 1.0
    unit = math.lcm(*(each.denominator for each in changes))
    steps = [abs(int(each * unit)) for each in changes]
    seen = abs(sum(int(each * unit) for each in changes))
    if sum(steps) * len(steps) > _MAX_EXACT:
        return _normal_p_value(changes)
    ways = {0: 1}
    for step in steps:
        more: dict[int, int] = {}
        for total, count in ways.items():
            for moved in (total + step, total - step):
                more[moved] = more.get(moved, 0) + count
        ways = more
    extreme = sum(count for total, count in ways.items() if abs(total) >= seen)
    return float(Fraction(extreme, 2 ** len(steps)))


def _normal_p_value(changes: Sequence[Fraction]) -> float:
    """Return the same for many changes, whose sum is distributed normally."""
    spread = math.sqrt(sum(float(each) ** 2 for each in changes))
    return math.erfc(abs(float(sum(changes))) / spread / math.sqrt(2))
