"""Sends spans where the configuration says, from a thread of its own."""

import logging
import sys
from collections.abc import Sequence
from typing import Final

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter, SpanExporter, SpanExportResult

from agent_fabric.config.schema.observability import TelemetryConfig
from agent_fabric.infrastructure.clock import SystemClock
from agent_fabric.infrastructure.observability.run_spans import CLOSE_TIMEOUT_S, RunSpans

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
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # noqa: PLC0415 - costs more than all the rest
        OTLPSpanExporter,
    )

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
