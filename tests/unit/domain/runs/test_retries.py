"""When a failed model call is tried again: pure, bounded, and spread so that runs do not come back in step."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_fabric.domain.runs.decide import MAX_RETRY_AFTER_S, delay_before_retry

CODES = ["model_unreachable", "model_busy", "model_timed_out", "model_answer_unusable", "context_exceeded", "other"]


@given(code=st.sampled_from(CODES), failures=st.integers(1, 9), spread=st.text())
def test_same_call_always_waits_equally_long_and_never_more_than_eight_seconds(
    code: str, failures: int, spread: str
) -> None:
    delay = delay_before_retry(code, failures, None, spread=spread)
    assert delay == delay_before_retry(code, failures, None, spread=spread)
    assert delay is None or 0 <= delay <= 8


@given(seconds=st.floats(0, MAX_RETRY_AFTER_S), spread=st.text())
def test_server_gets_at_least_the_time_that_it_asks_for(seconds: float, spread: str) -> None:
    delay = delay_before_retry("model_busy", 1, seconds, spread=spread)
    assert delay is not None
    assert seconds <= delay <= seconds * 1.2 + 0.001


@pytest.mark.parametrize("retry_after_s", [None, 5.0])
def test_runs_that_failed_together_come_back_one_by_one(retry_after_s: float | None) -> None:
    delays = [delay_before_retry("model_busy", 3, retry_after_s, spread=f"run-{number}/a/0") for number in range(1_000)]
    found = sorted(delay for delay in delays if delay is not None)
    assert len(found) == 1_000
    tenth = (found[-1] - found[0]) / 10
    busiest = max(sum(start <= delay < start + tenth for delay in found) for start in found)
    assert busiest < 200, "of a thousand, no more than twice the fair share within any tenth of the time"


def test_lanes_steps_and_attempts_wait_differently() -> None:
    spreads = ["run/a/0", "run/b/0", "run/a/1"]
    assert len({delay_before_retry("model_busy", 2, None, spread=spread) for spread in spreads}) == 3


def test_server_that_asks_for_too_much_patience_is_given_up() -> None:
    assert delay_before_retry("model_busy", 1, MAX_RETRY_AFTER_S + 0.1, spread="") is None


@pytest.mark.parametrize("code", ["model_refused", "offline", "config_invalid", "context_exceeded"])
def test_what_would_fail_again_is_not_tried_again(code: str) -> None:
    assert delay_before_retry(code, 1, None, spread="") is None
    assert delay_before_retry(code, 1, 1.0, spread="") is None
