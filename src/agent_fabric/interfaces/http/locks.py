"""Every route says who may use it. One that does not say it cannot be added."""

from typing import Any, Final, assert_never

from fastapi import Request
from fastapi.routing import APIRoute
from starlette.types import Receive, Scope, Send

from agent_fabric.domain.errors import Forbidden
from agent_fabric.domain.identity import Kind, Principal
from agent_fabric.domain.identity import Scope as Right

PUBLIC: Final = "public"
"""Nobody is asked who they are: whether the server lives, what it offers, and how to log in."""
SIGNED: Final = "signed"
"""Whoever calls shows who they are by signing what they send; the route itself checks it."""
_NEEDED: Final = "x-scope"


def needs(right: Right | str, extra: dict[str, Any] | None = None) -> dict[str, Any]:
    """Declare, as `openapi_extra` of a route, what its callers must be allowed; `extra` is added."""
    open_to_all = right in {PUBLIC, SIGNED}
    return {
        **(extra or {}),
        _NEEDED: str(right),
        "security": [] if open_to_all else [{"bearer": []}, {"key": []}],
    }


def who_asks(request: Request) -> Principal:
    """Return who sent a request that has come through the gate."""
    principal = request.state.user
    assert isinstance(principal, Principal)
    return principal


def must_be_allowed(principal: Principal, right: Right) -> None:
    """Check that somebody may do something.

    Raises:
        Forbidden: they may not.
    """
    if principal.may(right):
        return
    match principal.kind:
        case Kind.KEY:
            hint = (
                f"A key keeps its scopes; an admin can make another one: fabric keys create NAME --scope {right.value}"
            )
        case Kind.USER:
            hint = f"An admin can allow it: fabric users set {principal.name} --scope {right.value}, then log in again"
        case Kind.EXTERNAL:
            hint = "What people of an identity provider may is said in `identity.provider.scopes`."
        case Kind.LOCAL:
            hint = "The local token is narrowed here."
        case _:
            assert_never(principal.kind)
    raise Forbidden(f"{principal.name} may not do this: it needs the scope {right.value!r}", hint=hint)


class LockedRoute(APIRoute):
    """A route that opens only for those who may use it."""

    def __init__(self, path: str, *args: Any, **more: Any) -> None:
        super().__init__(path, *args, **more)
        try:
            needed = (self.openapi_extra or {})[_NEEDED]
        except KeyError:
            raise TypeError(f"{path} does not say who may use it: openapi_extra=needs(…)") from None
        self.right = needed if needed in {PUBLIC, SIGNED} else Right(needed)
        """What callers must be allowed, or why they are not asked."""

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.require_right(scope)
        await super().handle(scope, receive, send)

    def require_right(self, scope: Scope) -> None:
        """Check that who asks may.

        Raises:
            Forbidden: they may not.
        """
        if not isinstance(self.right, Right):
            return
        must_be_allowed(scope["state"]["user"], self.right)
