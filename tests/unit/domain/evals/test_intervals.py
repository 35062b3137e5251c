"""Shares with intervals: the known figures, and coverage by simulation with fixed seeds."""

import itertools
import random

import pytest

from agent_fabric.domain.evals.intervals import Tally, difference, effective_number, share_right, wilson

LEAST_COVERAGE = 0.90
"""Of a nominal 95 %: that of Wilson's own interval goes that low in places, because counts are whole numbers."""


def difficulty(chance: random.Random, mean: float, correlation: float) -> float:
    """Return how often one case is right: alike for all cases without correlation, right or wrong for ever with one."""
    spread = 1 / correlation - 1
    return chance.betavariate(mean * spread, (1 - mean) * spread)


def tried(chance: random.Random, share: float, repeats: int) -> Tally:
    return Tally(sum(chance.random() < share for _ in range(repeats)), repeats)


@pytest.mark.parametrize(
    ("right", "of", "low", "high"), [(8, 10, 0.490, 0.943), (0, 5, 0.0, 0.434), (5, 5, 0.566, 1.0), (1, 1, 0.207, 1.0)]
)
def test_one_try_of_each_case_is_wilsons_interval(right: int, of: int, low: float, high: float) -> None:
    cases = [Tally(1, 1)] * right + [Tally(0, 1)] * (of - right)
    found = share_right(cases)
    assert found == wilson(right / of, of)
    assert found is not None
    assert (found.low, found.high) == pytest.approx((low, high), abs=0.001)


def test_repeats_count_as_less_than_new_cases_and_never_as_more() -> None:
    alike = [Tally(5, 5)] * 8 + [Tally(0, 5)] * 2
    assert effective_number(alike) == pytest.approx(10)
    mixed = [Tally(2, 5), Tally(3, 5)] * 20
    assert 40 < effective_number(mixed) < 200
    assert effective_number([Tally(3, 3)] * 4) == 4
    assert effective_number([Tally(2, 3)]) == 1


def test_nothing_tried_has_no_share() -> None:
    assert share_right([]) is None
    assert share_right([Tally(0, 0)]) is None
    assert difference([(Tally(0, 0), Tally(1, 1))]) is None


def test_each_case_counts_alike_however_often_it_was_tried() -> None:
    found = share_right([Tally(9, 9), Tally(0, 1)])
    assert found is not None
    assert found.value == 0.5


@pytest.mark.parametrize("correlation", [0.05, 0.3, 0.7, 0.95])
def test_the_interval_covers_the_truth_for_few_cases_and_few_repeats(correlation: float) -> None:
    chance = random.Random(7)
    found: list[float] = []
    for cases, repeats, share in itertools.product((5, 10, 20), (1, 3, 5), (0.5, 0.8, 0.95)):
        rounds = 250
        hits = 0
        for _ in range(rounds):
            tallies = [tried(chance, difficulty(chance, share, correlation), repeats) for _ in range(cases)]
            interval = share_right(tallies)
            assert interval is not None
            hits += interval.low <= share <= interval.high
        found.append(hits / rounds)
    assert sum(found) / len(found) >= 0.94
    assert min(found) >= LEAST_COVERAGE - 0.03  # 250 rounds leave a percent or two to luck


@pytest.mark.parametrize(("gain", "correlation"), [(0.0, 0.1), (0.0, 0.7), (0.15, 0.1), (0.15, 0.7)])
def test_the_difference_covers_the_truth(gain: float, correlation: float) -> None:
    chance = random.Random(11)
    found: list[float] = []
    for cases, repeats, share in itertools.product((5, 10, 20), (1, 3), (0.5, 0.8)):
        rounds = 200
        hits = 0
        for _ in range(rounds):
            pairs = []
            for _ in range(cases):
                before = difficulty(chance, share, correlation)
                after = before + (1 - before) * gain / (1 - share)
                pairs.append((tried(chance, before, repeats), tried(chance, after, repeats)))
            interval = difference(pairs)
            assert interval is not None
            hits += interval.low <= gain <= interval.high
        found.append(hits / rounds)
    assert sum(found) / len(found) >= 0.94
    assert min(found) >= LEAST_COVERAGE - 0.03


def test_two_that_are_all_right_may_still_differ() -> None:
    found = difference([(Tally(1, 1), Tally(1, 1))] * 5)
    assert found is not None
    assert found.low < 0 < found.high
