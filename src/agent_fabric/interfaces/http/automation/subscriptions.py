"""Subscriptions: where messages about runs and workflows are sent."""

from collections.abc import Iterable
from typing import Annotated

from fastapi import Path
from starlette.responses import Response

from agent_fabric.application.automation.manage_schedules import require_person
from agent_fabric.application.automation.send_messages import SendMessages
from agent_fabric.application.ports.automation import SendOutcome
from agent_fabric.domain.automation.outgoing import Subscription
from agent_fabric.domain.errors import ScheduleNotFound
from agent_fabric.domain.identity.principals import Principal, Scope
from agent_fabric.interfaces.http.answers import json_answer
from agent_fabric.interfaces.http.automation.schedules import RotateRequest, SubscriptionRequest
from agent_fabric.interfaces.http.routing import Routes
from agent_fabric.wire.automation import SEND_OUTCOME, SUBSCRIPTION, SUBSCRIPTIONS

BASE = "/api/v1/subscriptions"
NamePath = Annotated[str, Path(max_length=200, description="The name of a subscription.")]


def add_subscriptions(routes: Routes, messages: SendMessages) -> None:
    """Add the routes."""
    one = routes.below(f"{BASE}/{{name}}")

    @routes.get(BASE, Scope.ADMIN, "List subscriptions", SUBSCRIPTIONS)
    async def list_subscriptions() -> Iterable[Subscription]:
        """Secrets are references; they are not shown."""
        return await messages.store.list()

    @routes.post(BASE, Scope.ADMIN, "Subscribe an address to messages", SUBSCRIPTION, status=201, fails=[409, 503, 507])
    async def subscribe(wish: SubscriptionRequest, who: Principal) -> Response:
        """From now on it is sent every message whose subject fits, signed, until it has it."""
        require_person(who)
        made = await messages.add(wish.name, wish.subjects, wish.url, wish.secret or "", by=who)
        return json_answer(SUBSCRIPTION.dump(made), 201, {"location": f"{BASE}/{made.name}"})

    @one.delete("", Scope.ADMIN, "End a subscription", SUBSCRIPTION, fails=[404, 503, 507])
    async def remove(name: NamePath, by: Principal) -> Subscription:
        """What was still to be sent is not sent."""
        require_person(by)
        found = await messages.find(name)
        if not await messages.store.remove(name):
            raise ScheduleNotFound(f"There is no subscription {name!r}", hint="See them with `fabric webhooks list`.")
        return found

    @one.post("/test", Scope.ADMIN, "Send a test message", SEND_OUTCOME, fails=[404])
    async def test(name: NamePath, by: Principal) -> SendOutcome:
        """Answer with what the receiver answered; nothing is tried again."""
        require_person(by)
        return await messages.test(name)

    @one.post("/rotate", Scope.ADMIN, "Sign with another secret", SUBSCRIPTION, fails=[404, 503, 507])
    async def rotate(wish: RotateRequest, name: NamePath, by: Principal) -> Subscription:
        """For 24 hours messages are signed with both. A subscription that was disabled is active again."""
        require_person(by)
        return await messages.rotate(name, wish.secret)
