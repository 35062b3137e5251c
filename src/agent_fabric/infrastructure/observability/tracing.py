"""OpenTelemetry traces of runs, for those who ask for them and have the extra installed."""

from typing import Protocol

from agent_fabric.application.ports.events import EventSink
from agent_fabric.config.schema.telemetry import TelemetryConfig
from agent_fabric.domain.errors import MissingExtra


class Tracing(EventSink, Protocol):
    """An EventSink that makes traces. Close it last: then runs that were stopped are in them, too."""

    async def aclose(self) -> None:
        """Send what is left. Takes two seconds at most, also if nobody listens."""
        ...


def build_tracing(config: TelemetryConfig | None) -> Tracing | None:
    """Return what makes traces, or None where they are not wanted.

    Raises:
        MissingExtra: they are wanted, but the extra is not installed.
    """
    if config is None or not config.enabled:
        return None
    try:
        from agent_fabric.infrastructure.observability.span_export import (  # noqa: PLC0415 - an extra, and slow
            open_tracing,
        )

        return open_tracing(config)
    except ImportError as problem:
        if not (problem.name or "").startswith("opentelemetry"):
            raise
        raise MissingExtra("telemetry", needed_for="Tracing") from problem
