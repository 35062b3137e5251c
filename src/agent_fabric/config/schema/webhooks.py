"""Deliveries that others send to the server."""

from typing import Literal

from agent_fabric.config.schema.limits import RateText
from agent_fabric.config.schema.values import HeaderName, SecretReference, Settings, Text, Texts


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
