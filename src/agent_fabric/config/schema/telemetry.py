"""Traces for other programs to read."""

from typing import Literal, Self

from pydantic import model_validator

from agent_fabric.config.problems import ConfigProblem
from agent_fabric.config.schema.values import BaseAddress, Settings


class TelemetryConfig(Settings):
    """Where OpenTelemetry traces go. They need the extra: `pip install "agent-fabric[telemetry]"`."""

    enabled: bool = False
    """Whether traces are made at all."""
    exporter: Literal["console", "otlp"] = "otlp"
    """`otlp` sends them to a collector over HTTP, `console` prints them to standard error."""
    otlp_endpoint: BaseAddress | None = None
    """Address of the collector, such as `http://localhost:4318`; `/v1/traces` is added to it."""

    @model_validator(mode="after")
    def _knows_where_to_send(self) -> Self:
        if self.enabled and self.exporter == "otlp" and self.otlp_endpoint is None:
            raise ConfigProblem("needs 'otlp_endpoint' because its exporter is 'otlp'")
        return self
