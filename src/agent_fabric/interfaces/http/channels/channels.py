"""Channels: how they stand, who is on them, what went out."""

from typing import Annotated, Any

from fastapi import FastAPI, Query, Request
from starlette.responses import PlainTextResponse, Response

from agent_fabric.application.channels.manage_deliveries import ManageDeliveries
from agent_fabric.application.channels.manage_notify import ManageNotify
from agent_fabric.application.channels.receive_webhook import ReceiveWebhook
from agent_fabric.application.ports.identity import invalid_credentials
from agent_fabric.bootstrap.server import ServerFabric
from agent_fabric.domain.channels.deliveries import DeliveryStatus
from agent_fabric.domain.identity.principals import Scope
from agent_fabric.interfaces.http.answers import json_answer
from agent_fabric.interfaces.http.bodies import body_of
from agent_fabric.interfaces.http.channels.channel_schemas import (
    NotifyRequest,
    PairRequest,
    ResendRequest,
    TestMessageRequest,
    UnpairRequest,
)
from agent_fabric.interfaces.http.locks import SIGNED, who_asks
from agent_fabric.interfaces.http.openapi import operation, takes
from agent_fabric.wire.channels import CHANNEL, CHANNELS, DELIVERIES, DELIVERY, NOTIFY, PEOPLE, PERSON

BASE = "/api/v1/channels"
WHATSAPP = f"{BASE}/whatsapp"
_FAILS = [401, 413, 422, 429, 503, 507]
_ANY_BODY: dict[str, Any] = {"requestBody": {"content": {"application/json": {"schema": {}}}}}
StatusQuery = Annotated[DeliveryStatus | None, Query(description="Only deliveries that stand so.")]
UserQuery = Annotated[str, Query(max_length=200, description="The user; left out: the caller.")]
LimitQuery = Annotated[int, Query(ge=1, le=1_000, description="How many.")]


def add_channels(app: FastAPI, fabric: ServerFabric) -> None:
    """Add the routes."""
    _add_webhooks(app, fabric)
    channels, people = fabric.channels, fabric.channels.people
    deliveries = ManageDeliveries(channels.store, fabric.records.approvals, fabric.clock)
    notify = ManageNotify(channels.store, people.users, fabric.clock)

    @app.get(BASE, **operation("channels", Scope.RUNS_READ, "List channels", CHANNELS))
    async def list_channels() -> Response:
        """`connected` means that something was heard within two minutes."""
        now = fabric.clock.now()
        shown = [{**CHANNEL.dump(each), "connected": each.is_connected(now)} for each in channels.statuses]
        return json_answer({"channels": shown})

    @app.get(f"{BASE}/people", **operation("channels", Scope.ADMIN, "List people on channels", PEOPLE))
    async def list_people() -> Response:
        """Ids only: anyone can change their name there."""
        return json_answer(PEOPLE.dump(await people.list()))

    @app.post(
        f"{BASE}/pair",
        **operation(
            "channels", Scope.ADMIN, "Pair a sender with a user", PERSON, body=takes(PairRequest), fails=[404, 503, 507]
        ),
    )
    async def pair(request: Request) -> Response:
        """From now on the sender who was shown the code is that user, with their scopes but `admin`."""
        wish = await body_of(request, PairRequest)
        return json_answer(PERSON.dump(await people.pair(wish.code, wish.user, by=who_asks(request))))

    @app.post(
        f"{BASE}/unpair",
        **operation(
            "channels",
            Scope.ADMIN,
            "Part a user from channels",
            PEOPLE,
            body=takes(UnpairRequest),
            fails=[404, 503, 507],
        ),
    )
    async def unpair(request: Request) -> Response:
        """Their next message is a stranger's."""
        wish = await body_of(request, UnpairRequest)
        parted = await people.unpair(wish.user, channel=wish.channel or "", by=who_asks(request))
        return json_answer(PEOPLE.dump(parted))

    @app.get(
        f"{BASE}/notify",
        **operation("channels", Scope.RUNS_READ, "Show where a user is told", NOTIFY, fails=[403, 404]),
    )
    async def show_notify(request: Request, user: UserQuery = "") -> Response:
        """One's own, or as an admin anyone's."""
        by = who_asks(request)
        return json_answer(NOTIFY.dump(await notify.find(user or by.name, by=by)))

    @app.post(
        f"{BASE}/notify",
        **operation(
            "channels",
            Scope.RUNS_READ,
            "Set where a user is told",
            NOTIFY,
            body=takes(NotifyRequest),
            fails=[403, 404, 503, 507],
        ),
    )
    async def set_notify(request: Request) -> Response:
        """One's own, or as an admin anyone's. What is left out stays as it is."""
        wish = await body_of(request, NotifyRequest)
        changed = await notify.save(
            wish.user,
            by=who_asks(request),
            approvals=wish.approvals,
            alerts=wish.alerts,
            quiet_hours=wish.quiet_hours,
            timezone=wish.timezone,
        )
        return json_answer(NOTIFY.dump(changed))

    @app.get(f"{BASE}/deliveries", **operation("channels", Scope.ADMIN, "List deliveries", DELIVERIES))
    async def list_deliveries(status: StatusQuery = None, limit: LimitQuery = 100) -> Response:
        """Texts are not shown: chats are private."""
        statuses = [] if status is None else [status]
        return json_answer(DELIVERIES.dump(await deliveries.list(statuses=statuses, limit=limit)))

    @app.post(
        f"{BASE}/deliveries/resend",
        **operation(
            "channels", Scope.ADMIN, "Send a delivery again", DELIVERY, body=takes(ResendRequest), fails=[404, 503, 507]
        ),
    )
    async def resend(request: Request) -> Response:
        """If it had arrived after all, it arrives twice."""
        wish = await body_of(request, ResendRequest)
        return json_answer(DELIVERY.dump(await deliveries.resend(wish.id, by=who_asks(request))))

    @app.post(
        f"{BASE}/test",
        **operation(
            "channels",
            Scope.ADMIN,
            "Send a test message",
            DELIVERIES,
            body=takes(TestMessageRequest),
            fails=[404, 503, 507],
        ),
    )
    async def send_test(request: Request) -> Response:
        """It goes to everywhere that the user is paired; see the deliveries for what became of it."""
        wish = await body_of(request, TestMessageRequest)
        return json_answer(DELIVERIES.dump(await deliveries.send_test(wish.user, by=who_asks(request))))


def _add_webhooks(app: FastAPI, fabric: ServerFabric) -> None:
    """Add what platforms call. Nobody else learns anything, not even what is configured."""

    def receiver(channel: str) -> ReceiveWebhook:
        found = fabric.channels.webhooks.get(channel)
        if found is None:
            raise invalid_credentials()
        return found

    async def received(channel: str, request: Request) -> Response:
        receipt = await receiver(channel)(dict(request.headers.items()), await request.body())
        return json_answer(dict(receipt.answer))

    @app.get(WHATSAPP, **operation("channels", SIGNED, "Set up the webhook of WhatsApp", fails=[401]))
    async def verify(
        token: Annotated[str, Query(alias="hub.verify_token", max_length=500, description="The verify token.")] = "",
        challenge: Annotated[str, Query(alias="hub.challenge", max_length=500, description="What is echoed.")] = "",
    ) -> Response:
        """Meta asks once whether the address is ours."""
        return PlainTextResponse(await receiver("whatsapp").verify(token, challenge))

    @app.post(WHATSAPP, **operation("channels", SIGNED, "Deliver messages of WhatsApp", body=_ANY_BODY, fails=_FAILS))
    async def deliver_whatsapp(request: Request) -> Response:
        """Answered when it is durable. The same message takes effect once."""
        return await received("whatsapp", request)

    @app.post(
        f"{BASE}/telegram",
        **operation("channels", SIGNED, "Deliver messages of Telegram", body=_ANY_BODY, fails=_FAILS),
    )
    async def deliver_telegram(request: Request) -> Response:
        """Only with `channels.telegram.webhook_url`. Answered when it is durable; the same update takes effect once."""
        return await received("telegram", request)

    @app.post(
        f"{BASE}/slack", **operation("channels", SIGNED, "Deliver messages of Slack", body=_ANY_BODY, fails=_FAILS)
    )
    async def deliver_slack(request: Request) -> Response:
        """Only with `channels.slack.signing_secret`: events and pressed buttons. Answered when it is durable."""
        return await received("slack", request)
