"""Events in, spans out, with the real SDK."""

import asyncio
import importlib
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from agent_fabric.config.schema.observability import TelemetryConfig
from agent_fabric.domain.events import (
    Body,
    Event,
    ModelFailed,
    RunCreated,
    RunFailed,
    RunInterrupted,
    RunResumed,
    ToolCalled,
    ToolErred,
)
from agent_fabric.domain.ids import CallId, LaneId, RunId
from agent_fabric.domain.runs.task import Parent
from agent_fabric.domain.workflows.events import ChildFinished, StepFinished, StepStarted, StepStatus
from agent_fabric.infrastructure.observability import run_spans
from agent_fabric.infrastructure.observability.observers import build_tracing
from agent_fabric.infrastructure.observability.run_spans import RunSpans
from unit.infrastructure.runs.log.every_kind import LANE, RUN, all_ends, answered, asked, returned, rich_run

pytestmark = pytest.mark.proves("AF-160")

CREATED = rich_run()[0].body
TOOL = ToolCalled(tool="read_file", args={"path": "secret.txt"}, call_id=CallId("call_1"))
COMPLETED = rich_run()[-1].body


class StoppedClock:
    """Clock that always says the same."""

    def now(self) -> float:
        return 2_000.0

    def monotonic(self) -> float:
        return 0.0

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(0)


class Traced:
    """A reader of events and the spans it has ended."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.sink = RunSpans(SimpleSpanProcessor(self.exporter), StoppedClock())
        self._seq = 0

    def publish(self, *bodies: Body, run_id: RunId = RUN, lane: LaneId | None = LANE) -> None:
        for body in bodies:
            self._seq += 1
            self.sink.publish(run_id, [Event(self._seq, 1_000.0 + self._seq, lane, "", body)])

    @property
    def spans(self) -> Sequence[ReadableSpan]:
        return self.exporter.get_finished_spans()

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.spans if span.name == name]


@pytest.fixture
def traced() -> Iterator[Traced]:
    traced = Traced()
    yield traced
    asyncio.run(traced.sink.aclose())


def about(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def times(span: ReadableSpan) -> tuple[float, float]:
    assert span.start_time is not None
    assert span.end_time is not None
    return span.start_time / 1e9, span.end_time / 1e9


def test_a_run_is_a_span_with_its_calls_inside(traced: Traced) -> None:
    traced.publish(CREATED, asked(0, 2), answered(content="hi"), TOOL, returned(1), COMPLETED)
    model, tool, root = traced.spans
    assert [span.name for span in (root, model, tool)] == [
        "fabric.execute_task",
        "fabric.llm_call",
        "fabric.tool_call",
    ]
    assert root.parent is None
    for child in (model, tool):
        assert child.parent is not None
        assert child.parent.span_id == root.get_span_context().span_id  # type: ignore[union-attr]
    assert (root.kind, model.kind, tool.kind) == (SpanKind.INTERNAL, SpanKind.CLIENT, SpanKind.INTERNAL)
    assert traced.sink.live == 0


def test_times_are_those_of_the_events(traced: Traced) -> None:
    traced.publish(CREATED, asked(0, 2), answered(content="hi"), TOOL, returned(1), COMPLETED)
    model, tool, root = traced.spans
    assert (times(root), times(model), times(tool)) == ((1001, 1006), (1002, 1003), (1004, 1005))


def test_attributes_follow_the_conventions(traced: Traced) -> None:
    traced.publish(*(event.body for event in rich_run()[:2]), lane=None)
    traced.publish(asked(0, 2, attempt=2), answered(content="hi"), TOOL, returned(1), COMPLETED)
    model, tool, root = map(about, traced.spans)
    assert root == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "engineering",
        "gen_ai.usage.input_tokens": 100,
        "gen_ai.usage.output_tokens": 20,
        "fabric.run_id": RUN,
        "fabric.model_key": "quality",
        "fabric.sandbox": "none",
        "fabric.specialist_ids": ("engineering",),
        "fabric.outcome": "completed",
    }
    assert model == {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "qwen2.5:14b",
        "gen_ai.response.model": "qwen2.5:14b-instruct",
        "gen_ai.response.finish_reasons": ("stop",),
        "gen_ai.usage.input_tokens": 100,
        "gen_ai.usage.output_tokens": 20,
        "fabric.usage_estimated": True,
        "fabric.run_id": RUN,
        "fabric.lane": "engineering",
        "fabric.attempt": 2,
        "fabric.step": 0,
    }
    assert tool == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "read_file",
        "gen_ai.tool.call.id": "call_1",
        "fabric.run_id": RUN,
        "fabric.lane": "engineering",
        "fabric.attempt": 1,
    }


def test_no_span_tells_what_was_said_or_done(traced: Traced) -> None:
    for events in all_ends():
        traced.sink.publish(RUN, events)
    assert traced.sink.live == 0
    shown = "".join(span.to_json() for span in traced.spans)
    for content in ("primes", "You are an engineer", "I look.", "shadow", "text 1", "So far", "/home/me"):
        assert content not in shown


def test_the_trace_is_found_by_the_run_s_id(traced: Traced) -> None:
    other = RunId("another-run")
    for run_id in (RUN, other):
        traced.publish(CREATED, COMPLETED, run_id=run_id)
    first, second = (f"{span.get_span_context().trace_id:032x}" for span in traced.spans)  # type: ignore[union-attr]
    assert first == RUN.replace("-", "")
    assert second != first


def test_what_a_run_does_after_it_was_resumed_is_the_same_trace(traced: Traced) -> None:
    traced.publish(CREATED, RunInterrupted(reason="stop"), RunResumed(by="person", driver="d"), COMPLETED)
    first, second = traced.spans
    assert (about(first)["fabric.outcome"], about(second)["fabric.outcome"]) == ("interrupted", "completed")
    assert about(second)["fabric.resumed_by"] == "person"
    assert first.get_span_context().trace_id == second.get_span_context().trace_id  # type: ignore[union-attr]
    assert times(second) == (1003, 1004)


def test_lanes_that_work_at_the_same_time_are_kept_apart(traced: Traced) -> None:
    one, two = LaneId("one"), LaneId("two")
    traced.publish(CREATED)
    for lane in (one, two):
        traced.publish(asked(0, 2), lane=lane)
    for lane in (one, two):
        traced.publish(answered(content="hi"), TOOL, lane=lane)  # the same call id in both lanes
    for lane in (one, two):
        traced.publish(returned(1), lane=lane)
    traced.publish(COMPLETED)
    assert [(about(span)["fabric.lane"], times(span)) for span in traced.named("fabric.llm_call")] == [
        ("one", (1002, 1004)),
        ("two", (1003, 1006)),
    ]
    assert [(about(span)["fabric.lane"], times(span)) for span in traced.named("fabric.tool_call")] == [
        ("one", (1005, 1008)),
        ("two", (1007, 1009)),
    ]
    assert about(traced.named("fabric.execute_task")[0])["gen_ai.usage.input_tokens"] == 200


@pytest.mark.parametrize(
    ("bodies", "name", "code"),
    [
        (
            [
                asked(0, 2),
                ModelFailed(
                    error_type="model_busy",
                    error_message="the key sk-1 is wrong",
                    hint="",
                    attempt=1,
                    retryable=True,
                    retry_after_s=None,
                    duration_s=0,
                ),
            ],
            "fabric.llm_call",
            "model_busy",
        ),
        (
            [
                TOOL,
                ToolErred(
                    tool="read_file", error_type="PermissionError", error_message="outside", call_id=CallId("call_1")
                ),
            ],
            "fabric.tool_call",
            "PermissionError",
        ),
        ([RunFailed(code="disk_full", message="no space", hint="")], "fabric.execute_task", "disk_full"),
    ],
)
def test_an_error_is_told_by_its_code(traced: Traced, bodies: list[Body], name: str, code: str) -> None:
    traced.publish(CREATED, *bodies)
    (span,) = traced.named(name)
    assert (span.status.status_code, span.status.description) == (StatusCode.ERROR, code)
    assert about(span)["error.type"] == code


def test_each_attempt_is_a_call_of_its_own_and_a_summary_is_one_too(traced: Traced) -> None:
    traced.sink.publish(RUN, rich_run())
    calls = [about(span) for span in traced.named("fabric.llm_call")]
    assert [(call["fabric.step"], call["fabric.attempt"]) for call in calls[:2]] == [(0, 1), (0, 2)]
    (summary,) = [call for call in calls if call.get("fabric.purpose") == "compaction"]
    assert summary["gen_ai.usage.input_tokens"] == 500


def test_a_call_in_doubt_after_a_crash_is_shown_as_failed(traced: Traced) -> None:
    traced.sink.publish(RUN, rich_run())
    (doubt,) = [span for span in traced.spans if about(span).get("error.type") == "InDoubt"]
    assert about(doubt)["gen_ai.tool.name"] == "shell"


def test_a_violation_is_marked_on_the_run(traced: Traced) -> None:
    traced.sink.publish(RUN, rich_run())
    root = traced.named("fabric.execute_task")[0]
    assert [event.name for event in root.events] == ["fabric.security_event"]


async def test_closing_ends_what_was_never_ended() -> None:
    traced = Traced()
    traced.publish(CREATED, asked(0, 2))
    await traced.sink.aclose()
    model, root = traced.spans
    assert (about(model)["fabric.outcome"], about(root)["fabric.outcome"]) == ("interrupted", "interrupted")
    assert times(root) == (1001, 2000)


def test_a_driver_that_vanished_leaves_no_open_span(traced: Traced) -> None:
    traced.publish(CREATED, asked(0, 2), RunResumed(by="server", driver="d"))
    assert [about(span)["fabric.outcome"] for span in traced.spans] == ["abandoned", "abandoned"]
    assert traced.sink.live == 1


def test_runs_whose_end_is_never_seen_are_let_go(traced: Traced, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_spans, "MAX_LIVE_RUNS", 3)
    runs = [RunId(f"run-{number}") for number in range(5)]
    for run_id in runs[:3]:
        traced.publish(CREATED, run_id=run_id)
    traced.publish(asked(0, 2), run_id=runs[0])  # was heard of again
    for run_id in runs[3:]:
        traced.publish(CREATED, run_id=run_id)
    assert [about(span)["fabric.run_id"] for span in traced.spans] == ["run-1", "run-2"]
    traced.publish(asked(0, 2), COMPLETED, run_id=runs[1])  # comes too late, and does no harm
    assert traced.sink.live == 4


def test_calls_whose_end_is_never_seen_are_let_go(traced: Traced) -> None:
    traced.publish(CREATED)
    for number in range(run_spans.MAX_LIVE_CALLS + 10):
        traced.publish(ToolCalled(tool="t", args={}, call_id=CallId(f"c{number}")))
    assert traced.sink.live == 1 + run_spans.MAX_LIVE_CALLS


def test_the_service_is_named_and_can_be_renamed(monkeypatch: pytest.MonkeyPatch) -> None:
    names = []
    for chosen in ("", "my-agents"):
        monkeypatch.setenv("OTEL_SERVICE_NAME", chosen)
        traced = Traced()
        traced.publish(CREATED, COMPLETED)
        names.append(traced.spans[0].resource.attributes["service.name"])
        asyncio.run(traced.sink.aclose())
    assert names == ["agent-fabric", "my-agents"]


@pytest.mark.parametrize("config", [None, TelemetryConfig(), TelemetryConfig(otlp_endpoint="http://127.0.0.1:1")])
def test_without_a_wish_for_traces_there_is_nothing(config: TelemetryConfig | None) -> None:
    assert build_tracing(config) is None


@pytest.mark.parametrize(
    ("missing", "config"),
    [
        ("opentelemetry.sdk.trace", TelemetryConfig(enabled=True, exporter="console")),
        (
            "opentelemetry.exporter.otlp.proto.http.trace_exporter",
            TelemetryConfig(enabled=True, otlp_endpoint="http://127.0.0.1:1"),
        ),
    ],
)
def test_without_the_extra_runs_go_on_and_it_is_said_once(
    missing: str, config: TelemetryConfig, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for name in [name for name in sys.modules if name.startswith("agent_fabric.infrastructure.observability.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, missing, None)
    fresh = importlib.import_module("agent_fabric.infrastructure.observability.observers")
    assert [fresh.build_tracing(config), fresh.build_tracing(config)] == [None, None]
    assert [record.getMessage() for record in caplog.records] == [
        "Tracing needs an optional part that is not installed; runs continue without traces. "
        'Install it with: pip install "agent-fabric[telemetry]"'
    ]


STEP = LaneId("greet")
CHILD = RunId("00000000-0000-4000-8000-0000000000c1")
GRANDCHILD = RunId("00000000-0000-4000-8000-0000000000c2")
BEGUN = StepStarted(step_id="greet", action="invoke-agent", attempt=1, inputs={}, child_run_id=CHILD)
DONE = ChildFinished(step_id="greet", child_run_id=CHILD, run_status="completed")
ENDED = StepFinished(step_id="greet", attempt=1, status=StepStatus.SUCCESS)


def below(parent: RunId) -> RunCreated:
    assert isinstance(CREATED, RunCreated)
    return replace(CREATED, parent=Parent(run_id=parent, lane=STEP, root=RUN))


def place(span: ReadableSpan) -> tuple[int, int | None]:
    """Return the trace of a span and the span above it."""
    assert span.context is not None
    return span.context.trace_id, None if span.parent is None else span.parent.span_id


def span_id(span: ReadableSpan) -> int:
    assert span.context is not None
    return int(span.context.span_id)


@pytest.mark.proves("A33-110", "A33-147")
def test_a_step_is_a_span_with_its_calls_inside(traced: Traced) -> None:
    run = replace(BEGUN, action="run-command", child_run_id=None)
    traced.publish(CREATED, lane=None)
    traced.publish(run, TOOL, returned(1), ENDED, lane=STEP)
    again = replace(run, attempt=2)
    failed = replace(ENDED, attempt=2, status=StepStatus.FAILED, error_type="TimeoutError")
    traced.publish(again, failed, lane=LaneId("greet[0].inner"))
    traced.publish(COMPLETED, lane=None)
    tool, step, inner, root = traced.spans
    assert (step.name, place(step)) == ("fabric.workflow_step", (place(root)[0], span_id(root)))
    assert place(tool)[1] == span_id(step)
    assert about(step) == {
        "fabric.run_id": RUN,
        "fabric.lane": "greet",
        "fabric.step_id": "greet",
        "fabric.action": "run-command",
        "fabric.attempt": 1,
        "fabric.outcome": "success",
    }
    assert (inner.status.status_code, about(inner)["error.type"]) == (StatusCode.ERROR, "TimeoutError")


@pytest.mark.proves("A33-110", "A33-147")
def test_the_run_that_does_a_step_is_in_the_trace_of_the_workflow_below_the_step() -> None:
    one, other = Traced(), Traced()  # as in two processes
    one.publish(CREATED, lane=None)
    one.publish(BEGUN, lane=STEP)
    other.publish(below(RUN), asked(0, 2), answered(content="hi"), run_id=CHILD)
    other.publish(below(CHILD), COMPLETED, run_id=GRANDCHILD)
    other.publish(COMPLETED, run_id=CHILD)
    one.publish(DONE, ENDED, lane=STEP)
    one.publish(COMPLETED, lane=None)
    step, root = one.spans
    call, deepest, child = other.spans
    assert place(child) == (place(root)[0], span_id(step))
    assert place(call) == (place(root)[0], span_id(child))
    assert place(deepest)[0] == place(root)[0]


@pytest.mark.proves("A33-147")
def test_the_span_of_a_step_is_made_once_by_the_driver_that_sees_its_end() -> None:
    first, second = Traced(), Traced()
    first.publish(CREATED, lane=None)
    first.publish(BEGUN, lane=STEP)
    first.publish(RunInterrupted(reason="stop"), lane=None)
    assert [span.name for span in first.spans] == ["fabric.execute_task"]
    second.publish(RunResumed(by="server", driver="d"), lane=None)
    second.publish(RunResumed(by="server", driver="d", root=RUN), COMPLETED, run_id=CHILD, lane=None)
    second.publish(DONE, ENDED, lane=STEP)
    second.publish(COMPLETED, lane=None)
    child, step, root = second.spans
    assert place(child) == (place(root)[0], span_id(step))
    assert place(step) == (place(first.spans[0])[0], span_id(root))
