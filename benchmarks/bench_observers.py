"""What it costs to be watched: CPU microseconds for each event of a run, in every kind of reader.

    python benchmarks/bench_observers.py [--runs 300] [--rounds 7]

A run has 10 turns, published in pairs as the engine does. The floor is a reader that does nothing. The log is written
to a file as JSON; spans are made, and then also encoded as for a collector, and thrown away. CPU of the threads that
write and encode is included.
"""

import argparse
import asyncio
import os
import platform
import statistics
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path

from agent_fabric.application.ports.events import EventSink
from agent_fabric.config.schema.observability import LogConfig
from agent_fabric.domain.events import (
    Body,
    Event,
    ModelAnswered,
    ModelCalled,
    RunCompleted,
    RunCreated,
    SpecialistsRecruited,
    ToolCalled,
    ToolReturned,
)
from agent_fabric.domain.ids import CallId, LaneId, RunId, SpecialistId
from agent_fabric.domain.models.messages import Usage
from agent_fabric.domain.runs.task import Budget, Profile
from agent_fabric.infrastructure.clock import SystemClock
from agent_fabric.infrastructure.observability.lifecycle_log import RunLifecycleLog
from agent_fabric.infrastructure.observability.observers import FanOut
from agent_fabric.infrastructure.observability.operations_log import (
    close_operations_log,
    configure_operations_log,
    operations_log,
)

TURNS = 10
ENGINEERING = SpecialistId("engineering")
LANE = LaneId("engineering")


class Nothing:
    """EventSink that does nothing."""

    wants_deltas = False

    def publish(self, run_id: RunId, events: Sequence[Event]) -> None:  # noqa: ARG002 - every sink's
        for _ in events:
            pass

    def delta(self, run_id: RunId, lane: LaneId, text: str) -> None:
        pass

    def notice(self, run_id: RunId, text: str) -> None:
        pass


def batches() -> list[list[Event]]:
    """Return the events of a run as they are published."""
    created = RunCreated(
        prompt="x" * 200,
        specialist_id=None,
        model_key="quality",
        network_allowed=True,
        profile=Profile.TASK,
        budget=Budget(max_steps=40, max_tokens=None, max_seconds=None),
        workspace="/tmp/w",
        sandbox="C",
        policy_version="1",
        fabric_version="1",
    )
    recruited = SpecialistsRecruited(
        specialist_id=ENGINEERING,
        specialist_ids=(ENGINEERING,),
        required_capabilities=(),
        routing_method="default",
        is_task_force=False,
    )
    answered = ModelAnswered(
        content="x" * 500, tool_calls=(), usage=Usage(900, 80), model="m", finish_reason="stop", duration_s=1.0
    )
    groups: list[list[Body]] = [[created], [recruited]]
    last: Body | None = None
    for turn in range(TURNS):
        call = CallId(f"call_{turn}")
        asked = ModelCalled(step=turn, message_count=2 * turn, attempt=1, model="m")
        groups.append([asked] if last is None else [last, asked])
        groups.append([answered, ToolCalled(tool="read_file", args={"path": "a"}, call_id=call)])
        last = ToolReturned(tool="read_file", result={"content": "x" * 500}, call_id=call)
    assert last is not None
    done = RunCompleted(run_id=RunId(""), specialist_ids=(ENGINEERING,), task_force_mode="sequential", payload={})
    groups.append([last, done])
    now = time.time()
    return [[Event(0, now, LANE, "", body) for body in group] for group in groups]


def cost_us(sink: EventSink, runs: int, finish: Callable[[], None]) -> float:
    """Return CPU microseconds per event."""
    ids = [RunId(str(uuid.uuid4())) for _ in range(runs)]
    groups = batches()
    started = time.process_time()
    for run_id in ids:
        for group in groups:
            sink.publish(run_id, group)
    finish()
    return 1e6 * (time.process_time() - started) / (runs * sum(map(len, groups)))


def logging_sink(folder: Path) -> tuple[EventSink, Callable[[], None]]:
    configure_operations_log(LogConfig(file=folder / "fabric.log"), ["a-known-secret-value"], sys.stderr)
    return RunLifecycleLog(operations_log("runs")), close_operations_log


def making_sink(_: Path) -> tuple[EventSink, Callable[[], None]]:
    from opentelemetry.sdk.trace import SpanProcessor

    from agent_fabric.infrastructure.observability.run_spans import RunSpans

    return RunSpans(SpanProcessor(), SystemClock()), lambda: None


def tracing_sink(_: Path) -> tuple[EventSink, Callable[[], None]]:
    from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

    from agent_fabric.infrastructure.observability.run_spans import RunSpans

    class Encoded(SpanExporter):
        def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
            encode_spans(spans).SerializeToString()
            return SpanExportResult.SUCCESS

    spans = RunSpans(BatchSpanProcessor(Encoded(), max_queue_size=1_000_000), SystemClock())
    return spans, lambda: asyncio.run(spans.aclose())


def both(folder: Path) -> tuple[EventSink, Callable[[], None]]:
    log, close_log = logging_sink(folder)
    spans, close_spans = tracing_sink(folder)

    def close() -> None:
        close_log()
        close_spans()

    return FanOut([log, spans]), close


def metrics_sink(_: Path) -> tuple[EventSink, Callable[[], None]]:
    from agent_fabric.infrastructure.observability.metrics import RunMetrics

    return RunMetrics(), lambda: None


def alerts_sink(_: Path) -> tuple[EventSink, Callable[[], None]]:
    from agent_fabric.bootstrap.server import Watchers
    from agent_fabric.config.loader import read_config
    from agent_fabric.infrastructure.cluster.bus.in_process import InProcessBus

    return Watchers(read_config({}).config, InProcessBus()).alerts, lambda: None


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    rows: dict[str, Callable[[Path], tuple[EventSink, Callable[[], None]]]] = {
        "nothing": lambda _: (Nothing(), lambda: None),
        "nothing, through FanOut": lambda _: (FanOut([Nothing()]), lambda: None),
        "RunLifecycleLog, to a file": logging_sink,
        "RunMetrics": metrics_sink,
        "RaiseAlerts": alerts_sink,
        "spans, made": making_sink,
        "spans, made and encoded": tracing_sink,
        "both, through FanOut": both,
    }
    measured: dict[str, list[float]] = {name: [] for name in rows}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(arguments.rounds):
            for name, build in rows.items():
                sink, finish = build(Path(folder))
                measured[name].append(cost_us(sink, arguments.runs, finish))
    events = sum(map(len, batches()))
    machine = f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    print(f"{machine}, load {os.getloadavg()[0]:.1f}, {arguments.rounds} rounds of {arguments.runs} runs")
    print("| reader | CPU µs an event, median | best | × nothing | CPU ms a run |")
    print("|---|--:|--:|--:|--:|")
    floor = statistics.median(measured["nothing"])
    for name, values in measured.items():
        median = statistics.median(values)
        print(f"| {name} | {median:.2f} | {min(values):.2f} | {median / floor:.0f} | {median * events / 1000:.2f} |")


if __name__ == "__main__":
    main()
