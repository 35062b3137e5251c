"""Routes whose answer is worth more than the search for what they want to know."""

from fastapi import Request
from starlette.types import Receive, Scope, Send

from agent_fabric.interfaces.http.locks import LockedRoute


class PlainRoute(LockedRoute):
    """Described like every other route, but called with the request as it came, and with nothing else.

    FastAPI looks into each request for what a route declares; for one that declares nothing, that costs more than
    most answers.
    """

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] not in (self.methods or ()):
            await super().handle(scope, receive, send)  # which says what is allowed
            return
        self.require_right(scope)
        response = await self.endpoint(Request(scope, receive))
        await response(scope, receive, send)
