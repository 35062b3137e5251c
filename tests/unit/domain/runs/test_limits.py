"""The most that somebody may ask of one run."""

import pytest

from agent_fabric.domain.errors import InvalidInputs
from agent_fabric.domain.runs.task import Budget, RunCaps

pytestmark = pytest.mark.proves("A33-123")


def test_whoever_asks_for_more_steps_than_they_may_is_told_how_many_they_may() -> None:
    caps = RunCaps(max_steps=20)
    caps.require(max_steps=20)
    caps.require(max_steps=None)
    with pytest.raises(InvalidInputs, match="at most 20 steps") as refused:
        caps.require(max_steps=21)
    assert "20" in refused.value.hint


def test_what_nobody_asked_for_is_lowered_to_what_is_allowed() -> None:
    caps = RunCaps(max_steps=20, max_tokens=1_000, max_seconds=60)
    assert caps.lower(Budget(max_steps=40)) == Budget(max_steps=20, max_tokens=1_000, max_seconds=60)
    tighter = Budget(max_steps=5, max_tokens=10, max_seconds=1)
    assert caps.lower(tighter) == tighter


def test_without_limits_a_budget_stays_as_it_is() -> None:
    budget = Budget(max_steps=40, max_tokens=7)
    assert RunCaps().lower(budget) == budget
