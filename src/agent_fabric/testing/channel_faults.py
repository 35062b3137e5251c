"""What goes wrong with requests to the stand-ins of platforms: any method, any fault, the same words for all four."""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable
from enum import StrEnum

from aiohttp import web
from aiohttp.typedefs import Middleware

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class ChannelFault(StrEnum):
    """What goes wrong with one request."""

    ERROR = "error"
    """500 without a word about what became of it; nothing has happened."""
    THROTTLE = "throttle"
    """429, as this platform says it."""
    CUT_BEFORE = "cut_before"
    """The connection ends, and nothing has happened."""
    CUT_AFTER = "cut_after"
    """The connection ends, and it has happened."""
    SLOW = "slow"
    """The answer takes longer than anyone waits, and it has happened."""
    MALFORMED = "malformed"
    """200 with something that is no JSON, and it has happened."""


class FaultScript:
    """The faults of a stand-in, by method. It is a middleware, so that every method has them."""

    def __init__(
        self, method_of: Callable[[web.Request], str], throttled: Callable[[], web.Response], *, slow_s: float = 1.0
    ) -> None:
        self.slow_s = slow_s
        self.calls: list[str] = []
        """Every request, by its method."""
        self._method_of, self._throttled = method_of, throttled
        self._next: defaultdict[str, list[ChannelFault]] = defaultdict(list)

    def fail(self, method: str, *faults: ChannelFault) -> None:
        """Let the next requests of a method go wrong, one after another."""
        self._next[method] += faults

    @property
    def is_spent(self) -> bool:
        """Whether everything has gone wrong that was to."""
        return not any(self._next.values())

    @property
    def middleware(self) -> Middleware:
        """What an application of aiohttp takes."""

        @web.middleware
        async def apply(request: web.Request, handler: Handler) -> web.StreamResponse:
            method = self._method_of(request)
            self.calls.append(method)
            fault = self._next[method].pop(0) if self._next[method] else None
            match fault:
                case ChannelFault.ERROR:
                    return web.Response(status=500, text="oops")
                case ChannelFault.THROTTLE:
                    return self._throttled()
                case ChannelFault.CUT_BEFORE:
                    return cut(request)
                case ChannelFault.SLOW:
                    answer = await handler(request)
                    await asyncio.sleep(self.slow_s)
                    return answer
                case ChannelFault.CUT_AFTER:
                    await handler(request)
                    return cut(request)
                case ChannelFault.MALFORMED:
                    await handler(request)
                    return web.Response(text="<html>it works</html>", content_type="text/html")
                case None:
                    return await handler(request)

        return apply


def cut(request: web.Request) -> web.StreamResponse:
    """End a connection without an answer."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response()
