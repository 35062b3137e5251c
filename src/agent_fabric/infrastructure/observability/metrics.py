"""Counts what runs and requests do, for Prometheus.

What is counted as it happens is here; what only has to be looked at (queues, approvals, the disk) is read when someone
asks. The labels are bounded: a name too many counts as `other`.
"""

import platform
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.core import GaugeMetricFamily

from agent_fabric import __version__
from agent_fabric.application.ports.events import EventsOnly
from agent_fabric.domain.approvals.events import ApprovalDecided
from agent_fabric.domain.events import (
    BudgetExhausted,
    ContextCompacted,
    Event,
    ModelAnswered,
    ModelFailed,
    PackFailed,
    RunCancelled,
    RunCompleted,
    RunCreated,
    RunFailed,
    RunInterrupted,
    RunResumed,
    RunWaited,
    SecurityViolated,
    ToolErred,
    ToolReturned,
)
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.workflows.events import StepFinished

CONTENT_TYPE: Final = CONTENT_TYPE_LATEST
MAX_NAMES: Final = 100
"""Values that one label may have; tools and models beyond it count as `other`."""
_MODEL_BUCKETS: Final = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0)
_TOOL_BUCKETS: Final = (0.001, 0.005, 0.02, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0)
_HTTP_BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0)


class Reading(NamedTuple):
    """Something that has a value at every moment."""

    name: str
    about: str
    value: float
    labels: Mapping[str, str] = {}


class RunMetrics(EventsOnly):
    """EventSink that counts; one event costs about two microseconds."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        counter, histogram = self._counter, self._histogram
        self._started = counter("fabric_runs_started", "Runs that were created here")
        self._resumed = counter("fabric_runs_resumed", "Times that a run was resumed")
        self._settled = _Children(counter("fabric_runs_settled", "Runs that ended here, by how", "status"))
        self._waited = counter("fabric_runs_waited", "Times that a run began to wait for an answer or a signal")
        self._turns = counter("fabric_turns", "Answers of models")
        self._tokens_in = _Children(counter("fabric_tokens_in", "Tokens that models read", "model"))
        self._tokens_out = _Children(counter("fabric_tokens_out", "Tokens that models wrote", "model"))
        self._cost = _Children(counter("fabric_cost", "What answers of models cost, as their prices say", "model"))
        self._model_s = _Children(
            histogram("fabric_model_request_seconds", "How long models took to answer", _MODEL_BUCKETS, "model")
        )
        self._calls = _Children(counter("fabric_tool_calls", "Calls of tools, by what came of it", "tool", "outcome"))
        self._tool_s = _Children(histogram("fabric_tool_call_seconds", "How long tools took", _TOOL_BUCKETS, "tool"))
        self._steps = _Children(counter("fabric_workflow_steps", "Steps of workflows that ended, by how", "status"))
        self._decided = _Children(counter("fabric_approvals_decided", "Answers to questions of runs", "decision"))
        self._errors = _Children(counter("fabric_errors", "Errors, by where they arose", "source", "code"))
        self._requests = _Children(
            counter("fabric_http_requests", "Requests that were answered", "method", "route", "status"), most=2_000
        )
        self._request_s = _Children(
            histogram(
                "fabric_http_request_seconds", "How long answers took, streams to their end", _HTTP_BUCKETS, "route"
            ),
            most=300,
        )
        build = Gauge("fabric_build_info", "Always 1", ["version", "python"], registry=self.registry)
        build.labels(__version__, platform.python_version()).set(1)
        ProcessCollector(registry=self.registry)
        self._takers: Mapping[type, Callable[[Any], None]] = {
            RunCreated: lambda _: self._started.inc(),
            RunResumed: lambda _: self._resumed.inc(),
            RunWaited: lambda _: self._waited.inc(),
            RunCompleted: lambda _: self._settled.get("completed").inc(),
            RunCancelled: lambda _: self._settled.get("cancelled").inc(),
            RunFailed: self._on_failure,
            RunInterrupted: lambda _: self._errors.get("run", "interrupted").inc(),
            ModelAnswered: self._on_answer,
            ContextCompacted: self._on_compaction,
            ModelFailed: lambda body: self._errors.get("model", body.error_type).inc(),
            PackFailed: lambda body: self._errors.get("pack", body.code).inc(),
            BudgetExhausted: lambda body: self._errors.get("budget", body.resource).inc(),
            SecurityViolated: lambda body: self._errors.get("security", body.event_type).inc(),
            ToolReturned: self._on_return,
            ToolErred: self._on_error,
            StepFinished: lambda body: self._steps.get(str(body.status)).inc(),
            ApprovalDecided: lambda body: self._decided.get(body.decision.value).inc(),
        }

    def publish(self, run_id: RunId, events: Sequence[Event]) -> None:  # noqa: ARG002 - every sink's
        takers = self._takers
        for event in events:
            take = takers.get(type(event.body))
            if take is not None:
                take(event.body)

    def count_answer(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count an answer over HTTP; `route` is how the path was written in the program, not what a client sent."""
        self._requests.get(method, route, str(status)).inc()
        self._request_s.get(route).observe(seconds)

    def text(self, readings: Sequence[Reading]) -> bytes:
        """Return everything in Prometheus' format. It takes milliseconds: not on the event loop."""
        return generate_latest(self.registry) + generate_latest(_Read(readings))

    def _on_failure(self, body: RunFailed) -> None:
        self._settled.get("failed").inc()
        self._errors.get("run", body.code).inc()

    def _on_answer(self, body: ModelAnswered) -> None:
        self._turns.inc()
        self._model_s.get(body.model).observe(body.duration_s)
        self._tokens_in.get(body.model).inc(body.usage.prompt_tokens)
        self._tokens_out.get(body.model).inc(body.usage.completion_tokens)
        if body.cost is not None:
            self._cost.get(body.model).inc(body.cost)

    def _on_compaction(self, body: ContextCompacted) -> None:
        self._tokens_in.get("compaction").inc(body.usage.prompt_tokens)
        self._tokens_out.get("compaction").inc(body.usage.completion_tokens)
        if body.cost is not None:
            self._cost.get("compaction").inc(body.cost)

    def _on_return(self, body: ToolReturned) -> None:
        self._calls.get(body.tool, "repeated" if body.repeated else "ok").inc()
        self._tool_s.get(body.tool).observe(body.duration_s)

    def _on_error(self, body: ToolErred) -> None:
        refused = body.rule or body.error_type == "PermissionError"
        self._calls.get(body.tool, "refused" if refused else "error").inc()
        if body.duration_s:
            self._tool_s.get(body.tool).observe(body.duration_s)

    def _counter(self, name: str, about: str, *labels: str) -> Counter:
        return Counter(name, about, labels, registry=self.registry)

    def _histogram(self, name: str, about: str, buckets: Sequence[float], *labels: str) -> Histogram:
        return Histogram(name, about, labels, buckets=buckets, registry=self.registry)


class _Children:
    """The metrics of one family by their labels, each looked up once; names beyond `most` share one."""

    def __init__(self, family: Counter | Histogram, *, most: int = MAX_NAMES) -> None:
        self._family = family
        self._most = most
        self._known: dict[tuple[str, ...], Any] = {}

    def get(self, *labels: str) -> Any:
        child = self._known.get(labels)
        if child is None:
            if len(self._known) >= self._most:
                return self._family.labels(*("other" for _ in labels))
            child = self._known[labels] = self._family.labels(*(label[:100] for label in labels))
        return child


class _Read:
    """Registry of what was read a moment ago."""

    def __init__(self, readings: Sequence[Reading]) -> None:
        self._readings = readings

    def collect(self) -> Sequence[GaugeMetricFamily]:
        families: dict[str, GaugeMetricFamily] = {}
        for each in self._readings:
            family = families.get(each.name)
            if family is None:
                names = list(each.labels)
                family = families[each.name] = GaugeMetricFamily(each.name, each.about, labels=names)
            family.add_metric(list(each.labels.values()), each.value)
        return list(families.values())
