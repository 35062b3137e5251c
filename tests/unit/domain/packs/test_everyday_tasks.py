"""Who gets everyday tasks: the labelled one-liners of `benchmarks/routing`.

What the figures are worth is said in `benchmarks/routing/README.md`: the held-out half was never tuned on, but has the
same author as the table.
"""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from statistics import median
from types import FrameType

import pytest

from agent_fabric.domain.packs.recruitment import RoutingMethod
from bench_routing import Routed, built_in, one_liners, route

ASKED_OF_IT = 0.95
UNMET_WORDINGS = 0.80
"""Of round 4, after which nothing was tuned but on its other half."""

MEDIAN_CALLS, MOST_CALLS = 3_800, 6_700
"""For one task. They were 3,440 and 6,051 when this was written."""


@pytest.fixture(scope="module")
def held_out() -> Sequence[Routed]:
    specialists = built_in()
    return [route(line, specialists) for line in one_liners() if line.held_out]


@contextmanager
def counted_calls() -> Iterator[list[int]]:
    """Count calls of our own functions and of built-in ones: seconds depend on the machine, calls do not."""
    calls = [0]

    def note(_: FrameType, event: str, __: object) -> None:
        calls[0] += event in {"call", "c_call"}

    sys.setprofile(note)
    try:
        yield calls
    finally:
        sys.setprofile(None)


def share_right(routed: Sequence[Routed]) -> float:
    right = [bool(each.right) for each in routed]
    return sum(right) / len(right)


@pytest.mark.proves("DB-3", "AF-041")
def test_the_held_out_half_of_the_first_lines_is_right_without_a_model(held_out: Sequence[Routed]) -> None:
    first = [each for each in held_out if each.line.round == "1"]
    assert len(first) > 150
    assert share_right(first) >= ASKED_OF_IT
    assert all(each.choice is not None for each in first), "no model is asked"


@pytest.mark.proves("DB-3")
def test_wordings_that_the_table_has_not_met_are_mostly_right(held_out: Sequence[Routed]) -> None:
    assert share_right([each for each in held_out if each.line.round == "4"]) >= UNMET_WORDINGS


@pytest.mark.proves("DB-3")
def test_the_choice_takes_few_calls() -> None:
    """Two milliseconds at most are wanted; `benchmarks/bench_routing.py` measures them."""
    specialists, lines, counts = built_in(), one_liners()[::7], []
    route(lines[0], specialists)  # makes the tables
    for line in lines:
        with counted_calls() as calls:
            route(line, specialists)
        counts.append(calls[0])
    assert median(counts) <= MEDIAN_CALLS
    assert max(counts) <= MOST_CALLS


@pytest.mark.proves("DB-3")
def test_every_choice_says_why_in_one_clause(held_out: Sequence[Routed]) -> None:
    for each in held_out:
        if each.choice is not None:
            why = each.choice.reasons[0]
            assert why
            assert ". " not in why
            if each.choice.method is RoutingMethod.FALLBACK:
                assert why == "nothing in the task asks for a specialist"
            if "asks for a specialist" in why:
                assert each.choice.specialist_ids == ("assistant",)
