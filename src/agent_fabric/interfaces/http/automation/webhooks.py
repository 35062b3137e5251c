"""Webhooks: what others send of their own accord."""

from typing import Annotated

from fastapi import Path, Request
from starlette.responses import Response

from agent_fabric.application.automation.receive_delivery import ReceiveDelivery
from agent_fabric.interfaces.http.answers import json_answer
from agent_fabric.interfaces.http.routing import Open, Routes
from agent_fabric.wire.operations import ACCEPTED

_BODY = {
    "application/json": {"schema": {}},
    "application/x-www-form-urlencoded": {"schema": {"type": "object"}},
}


def add_webhooks(routes: Routes, receive: ReceiveDelivery) -> None:
    """Add the one route."""

    @routes.post(
        "/api/v1/webhooks/{name}",
        Open.SIGNED,
        "Deliver something",
        ACCEPTED,
        status=202,
        content=_BODY,
        fails=[401, 413, 429, 503, 507],
    )
    async def deliver(
        request: Request,
        name: Annotated[str, Path(description="The webhook, as the configuration names it.", max_length=64)],
    ) -> Response:
        """The sender signs for a configured webhook. The same delivery takes effect once."""
        headers: dict[str, str] = {}
        for key, value in request.headers.items():
            headers[key] = f"{headers[key]}, {value}" if key in headers else value
        received = await receive(name, headers, await request.body())
        if received.answer is not None:
            return json_answer(received.answer)
        location = {} if received.run_id is None else {"location": f"/runs/{received.run_id}"}
        return json_answer(ACCEPTED.dump(received), 202, location)
