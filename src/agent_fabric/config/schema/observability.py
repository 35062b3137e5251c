"""Logs, traces and alerts."""

from typing import Annotated, Literal, Self

from agent_fabric.config.problems import ConfigProblem
from agent_fabric.config.schema.declared import Field, Settings, Strict, model_validator
from agent_fabric.config.schema.values import (
    AbsolutePath,
    BaseAddress,
    EntryKey,
    SecretReference,
    Text,
    Texts,
)


class LogConfig(Settings):
    """The operations log of the program. What runs do is in their own logs."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    """The least important lines that are written."""
    format: Literal["auto", "pretty", "json"] = "auto"
    """`json`: one object a line, for programs; `pretty`: for people; `auto`: pretty on a terminal, JSON elsewhere."""
    file: AbsolutePath | None = None
    """File to append to; opened anew when it was rotated. Not set: `fabric serve` writes to standard error, and
    commands that a person waits for write no log."""


class AlertConfig(Settings):
    """One rule. A rule that has the name of a built-in one changes it."""

    name: EntryKey
    """What it is called, also in `agent33.alert.NAME` on the bus."""
    when: Text | None = None
    """`METRIC > NUMBER` (also `>=`, `<`, `<=`, `==`, `!=`), or `event KIND` for an event of a run. Not set: as built
    in."""
    for_s: float | None = Field(default=None, ge=0, le=86_400)
    """How long it must be so. Of an event: how long none must come before it is over."""
    severity: Literal["info", "warning", "critical"] | None = None
    """How much it matters; by default `warning`."""
    notify: Texts | None = None
    """Where they are sent: `log`, `bus`, users such as `user:ann`, and addresses of webhooks; by default log and
    bus."""
    secret: SecretReference | None = None
    """What messages to webhooks are signed with; not set: they are not signed."""
    enabled: bool = True
    """Whether it counts; `false` switches a built-in rule off."""

    @model_validator(mode="after")
    def _can_be_notified(self) -> Self:
        for place in self.notify or ():
            if place not in {"log", "bus"} and not place.startswith(("https://", "http://", "user:")):
                raise ConfigProblem("has a `notify` that is neither 'log', 'bus', a user nor the address of a webhook")
        return self


Alerts = Annotated[tuple[AlertConfig, ...], Strict(strict=False)]
"""Rules, in a list."""


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
