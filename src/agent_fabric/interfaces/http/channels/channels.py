"""Channels: how they stand, who is on them, what went out."""

from collections.abc import Iterable
from typing import Annotated, Any

from fastapi import Query, Request
from pydantic import Field, StringConstraints
from starlette.responses import PlainTextResponse, Response

from agent_fabric.application.channels.receive_webhook import ReceiveWebhook
from agent_fabric.application.ports.identity import invalid_credentials
from agent_fabric.bootstrap.channels import Channels
from agent_fabric.domain.channels.deliveries import DeliveryStatus, Part
from agent_fabric.domain.channels.notices import NotifyPreference
from agent_fabric.domain.channels.pairing import Person
from agent_fabric.domain.identity.principals import Principal, Scope
from agent_fabric.interfaces.http.answers import json_answer
from agent_fabric.interfaces.http.bodies import RequestBody
from agent_fabric.interfaces.http.routing import Open, Routes
from agent_fabric.wire.channels import CHANNEL, CHANNELS, DELIVERIES, DELIVERY, NOTIFY, PEOPLE, PERSON

Name = Annotated[str, StringConstraints(min_length=1, max_length=200)]
ChannelNames = Annotated[list[Name], Field(min_length=1, max_length=10)]


class PairRequest(RequestBody, example={"code": "ABCD2345", "user": "ann"}):
    """A sender who becomes a user."""

    code: Annotated[str, StringConstraints(min_length=1, max_length=40)]
    """What the bot has shown them."""
    user: Name
    """Who they are."""


class UnpairRequest(RequestBody, example={"user": "ann", "channel": "telegram"}):
    """A user who becomes a stranger."""

    user: Name
    """Who they are."""
    channel: Name | None = None
    """Where; null: everywhere."""


class NotifyRequest(RequestBody, example={"user": "ann", "approvals": ["telegram"], "quiet_hours": "22:00-07:00"}):
    """Where a user wants to be told; what is left out stays as it is."""

    user: Name
    """Whose preference it is."""
    approvals: ChannelNames | None = None
    """Where approvals go: `page`, `channel` (all of them), the name of a channel, or `webhook:NAME`."""
    alerts: ChannelNames | None = None
    """The same for alerts that are sent to the user."""
    quiet_hours: Annotated[str, StringConstraints(max_length=40)] | None = None
    """Such as `22:00-07:00`; empty: none."""
    timezone: Name | None = None
    """An IANA name such as `Europe/Berlin`."""


class ResendRequest(RequestBody, example={"id": "run:1:0:telegram/42/7"}):
    """A delivery that goes again."""

    id: Annotated[str, StringConstraints(min_length=1, max_length=1_000)]
    """The delivery."""


class TestMessageRequest(RequestBody, example={"user": "ann"}):
    """A test message."""

    user: Name
    """Whom it is sent to."""


BASE = "/api/v1/channels"
WHATSAPP = f"{BASE}/whatsapp"
_FAILS = [401, 413, 422, 429, 503, 507]
_ANY_BODY: dict[str, Any] = {"application/json": {"schema": {}}}
StatusQuery = Annotated[DeliveryStatus | None, Query(description="Only deliveries that stand so.")]
UserQuery = Annotated[str, Query(max_length=200, description="The user; left out: the caller.")]
LimitQuery = Annotated[int, Query(ge=1, le=1_000, description="How many.")]


def add_channels(routes: Routes, channels: Channels) -> None:
    """Add the routes."""
    _add_webhooks(routes, channels)
    people, deliveries, notify = channels.people, channels.deliveries, channels.notify

    @routes.get(BASE, Scope.RUNS_READ, "List channels", CHANNELS)
    async def list_channels() -> Response:
        """`connected` means that something was heard within two minutes."""
        now = deliveries.clock.now()
        shown = [{**CHANNEL.dump(each), "connected": each.is_connected(now)} for each in channels.statuses]
        return json_answer({"channels": shown})

    @routes.get(f"{BASE}/people", Scope.ADMIN, "List people on channels", PEOPLE)
    async def list_people() -> Iterable[Person]:
        """Ids only: anyone can change their name there."""
        return await people.list()

    @routes.post(f"{BASE}/pair", Scope.ADMIN, "Pair a sender with a user", PERSON, fails=[404, 503, 507])
    async def pair(wish: PairRequest, by: Principal) -> Person:
        """From now on the sender who was shown the code is that user, with their scopes but `admin`."""
        return await people.pair(wish.code, wish.user, by=by)

    @routes.post(f"{BASE}/unpair", Scope.ADMIN, "Part a user from channels", PEOPLE, fails=[404, 503, 507])
    async def unpair(wish: UnpairRequest, by: Principal) -> Iterable[Person]:
        """Their next message is a stranger's."""
        return await people.unpair(wish.user, channel=wish.channel or "", by=by)

    @routes.get(f"{BASE}/notify", Scope.RUNS_READ, "Show where a user is told", NOTIFY, fails=[403, 404])
    async def show_notify(by: Principal, user: UserQuery = "") -> NotifyPreference:
        """One's own, or as an admin anyone's."""
        return await notify.find(user or by.name, by=by)

    @routes.post(f"{BASE}/notify", Scope.RUNS_READ, "Set where a user is told", NOTIFY, fails=[403, 404, 503, 507])
    async def set_notify(wish: NotifyRequest, by: Principal) -> NotifyPreference:
        """One's own, or as an admin anyone's. What is left out stays as it is."""
        return await notify.save(
            wish.user,
            by=by,
            approvals=wish.approvals,
            alerts=wish.alerts,
            quiet_hours=wish.quiet_hours,
            timezone=wish.timezone,
        )

    @routes.get(f"{BASE}/deliveries", Scope.ADMIN, "List deliveries", DELIVERIES)
    async def list_deliveries(status: StatusQuery = None, limit: LimitQuery = 100) -> Iterable[Part]:
        """Texts are not shown: chats are private."""
        statuses = [] if status is None else [status]
        return await deliveries.list(statuses=statuses, limit=limit)

    @routes.post(f"{BASE}/deliveries/resend", Scope.ADMIN, "Send a delivery again", DELIVERY, fails=[404, 503, 507])
    async def resend(wish: ResendRequest, by: Principal) -> Part:
        """If it had arrived after all, it arrives twice."""
        return await deliveries.resend(wish.id, by=by)

    @routes.post(f"{BASE}/test", Scope.ADMIN, "Send a test message", DELIVERIES, fails=[404, 503, 507])
    async def send_test(wish: TestMessageRequest, by: Principal) -> Iterable[Part]:
        """It goes to everywhere that the user is paired; see the deliveries for what became of it."""
        return await deliveries.send_test(wish.user, by=by)


def _add_webhooks(routes: Routes, channels: Channels) -> None:
    """Add what platforms call. Other callers learn nothing, not even what is configured."""

    def receiver(channel: str) -> ReceiveWebhook:
        found = channels.webhooks.get(channel)
        if found is None:
            raise invalid_credentials()
        return found

    async def receive(channel: str, request: Request) -> Response:
        receipt = await receiver(channel)(dict(request.headers.items()), await request.body())
        return json_answer(dict(receipt.answer))

    @routes.get(WHATSAPP, Open.SIGNED, "Set up the webhook of WhatsApp", fails=[401])
    async def verify(
        token: Annotated[str, Query(alias="hub.verify_token", max_length=500, description="The verify token.")] = "",
        challenge: Annotated[str, Query(alias="hub.challenge", max_length=500, description="What is echoed.")] = "",
    ) -> Response:
        """Meta asks once whether the address is ours."""
        return PlainTextResponse(await receiver("whatsapp").verify(token, challenge))

    @routes.post(WHATSAPP, Open.SIGNED, "Deliver messages of WhatsApp", content=_ANY_BODY, fails=_FAILS)
    async def deliver_whatsapp(request: Request) -> Response:
        """Answered when it is durable. The same message takes effect once."""
        return await receive("whatsapp", request)

    @routes.post(f"{BASE}/telegram", Open.SIGNED, "Deliver messages of Telegram", content=_ANY_BODY, fails=_FAILS)
    async def deliver_telegram(request: Request) -> Response:
        """Only with `channels.telegram.webhook_url`. Answered when it is durable; the same update takes effect once."""
        return await receive("telegram", request)

    @routes.post(f"{BASE}/slack", Open.SIGNED, "Deliver messages of Slack", content=_ANY_BODY, fails=_FAILS)
    async def deliver_slack(request: Request) -> Response:
        """Only with `channels.slack.signing_secret`: events and pressed buttons. Answered when it is durable."""
        return await receive("slack", request)
