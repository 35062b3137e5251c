"""Alerts: when they are raised, and where they are sent."""

from typing import Annotated, Literal, Self

from pydantic import Field, Strict, model_validator

from agent_fabric.config.problems import ConfigProblem
from agent_fabric.config.schema.values import EntryKey, SecretReference, Settings, Text, Texts


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
