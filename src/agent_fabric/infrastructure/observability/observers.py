"""Joins those who watch all runs of a process: the operations log and traces.

Both are imported only where they are wanted: `fabric run` without them must not pay for them.
"""

import os
import sys
from collections.abc import Container, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent_fabric.application.ports.events import EventSink
from agent_fabric.config.schema.fabric import FabricConfig
from agent_fabric.config.secret_references import secrets_named_in
from agent_fabric.config.variable_names import own_values
from agent_fabric.domain.ids import RunId

if TYPE_CHECKING:
    from agent_fabric.infrastructure.observability.lifecycle_log import RunLifecycleLog
    from agent_fabric.infrastructure.observability.tracing import Tracing


@dataclass(frozen=True, slots=True)
class Observers:
    """Who watches."""

    sink: EventSink | None
    _tracing: "Tracing | None"
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
            from agent_fabric.infrastructure.observability.operations_log import (  # noqa: PLC0415 - see above
                close_operations_log,
            )

            close_operations_log()


def build_observers(config: FabricConfig, readers: Sequence[EventSink] = (), *, log_to_stderr: bool) -> Observers:
    """Join the watchers that the configuration asks for with further readers.

    `log_to_stderr` wants an operations log also where no file for it is configured.
    """
    sinks = list(readers)
    logging = log_to_stderr or config.log.file is not None
    log = _operations_log(config) if logging else None  # first: a warning about traces belongs in it
    tracing: Tracing | None = None
    if config.telemetry is not None and config.telemetry.enabled:
        from agent_fabric.infrastructure.observability.tracing import build_tracing  # noqa: PLC0415 - see above

        tracing = build_tracing(config.telemetry)
    if log is not None:
        sinks.append(log)
    if tracing is not None:
        sinks.append(tracing)
    return Observers(_join(sinks), tracing, log)


def _operations_log(config: FabricConfig) -> "RunLifecycleLog":
    from agent_fabric.infrastructure.observability.lifecycle_log import RunLifecycleLog  # noqa: PLC0415 - see above
    from agent_fabric.infrastructure.observability.operations_log import (  # noqa: PLC0415 - see above
        configure_operations_log,
        operations_log,
    )

    secrets = secrets_named_in(config.model_dump(), os.environ) | own_values(os.environ)
    configure_operations_log(config.log, secrets, sys.stderr)
    return RunLifecycleLog(operations_log("runs"))


def _join(sinks: Sequence[EventSink]) -> EventSink | None:
    if len(sinks) < 2:
        return sinks[0] if sinks else None
    from agent_fabric.infrastructure.observability.fan_out import FanOut  # noqa: PLC0415 - see above

    return FanOut(sinks)
