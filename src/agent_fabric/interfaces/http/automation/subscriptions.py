"""Subscriptions: where messages about runs and workflows are sent."""

from typing import Annotated

from fastapi import FastAPI, Path, Request
from starlette.responses import Response

from agent_fabric.application.automation.manage_schedules import require_person
from agent_fabric.bootstrap.server import ServerFabric
from agent_fabric.domain.errors import ScheduleNotFound
from agent_fabric.domain.identity.principals import Scope
from agent_fabric.interfaces.http.answers import json_answer
from agent_fabric.interfaces.http.automation.schedule_schemas import RotateRequest, SubscriptionRequest
from agent_fabric.interfaces.http.bodies import body_of
from agent_fabric.interfaces.http.locks import who_asks
from agent_fabric.interfaces.http.openapi import operation, takes
from agent_fabric.wire.automation import SEND_OUTCOME, SUBSCRIPTION, SUBSCRIPTIONS

BASE = "/api/v1/subscriptions"
NamePath = Annotated[str, Path(max_length=200, description="The name of a subscription.")]


def add_subscriptions(app: FastAPI, fabric: ServerFabric) -> None:
    """Add the routes."""
    messages = fabric.automation.messages

    @app.get(BASE, **operation("subscriptions", Scope.ADMIN, "List subscriptions", SUBSCRIPTIONS))
    async def list_subscriptions() -> Response:
        """Secrets are references; they are not shown."""
        return json_answer(SUBSCRIPTIONS.dump(await messages.store.list()))

    @app.post(
        BASE,
        **operation(
            "subscriptions",
            Scope.ADMIN,
            "Subscribe an address to messages",
            SUBSCRIPTION,
            status=201,
            body=takes(SubscriptionRequest),
            fails=[409, 503, 507],
        ),
    )
    async def subscribe(request: Request) -> Response:
        """From now on it is sent every message whose subject fits, signed, until it has it."""
        wish, who = await body_of(request, SubscriptionRequest), who_asks(request)
        require_person(who)
        made = await messages.add(wish.name, wish.subjects, wish.url, wish.secret or "", by=who)
        return json_answer(SUBSCRIPTION.dump(made), 201, {"location": f"{BASE}/{made.name}"})

    @app.delete(
        f"{BASE}/{{name}}",
        **operation("subscriptions", Scope.ADMIN, "End a subscription", SUBSCRIPTION, fails=[404, 503, 507]),
    )
    async def remove(name: NamePath, request: Request) -> Response:
        """What was still to be sent is not sent."""
        require_person(who_asks(request))
        found = await messages.find(name)
        if not await messages.store.remove(name):
            raise ScheduleNotFound(f"There is no subscription {name!r}", hint="See them with `fabric webhooks list`.")
        return json_answer(SUBSCRIPTION.dump(found))

    @app.post(
        f"{BASE}/{{name}}/test",
        **operation("subscriptions", Scope.ADMIN, "Send a test message", SEND_OUTCOME, fails=[404]),
    )
    async def test(name: NamePath, request: Request) -> Response:
        """Answer with what the receiver answered; nothing is tried again."""
        require_person(who_asks(request))
        return json_answer(SEND_OUTCOME.dump(await messages.test(name)))

    @app.post(
        f"{BASE}/{{name}}/rotate",
        **operation(
            "subscriptions",
            Scope.ADMIN,
            "Sign with another secret",
            SUBSCRIPTION,
            body=takes(RotateRequest),
            fails=[404, 503, 507],
        ),
    )
    async def rotate(name: NamePath, request: Request) -> Response:
        """For 24 hours messages are signed with both. A subscription that was disabled is active again."""
        wish = await body_of(request, RotateRequest)
        require_person(who_asks(request))
        return json_answer(SUBSCRIPTION.dump(await messages.rotate(name, wish.secret)))
