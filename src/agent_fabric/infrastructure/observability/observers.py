"""Joins the readers of all runs of a process: the operations log and traces.

Both are imported only where they are wanted: `fabric run` without them must not pay for them.
"""

import logging
import os
import sys
from collections.abc import Callable, Container, Iterable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Final

from agent_fabric.application.ports.events import EventSink
from agent_fabric.config.schema.fabric import FabricConfig
from agent_fabric.config.schema.observability import TelemetryConfig
from agent_fabric.config.secret_references import secrets_named_in
from agent_fabric.config.variable_names import own_values
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import MissingExtra
from agent_fabric.domain.events import Event
from agent_fabric.domain.ids import LaneId, RunId

if TYPE_CHECKING:
    from agent_fabric.infrastructure.observability.lifecycle_log import RunLifecycleLog
    from agent_fabric.infrastructure.observability.run_spans import RunSpans

_LOG: Final = logging.getLogger("agent_fabric.tracing")
"""Python's own: it reaches the operations log, and the terminal where there is none."""


class FanOut:
    """EventSink that hands everything on to several. One that fails disturbs neither the run nor the others."""

    def __init__(self, sinks: Sequence[EventSink]) -> None:
        self._sinks = tuple(sinks)
        self._failed: set[int] = set()
        """Those whose failure has been told."""

    @property
    def wants_deltas(self) -> bool:
        for sink in self._sinks:  # noqa: SIM110 - a generator costs more, and this is asked for every question
            if sink.wants_deltas:
                return True
        return False

    def publish(self, run_id: RunId, events: Sequence[Event]) -> None:
        for sink in self._sinks:
            try:
                sink.publish(run_id, events)
            except Exception as problem:  # noqa: BLE001 - a reader's fault; the events are durable
                self._log_failure(sink, run_id, problem)

    def delta(self, run_id: RunId, lane: LaneId, text: str) -> None:
        wanting = [sink for sink in self._sinks if sink.wants_deltas]
        self._each(run_id, wanting, lambda sink: sink.delta(run_id, lane, text))

    def notice(self, run_id: RunId, text: str) -> None:
        self._each(run_id, self._sinks, lambda sink: sink.notice(run_id, text))

    def _each(self, run_id: RunId, sinks: Iterable[EventSink], tell: Callable[[EventSink], None]) -> None:
        for sink in sinks:
            try:
                tell(sink)
            except Exception as problem:  # noqa: BLE001 - a reader's fault; the events are durable
                self._log_failure(sink, run_id, problem)

    def _log_failure(self, sink: EventSink, run_id: RunId, problem: Exception) -> None:
        if id(sink) not in self._failed:
            self._failed.add(id(sink))
            from agent_fabric.infrastructure.observability.operations_log import operations_log  # noqa: PLC0415 - see above

            log = operations_log("events")
            log.error("reader_failed", reader=type(sink).__name__, run_id=run_id, exc_info=problem)


@dataclass(frozen=True, slots=True)
class Observers:
    """The readers of the events of all runs."""

    sink: EventSink | None
    _tracing: "RunSpans | None"
    """Closed last: then runs that were stopped are in the traces, too."""
    _log: "RunLifecycleLog | None"

    def redact_runs(self, encrypted: Container[RunId]) -> None:
        """Tell nothing of these runs that may quote what they are about."""
        if self._log is not None:
            self._log.discreet_about = encrypted

    async def aclose(self) -> None:
        """Hand over what is still held back; a collector that does not answer is given up after two seconds."""
        if self._tracing is not None:
            await self._tracing.aclose()
        if self._log is not None:
            from agent_fabric.infrastructure.observability.operations_log import close_operations_log  # noqa: PLC0415 - see above

            close_operations_log()


def build_observers(config: FabricConfig, readers: Sequence[EventSink] = (), *, log_to_stderr: bool) -> Observers:
    """Join the readers that the configuration asks for with further ones.

    `log_to_stderr` wants an operations log also where no file for it is configured.
    """
    logging_wanted = log_to_stderr or config.log.file is not None
    log = _build_log(config) if logging_wanted else None  # first: a warning about traces belongs in it
    tracing = build_tracing(config.telemetry)
    sinks = [*readers, *(each for each in (log, tracing) if each is not None)]
    return Observers(FanOut(sinks) if len(sinks) > 1 else next(iter(sinks), None), tracing, log)


def build_tracing(config: TelemetryConfig | None) -> "RunSpans | None":
    """Return what makes traces; None where they are not wanted, or not installed, which is logged once."""
    if config is None or not config.enabled:
        return None
    try:
        from agent_fabric.infrastructure.observability.run_spans import open_tracing  # noqa: PLC0415 - an extra, and slow

        return open_tracing(config)
    except ImportError as problem:
        if not (problem.name or "").startswith("opentelemetry"):
            raise
        _warn_of_missing_extra()
        return None


@cache
def _warn_of_missing_extra() -> None:
    missing = MissingExtra("telemetry", needed_for="Tracing")
    _LOG.warning("%s; runs continue without traces. %s", missing.message, missing.hint)


def _build_log(config: FabricConfig) -> "RunLifecycleLog":
    from agent_fabric.infrastructure.observability.lifecycle_log import RunLifecycleLog  # noqa: PLC0415 - see above
    from agent_fabric.infrastructure.observability.operations_log import configure_operations_log, operations_log  # noqa: PLC0415 - see above

    secrets = secrets_named_in(config.model_dump(), os.environ) | own_values(os.environ)
    configure_operations_log(config.log, secrets, sys.stderr)
    return RunLifecycleLog(operations_log("runs"))
