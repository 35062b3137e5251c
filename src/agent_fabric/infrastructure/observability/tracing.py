"""OpenTelemetry traces of runs, where they are configured and the extra is installed."""

import logging
from functools import cache
from typing import Final, Protocol

from agent_fabric.application.ports.events import EventSink
from agent_fabric.config.schema.observability import TelemetryConfig
from agent_fabric.domain.errors import MissingExtra

_LOG: Final = logging.getLogger("agent_fabric.tracing")
"""Python's own: it reaches the operations log, and the terminal where there is none."""


class Tracing(EventSink, Protocol):
    """An EventSink that makes traces. Close it last: then runs that were stopped are in them, too."""

    async def aclose(self) -> None:
        """Send what is left. Takes two seconds at most, also if no one listens."""
        ...


def build_tracing(config: TelemetryConfig | None) -> Tracing | None:
    """Return what makes traces; None where they are not wanted, or not installed, which is logged once."""
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
        _warn_of_missing_extra()
        return None


@cache
def _warn_of_missing_extra() -> None:
    missing = MissingExtra("telemetry", needed_for="Tracing")
    _LOG.warning("%s; runs continue without traces. %s", missing.message, missing.hint)
