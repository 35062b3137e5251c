"""What starts by itself: schedules, sensors and webhooks."""

from collections.abc import Mapping
from typing import Literal

from agent_fabric.config.schema.declared import Field, Settings
from agent_fabric.config.schema.limits import RateText
from agent_fabric.config.schema.values import EntryKey, HeaderName, SecretReference, Text, Texts


class SensorConfig(Settings):
    """A sensor, and the workflow that it starts."""

    kind: Text
    """`file_change`, `freshness`, `event`, or the name of an entry point of `agent_fabric.sensors`."""
    workflow: Text
    """The workflow that is started for each happening, with those of its inputs that it takes."""
    every_s: float = Field(default=10.0, ge=0.1, le=86_400)
    """How often it looks."""
    paths: Texts = ()
    """With `file_change` and `freshness`: patterns such as `inbox/*.csv`, beginning beside the fabric folder."""
    settle_s: float = Field(default=2.0, ge=0, le=86_400)
    """With `file_change`: a file counts when its size and date have been the same for so long."""
    max_age_s: float | None = Field(default=None, gt=0)
    """With `freshness`: how old the newest file may be."""
    events: Texts = ()
    """With `event`: such as `workflow.completed` or `webhook.code`; `*` stands for one part, `>` for the rest."""
    options: Mapping[EntryKey, Text] = {}
    """With an entry point: what it is given."""


class WebhookConfig(Settings):
    """A sender, whose deliveries arrive at `POST /api/v1/webhooks/NAME`."""

    scheme: Literal["hmac-sha256", "github", "slack", "stripe", "telegram"]
    """How the sender shows that a delivery is theirs."""
    secret: SecretReference
    """What the sender and this server share, such as `env:GITHUB_WEBHOOK_SECRET`."""
    workflow: Text | None = None
    """The workflow that a delivery starts; not set: it is only published on the bus."""
    events: Texts = ()
    """Start the workflow for these events only, such as `push`; empty: for all."""
    header: HeaderName = "X-Signature-256"
    """With `hmac-sha256`: the header that has the signature, in hexadecimal or base64."""
    timestamp_header: HeaderName | None = None
    """With `hmac-sha256`: a header with the time in seconds, if the signature is made over `TIME.BODY`."""
    private: bool = True
    """Whether what arrives must not reach the world: mail, tickets, orders. `false` for what everyone may read, such
    as notices of a public repository: then it does not make other calls ask."""
    rate: RateText | None = "120/minute"
    """How many deliveries are taken; null: any number."""


class AutomationConfig(Settings):
    """Schedules and other triggers."""

    enabled: bool = True
    """Whether `fabric serve` fires schedules and arms the triggers of workflows."""
    timezone: Text = "UTC"
    """The time zone of schedules that name none, such as `Europe/Berlin`."""
    look_every_s: float = Field(default=0.5, ge=0.05, le=60)
    """How often is looked for what is due."""
