"""Makes OpenTelemetry spans of what runs record. The loop knows nothing of them.

A run's trace has the run's id: `00000000-0000-4000-8000-000000000001` is trace `00000000000040008000000000000001`. So
each is found by the other, and what a run did before and after it was resumed is one trace. A run that does a step of a
workflow is part of the trace of the run above all others, below the step's span. The id of that span is derived from
the id of the run, so that processes need not know of each other.
"""

import asyncio
import hashlib
import logging
import sys
import threading
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, assert_never

from opentelemetry.context import Context
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.trace import (
    NonRecordingSpan,
    Span,
    SpanContext,
    SpanKind,
    StatusCode,
    TraceFlags,
    Tracer,
    set_span_in_context,
)

from agent_fabric import __version__
from agent_fabric.application.ports.clock import Clock
from agent_fabric.application.ports.events import EventsOnly
from agent_fabric.config.schema.observability import TelemetryConfig
from agent_fabric.domain.events import (
    ContextCompacted,
    Event,
    ModelAnswered,
    ModelCalled,
    ModelFailed,
    RunCancelled,
    RunCompleted,
    RunCreated,
    RunFailed,
    RunInterrupted,
    RunResumed,
    RunWaited,
    SecurityViolated,
    SpecialistsRecruited,
    ToolCalled,
    ToolErred,
    ToolReturned,
)
from agent_fabric.domain.ids import LaneId, RunId
from agent_fabric.domain.models.messages import Usage
from agent_fabric.domain.runs.task import root_of
from agent_fabric.domain.workflows.events import ChildFinished, StepFinished, StepRetried, StepStarted, StepStatus
from agent_fabric.infrastructure.clock import SystemClock

OPERATION: Final = "gen_ai.operation.name"
AGENT_NAME: Final = "gen_ai.agent.name"
REQUEST_MODEL: Final = "gen_ai.request.model"
RESPONSE_MODEL: Final = "gen_ai.response.model"
FINISH_REASONS: Final = "gen_ai.response.finish_reasons"
INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
TOOL_NAME: Final = "gen_ai.tool.name"
TOOL_CALL_ID: Final = "gen_ai.tool.call.id"
ERROR_TYPE: Final = "error.type"

INVOKE_AGENT: Final = "invoke_agent"
CHAT: Final = "chat"
EXECUTE_TOOL: Final = "execute_tool"

RUN_ID: Final = "fabric.run_id"
LANE: Final = "fabric.lane"
STEP: Final = "fabric.step"
STEP_ID: Final = "fabric.step_id"
ACTION: Final = "fabric.action"
ATTEMPT: Final = "fabric.attempt"
SPECIALIST_IDS: Final = "fabric.specialist_ids"
MODEL_KEY: Final = "fabric.model_key"
SANDBOX: Final = "fabric.sandbox"
RESUMED_BY: Final = "fabric.resumed_by"
PURPOSE: Final = "fabric.purpose"
DELAY_S: Final = "fabric.delay_s"
USAGE_ESTIMATED: Final = "fabric.usage_estimated"
COST: Final = "fabric.cost"
REPEATED: Final = "fabric.repeated"
OUTCOME: Final = "fabric.outcome"
EVENT_TYPE: Final = "fabric.event_type"


MAX_LIVE_RUNS: Final = 5_000
"""Runs whose end is awaited. Beyond it those go of which nothing was heard for the longest time."""
MAX_LIVE_CALLS: Final = 50
"""Calls of one run whose end is awaited."""
CLOSE_TIMEOUT_S: Final = 2.0
"""How long the last spans may take to be delivered when the program ends."""

Attributes = Mapping[str, Any]
_MODEL: Final = ""
"""Stands for a lane's model call, where a tool call has its id."""
_STEP: Final = "\0step"
"""Stands for a lane's step, in the same place."""


class RunSpans(EventsOnly):
    """EventSink that makes spans: one for each drive of a run, and in it one for each step, model call and tool call.

    They tell names, counts and times, never what was said or done.
    """

    def __init__(self, processor: SpanProcessor, clock: Clock, *, on_late: Callable[[], None] = lambda: None) -> None:
        self._clock = clock
        self._on_late = on_late
        """Learns that the last spans were not delivered in time."""
        self._ids = _TraceIds()
        self._provider = TracerProvider(resource=_resource(), id_generator=self._ids, shutdown_on_exit=False)
        self._provider.add_span_processor(processor)
        self._tracer = self._provider.get_tracer("agent_fabric", __version__)
        self._runs: dict[RunId, _LiveRun] = {}
        """The one that was heard of last is the last."""

    def publish(self, run_id: RunId, events: Sequence[Event]) -> None:
        for event in events:
            self._take(run_id, event)

    async def aclose(self) -> None:
        """End what is open and deliver it, for two seconds at most."""
        for run_id in list(self._runs):
            self._end(run_id, self._clock.now(), "interrupted")
        loop, delivered = asyncio.get_running_loop(), asyncio.Event()

        def deliver() -> None:
            self._provider.shutdown()
            if not loop.is_closed():
                loop.call_soon_threadsafe(delivered.set)

        # On a thread that no one waits for: a collector that hangs must not keep the program.
        threading.Thread(target=deliver, name="last-spans", daemon=True).start()
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT_S):
                await delivered.wait()
        except TimeoutError:
            self._on_late()

    @property
    def live(self) -> int:
        """How many spans wait for their end."""
        return sum(1 + len(run.calls) for run in self._runs.values())

    def _take(self, run_id: RunId, event: Event) -> None:  # noqa: C901 - one branch for each kind
        body = event.body
        if isinstance(body, RunCreated):
            about = {MODEL_KEY: body.model_key, SANDBOX: body.sandbox}
            self._begin(run_id, root_of(body.parent), event.ts, about)
        elif isinstance(body, RunResumed):
            self._begin(run_id, body.root, event.ts, {RESUMED_BY: body.by})
        run = self._runs.pop(run_id, None)
        if run is None:
            return  # let go of, since there were too many
        self._runs[run_id] = run
        match body:
            case SpecialistsRecruited():
                run.span.set_attribute(SPECIALIST_IDS, body.specialist_ids)
                run.span.set_attribute(AGENT_NAME, body.specialist_id)
            case ModelCalled():
                run.begin_call(event, _MODEL, "fabric.llm_call", _of_question(body), SpanKind.CLIENT)
            case ModelAnswered():
                run.end_call(event, _MODEL, {**_of_answer(body), **run.count_usage(body.usage)})
            case ContextCompacted():
                run.end_call(event, _MODEL, run.count_usage(body.usage))
            case ModelFailed():
                run.end_call(event, _MODEL, error=body.error_type)
            case ToolCalled():
                run.begin_call(event, body.call_id, "fabric.tool_call", _of_call(body.tool, body.call_id, body.attempt))
            case ToolReturned():
                run.end_call(event, body.call_id, {REPEATED: True} if body.repeated else {})
            case ToolErred():
                if (event.lane, body.call_id) not in run.calls:  # in doubt: its beginning was seen by another driver
                    run.begin_call(event, body.call_id, "fabric.tool_call", _of_call(body.tool, body.call_id))
                run.end_call(event, body.call_id, error=body.error_type)
            case StepStarted() | ChildFinished() | StepRetried() | StepFinished():
                run.take_step(event, body)
            case SecurityViolated():
                told = {EVENT_TYPE: body.event_type, TOOL_NAME: body.tool}
                run.span.add_event("fabric.security_event", told, _ns(event.ts))
            case RunFailed():
                self._end(run_id, event.ts, "failed", error=body.code)
            case RunCompleted():
                self._end(run_id, event.ts, "completed")
            case RunCancelled():
                self._end(run_id, event.ts, "cancelled")
            case RunInterrupted():
                self._end(run_id, event.ts, "interrupted")
            case RunWaited():
                self._end(run_id, event.ts, "waiting")
            case _:
                pass  # of no length

    def _begin(self, run_id: RunId, root: RunId | None, ts: float, attributes: Attributes) -> None:
        self._end(run_id, ts, "abandoned")  # by a driver that could not say so
        self._ids.trace_id = _trace_id(root or run_id)
        self._runs[run_id] = _LiveRun(self._tracer, self._ids, run_id, root, ts, attributes)
        if len(self._runs) > MAX_LIVE_RUNS:
            self._end(next(iter(self._runs)), ts, "abandoned")

    def _end(self, run_id: RunId, ts: float, outcome: str, *, error: str = "") -> None:
        run = self._runs.pop(run_id, None)
        if run is not None:
            run.end(ts, outcome, error)


class _LiveRun:
    """One drive of a run: its span, and those of the calls that are under way."""

    def __init__(
        self, tracer: Tracer, ids: "_TraceIds", run_id: RunId, root: RunId | None, ts: float, attributes: Attributes
    ) -> None:
        self._tracer = tracer
        self._ids = ids
        self._run_id = run_id
        self._began_at = ts
        about = {OPERATION: INVOKE_AGENT, RUN_ID: run_id}
        above = Context() if root is None else _in_step(root, run_id)
        self.span = tracer.start_span(
            "fabric.execute_task", above, attributes={**about, **attributes}, start_time=_ns(ts)
        )
        self._inside = set_span_in_context(self.span, Context())
        self.calls: dict[tuple[LaneId | None, str], Span] = {}
        self._awaited: set[LaneId | None] = set()
        """Steps whose work another run does."""
        self._usage = Usage(0, 0)

    def begin_call(
        self, event: Event, call: str, name: str, attributes: Attributes, kind: SpanKind = SpanKind.INTERNAL
    ) -> None:
        """Open the span of a call of the event's lane."""
        self.end_call(event, call, {OUTCOME: "abandoned"})
        place = {RUN_ID: self._run_id} if event.lane is None else {RUN_ID: self._run_id, LANE: event.lane}
        self.calls[event.lane, call] = self._tracer.start_span(
            name, self._above(event.lane, call), kind, {**attributes, **place}, start_time=_ns(event.ts)
        )
        if len(self.calls) > MAX_LIVE_CALLS:
            _end(self.calls.pop(next(iter(self.calls))), event.ts, {OUTCOME: "abandoned"})

    def take_step(self, event: Event, body: StepStarted | ChildFinished | StepRetried | StepFinished) -> None:
        """Open or close the span of the step of the event's lane."""
        match body:
            case StepStarted():
                self._begin_step(event, body.step_id, body.child_run_id, _of_step(body))
            case ChildFinished():
                if (event.lane, _STEP) not in self.calls:  # its beginning was seen by another driver
                    self._begin_step(event._replace(ts=self._began_at), body.step_id, body.child_run_id, {})
            case StepRetried():
                self.end_call(event, _STEP, {OUTCOME: "retried"}, error=body.error_type or "StepFailed")
            case StepFinished():
                error = "" if body.status is not StepStatus.FAILED else body.error_type or "StepFailed"
                self.end_call(event, _STEP, {OUTCOME: body.status.value}, error=error)
            case unknown:
                assert_never(unknown)

    def _begin_step(self, event: Event, step_id: str, child: RunId | None, attributes: Attributes) -> None:
        self._ids.span_id = 0 if child is None else _step_span_id(child)
        self.begin_call(event, _STEP, "fabric.workflow_step", {STEP_ID: step_id, **attributes})
        if child is not None:
            self._awaited.add(event.lane)

    def _above(self, lane: LaneId | None, call: str) -> Context:
        """Return the step that a call belongs to, or the list that a step is repeated for; else the run."""
        place = lane if call != _STEP else LaneId(lane.rpartition("[")[0]) if lane else None
        step = self.calls.get((place, _STEP))
        return self._inside if step is None else set_span_in_context(step, Context())

    def end_call(self, event: Event, call: str, attributes: Attributes | None = None, *, error: str = "") -> None:
        """Close the span of a call, if there is one."""
        span = self.calls.pop((event.lane, call), None)
        if call == _STEP:
            self._awaited.discard(event.lane)
        if span is not None:
            _end(span, event.ts, attributes or {}, error)

    def count_usage(self, usage: Usage) -> Attributes:
        """Add to what the run has used; return what this call did."""
        self._usage += usage
        return _of_usage(usage)

    def end(self, ts: float, outcome: str, error: str) -> None:
        """Close everything."""
        for (lane, call), span in self.calls.items():
            if call != _STEP or lane not in self._awaited:  # the driver that sees the child's end makes that span
                _end(span, ts, {OUTCOME: outcome})
        _end(self.span, ts, {OUTCOME: outcome, **_of_usage(self._usage)}, error)


class _TraceIds(RandomIdGenerator):
    """Gives a trace the id that was set for it, and the next span its id if one was set."""

    trace_id = 0
    span_id = 0

    def generate_trace_id(self) -> int:
        return self.trace_id

    def generate_span_id(self) -> int:
        span_id, self.span_id = self.span_id, 0
        return span_id or super().generate_span_id()


def _trace_id(run_id: RunId) -> int:
    try:
        return uuid.UUID(run_id).int
    except ValueError:
        return int.from_bytes(hashlib.sha256(run_id.encode()).digest()[:16])


def _step_span_id(child: RunId) -> int:
    """Return the id of the span of the step whose work a run does."""
    return int.from_bytes(hashlib.sha256(f"step of {child}".encode()).digest()[:8]) or 1


def _in_step(root: RunId, run_id: RunId) -> Context:
    above = SpanContext(
        _trace_id(root), _step_span_id(run_id), is_remote=True, trace_flags=TraceFlags(TraceFlags.SAMPLED)
    )
    return set_span_in_context(NonRecordingSpan(above), Context())


def _resource() -> Resource:
    ours = Resource({"service.name": "agent-fabric", "service.version": __version__})
    return ours.merge(OTELResourceDetector().detect())  # OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES


def _of_question(body: ModelCalled) -> Attributes:
    told: dict[str, Any] = {
        OPERATION: CHAT,
        REQUEST_MODEL: body.model,
        ATTEMPT: body.attempt,
        STEP: body.step,
    }
    # Each attribute costs about as much as the event itself, so what is usual is left out.
    if body.purpose != "turn":
        told[PURPOSE] = body.purpose
    if body.delay_s:
        told[DELAY_S] = body.delay_s
    return told


def _of_answer(body: ModelAnswered) -> Attributes:
    told: dict[str, Any] = {RESPONSE_MODEL: body.model, FINISH_REASONS: (body.finish_reason,)}
    if body.usage_estimated:
        told[USAGE_ESTIMATED] = True
    if body.cost is not None:
        told[COST] = body.cost
    return told


def _of_step(body: StepStarted) -> Attributes:
    return {ACTION: body.action, ATTEMPT: body.attempt}


def _of_usage(usage: Usage) -> Attributes:
    return {INPUT_TOKENS: usage.prompt_tokens, OUTPUT_TOKENS: usage.completion_tokens}


def _of_call(tool: str, call_id: str, attempt: int | None = None) -> Attributes:
    told = {OPERATION: EXECUTE_TOOL, TOOL_NAME: tool, TOOL_CALL_ID: call_id}
    return told if attempt is None else {**told, ATTEMPT: attempt}


def _end(span: Span, ts: float, attributes: Attributes, error: str = "") -> None:
    span.set_attributes({**attributes, ERROR_TYPE: error} if error else attributes)
    if error:
        span.set_status(StatusCode.ERROR, error)
    span.end(_ns(ts))


def _ns(ts: float) -> int:
    return round(ts * 1_000_000) * 1_000  # a float of today's seconds holds no more than microseconds


_LOG: Final = logging.getLogger("agent_fabric.tracing")
"""Python's own: it reaches the operations log, and the terminal where there is none."""
_TRACES_PATH: Final = "/v1/traces"
_SOON_MS: Final = 500.0


def open_tracing(config: TelemetryConfig) -> RunSpans:
    """Return the reader of events that makes spans and sends them.

    Raises:
        ImportError: the exporter is not installed.
    """
    if config.exporter == "console":
        console = ConsoleSpanExporter(out=sys.stderr, formatter=lambda span: f"{span.to_json(indent=None)}\n")
        return RunSpans(BatchSpanProcessor(console, schedule_delay_millis=_SOON_MS), SystemClock())
    collector = _collector(config.otlp_endpoint or "")
    return RunSpans(BatchSpanProcessor(collector), SystemClock(), on_late=collector.give_up)


def _collector(endpoint: str) -> "_Collector":
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415 - costs more than all the rest

    address = endpoint if endpoint.endswith(_TRACES_PATH) else endpoint + _TRACES_PATH
    # It tells about every attempt; `_Collector` tells once.
    logging.getLogger("opentelemetry.exporter").setLevel(logging.CRITICAL)
    return _Collector(OTLPSpanExporter(endpoint=address), address)


class _Collector(SpanExporter):
    """SpanExporter that says once that spans do not arrive, and once that they do again."""

    def __init__(self, inner: SpanExporter, address: str) -> None:
        self._inner = inner
        self._address = address
        self._reached = True

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        result = self._inner.export(spans)
        reached = result is SpanExportResult.SUCCESS
        if reached != self._reached:
            self._reached = reached
            if reached:
                _LOG.warning("Traces reach %s again.", self._address)
            else:
                _LOG.warning("Traces do not reach %s. Is a collector listening there?", self._address)
        return result

    def give_up(self) -> None:
        """End what is being tried."""
        if self._reached:
            self._reached = False
            _LOG.warning("The last traces did not reach %s within %g seconds.", self._address, CLOSE_TIMEOUT_S)
        self._inner.shutdown()

    def shutdown(self) -> None:
        self._inner.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return self._inner.force_flush(timeout_millis)
