"""Shares and their differences with 95 % intervals that are honest for few cases and few repeats.

The unit is the case: repeats of one case resemble each other, so they count as less than as many new cases.
"""

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

from agent_fabric.domain.dataclass import dataclass

_Z: Final = 1.959964
"""Quantile of the normal distribution for 95 %."""
_PRIOR_CASES: Final = 5.0
"""Cases worth of prior belief that repeats of a case all end alike: what few cases show about it is luck."""


class Tally(NamedTuple):
    """How often one case was right."""

    right: int
    of: int

    @property
    def share(self) -> float:
        """The share that was right."""
        return self.right / self.of


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure, and between what it lies with 95 % confidence."""

    value: float
    low: float
    high: float


def wilson(share: float, number: float) -> Estimate:
    """Return the interval of a share that was seen in so many independent units, by Wilson."""
    square = _Z * _Z
    centre = (share + square / (2 * number)) / (1 + square / number)
    half = _Z * math.sqrt(share * (1 - share) / number + square / (4 * number * number)) / (1 + square / number)
    low = 0.0 if share <= 0 else max(0.0, centre - half)
    high = 1.0 if share >= 1 else min(1.0, centre + half)
    return Estimate(share, low, high)


def share_right(cases: Sequence[Tally]) -> Estimate | None:
    """Return the share that is right on tasks like these: each case counts alike, however often it was tried.

    None: nothing was tried.
    """
    cases = [each for each in cases if each.of]
    if not cases:
        return None
    return wilson(_mean([each.share for each in cases]), effective_number(cases))


def effective_number(cases: Sequence[Tally]) -> float:
    """Return how many independent trials the trials of these cases are worth: at least the cases, at most the trials.

    The correlation of repeats is estimated from the cases themselves, drawn towards one as long as there are few.
    """
    number = len(cases)
    trials = sum(each.of for each in cases)
    repeats = trials / number
    if repeats <= 1 or number < 2:
        return float(number)
    mean = _mean([each.share for each in cases])
    between = repeats * sum((each.share - mean) ** 2 for each in cases) / (number - 1)
    within = sum(each.of * each.share * (1 - each.share) for each in cases) / max(trials - number, 1)
    spread = between + (repeats - 1) * within
    seen = max(0.0, (between - within) / spread) if spread > 0 else 1.0
    correlation = min(1.0, (seen * (number - 1) + _PRIOR_CASES) / (number - 1 + _PRIOR_CASES))
    return max(float(number), trials / (1 + (repeats - 1) * correlation))


def difference(pairs: Sequence[tuple[Tally, Tally]]) -> Estimate | None:
    """Return by how much the second share exceeds the first, over cases that both have (Newcombe's paired method).

    None: they have no case in common.
    """
    pairs = [pair for pair in pairs if pair[0].of and pair[1].of]
    if not pairs:
        return None
    first, second = share_right([old for old, _ in pairs]), share_right([new for _, new in pairs])
    assert first is not None
    assert second is not None
    alike = _likeness([old.share for old, _ in pairs], [new.share for _, new in pairs])
    value = second.value - first.value
    below = _joint(second.value - second.low, first.high - first.value, alike)
    above = _joint(second.high - second.value, first.value - first.low, alike)
    return Estimate(value, max(-1.0, value - below), min(1.0, value + above))


def _joint(one: float, other: float, alike: float) -> float:
    return math.sqrt(max(0.0, one * one - 2 * alike * one * other + other * other))


def _likeness(old: Sequence[float], new: Sequence[float]) -> float:
    """Return the correlation of two series of shares, lowered as Newcombe does: few cases agree by luck."""
    number = len(old)
    mean_old, mean_new = _mean(old), _mean(new)
    together = sum((one - mean_old) * (other - mean_new) for one, other in zip(old, new, strict=True)) / number
    spread = math.sqrt(mean_old * (1 - mean_old) * mean_new * (1 - mean_new))
    if spread <= 0:
        return 0.0
    if together > 0:
        together = max(0.0, together - 1 / (2 * number))
    return max(-1.0, min(1.0, together / spread))


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
