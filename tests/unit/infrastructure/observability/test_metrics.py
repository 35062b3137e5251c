"""What is counted, and that nobody can make it endless."""

import pytest
from prometheus_client.parser import text_string_to_metric_families

from agent_fabric.domain.events import Event, ToolErred, UnknownEvent
from agent_fabric.domain.ids import CallId
from agent_fabric.infrastructure.observability.metrics import MAX_NAMES, Reading, RunMetrics
from unit.infrastructure.runs.log.every_kind import RUN, all_ends, rich_run

pytestmark = pytest.mark.proves("A33-110")


def counted(metrics: RunMetrics, *readings: Reading) -> dict[tuple[str, ...], float]:
    text = metrics.text(readings).decode()
    return {
        (sample.name, *(str(value) for _, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_every_kind_of_event_is_counted_or_passed_over() -> None:
    metrics = RunMetrics()
    runs = [rich_run(), *all_ends()]
    for events in runs:
        metrics.publish(RUN, events)
    metrics.publish(RUN, [Event(0, 0.0, None, "", UnknownEvent(kind="of_tomorrow", payload={}))])
    seen = counted(metrics)
    assert seen["fabric_runs_started_total",] == len(runs)
    for status in ("completed", "failed", "cancelled"):
        assert seen["fabric_runs_settled_total", status] >= 1


def test_a_refused_call_is_not_an_error_of_the_tool() -> None:
    metrics = RunMetrics()
    erred = ToolErred(tool="shell", error_type="PermissionError", error_message="no", call_id=CallId("c"))
    metrics.publish(RUN, [Event(0, 0.0, None, "", erred)])
    assert counted(metrics)["fabric_tool_calls_total", "refused", "shell"] == 1


def test_names_beyond_the_limit_share_one_line() -> None:
    metrics = RunMetrics()
    for number in range(10 * MAX_NAMES):
        erred = ToolErred(tool=f"t{number}", error_type="x" * 5_000, error_message="", call_id=CallId("c"))
        metrics.publish(RUN, [Event(0, 0.0, None, "", erred)])
    calls = {labels: value for labels, value in counted(metrics).items() if labels[0] == "fabric_tool_calls_total"}
    assert len(calls) == MAX_NAMES + 1
    assert calls["fabric_tool_calls_total", "other", "other"] == 9 * MAX_NAMES


def test_readings_are_gauges_of_this_moment() -> None:
    seen = counted(
        RunMetrics(), Reading("a", "A.", 1), Reading("b", "B.", 2, {"x": "1"}), Reading("b", "B.", 3, {"x": "2"})
    )
    assert (seen["a",], seen["b", "1"], seen["b", "2"]) == (1, 2, 3)
