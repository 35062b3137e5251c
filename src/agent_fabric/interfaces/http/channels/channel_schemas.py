"""Bodies of requests about channels."""

from typing import Annotated

from pydantic import Field, StringConstraints

from agent_fabric.interfaces.http.bodies import RequestBody

Name = Annotated[str, StringConstraints(min_length=1, max_length=200)]
Routes = Annotated[list[Name], Field(min_length=1, max_length=10)]


class PairRequest(RequestBody, json_schema_extra={"examples": [{"code": "ABCD2345", "user": "ann"}]}):
    """A sender who becomes a user."""

    code: Annotated[str, StringConstraints(min_length=1, max_length=40)]
    """What the bot has shown them."""
    user: Name
    """Who they are."""


class UnpairRequest(RequestBody, json_schema_extra={"examples": [{"user": "ann", "channel": "telegram"}]}):
    """A user who becomes a stranger."""

    user: Name
    """Who they are."""
    channel: Name | None = None
    """Where; null: everywhere."""


class NotifyRequest(
    RequestBody,
    json_schema_extra={"examples": [{"user": "ann", "approvals": ["telegram"], "quiet_hours": "22:00-07:00"}]},
):
    """Where a user wants to be told; what is left out stays as it is."""

    user: Name
    """Whose preference it is."""
    approvals: Routes | None = None
    """Where approvals go: `page`, `channel` (all of them), the name of a channel, or `webhook:NAME`."""
    alerts: Routes | None = None
    """The same for alerts that are sent to the user."""
    quiet_hours: Annotated[str, StringConstraints(max_length=40)] | None = None
    """Such as `22:00-07:00`; empty: none."""
    timezone: Name | None = None
    """An IANA name such as `Europe/Berlin`."""


class ResendRequest(RequestBody, json_schema_extra={"examples": [{"id": "run:1:0:telegram/42/7"}]}):
    """A delivery that goes again."""

    id: Annotated[str, StringConstraints(min_length=1, max_length=1_000)]
    """The delivery."""


class TestMessageRequest(RequestBody, json_schema_extra={"examples": [{"user": "ann"}]}):
    """A test message."""

    user: Name
    """Whom it is sent to."""
