"""Every route declares the scope that it needs. A route without a declaration cannot be added."""

import asyncio
from collections.abc import Callable
from typing import Any, Final, assert_never

from fastapi import Request
from fastapi.routing import APIRoute
from starlette.routing import Match, compile_path
from starlette.types import Receive, Scope, Send

from agent_fabric.domain.errors import Forbidden
from agent_fabric.domain.identity.principals import Kind, Principal
from agent_fabric.domain.identity.principals import Scope as Right
from agent_fabric.infrastructure.sandbox.run_processes import UNKNOWN, run_at_other_end

PUBLIC: Final = "public"
"""No authentication: health, the API description and the login."""
SIGNED: Final = "signed"
"""The request is signed; the route checks the signature."""
_NEEDED: Final = "x-scope"
_SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})


def needs(right: Right | str, extra: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return the `openapi_extra` of a route that needs a scope; `extra` is added."""
    open_to_all = right in {PUBLIC, SIGNED}
    return {
        **(extra or {}),
        _NEEDED: str(right),
        "security": [] if open_to_all else [{"bearer": []}, {"key": []}],
    }


def who_asks(request: Request) -> Principal:
    """Return the principal of an authenticated request."""
    principal = request.state.user
    assert isinstance(principal, Principal)
    return principal


async def who_answers(request: Request) -> Principal:
    """Return the principal of a request that answers what a run asks.

    A caller on this machine is looked up: a program that a run has started acts for the run, whatever it shows.
    """
    principal = who_asks(request)
    return principal.acting_for(UNKNOWN) if not principal.run and await _is_run(request.scope) else principal


async def _is_run(scope: Scope) -> bool:
    return await asyncio.to_thread(run_at_other_end, scope.get("client"), scope.get("server"))


def must_be_allowed(principal: Principal, right: Right) -> None:
    """Check that a principal has a scope.

    Raises:
        Forbidden: it does not.
    """
    if principal.may(right):
        return
    if principal.run:
        raise Forbidden(
            f"A run may not do this: it needs the scope {right.value!r}", hint="A person does that themselves."
        )
    match principal.kind:
        case Kind.KEY | Kind.USER if right is Right.ADMIN:
            hint = "Ask an admin of the server to do it."
        case Kind.KEY:
            hint = (
                f"A key keeps its scopes; an admin can make another one: fabric keys create NAME --scope {right.value}"
            )
        case Kind.USER:
            hint = f"An admin can allow it: fabric users set {principal.name} --scope +{right.value}, then log in again"
        case Kind.EXTERNAL:
            hint = "`identity.provider.scopes` says what users of the identity provider may do."
        case Kind.LOCAL:
            hint = "The local token is narrowed here."
        case _:
            assert_never(principal.kind)
    raise Forbidden(f"{principal.name} may not do this: it needs the scope {right.value!r}", hint=hint)


class LockedRoute(APIRoute):
    """A route that requires its scope.

    FastAPI reads what its function declares when the first request comes, or when somebody asks for the description:
    reading all of them would take most of a server's start. Likewise, the pattern of its path is made for the first
    path that begins like it.
    """

    def __init__(self, path: str, endpoint: Callable[..., Any], **declared: Any) -> None:
        self.path, self.endpoint, self._declared = path, endpoint, declared
        self.methods = {method.upper() for method in declared.get("methods") or ("GET",)}
        self._begins = path.partition("{")[0]
        try:
            needed = (declared.get("openapi_extra") or {})[_NEEDED]
        except KeyError:
            raise TypeError(f"{path} does not say who may use it: openapi_extra=needs(…)") from None
        self.right = needed if needed in {PUBLIC, SIGNED} else Right(needed)
        """The scope that callers need, `public` or `signed`."""

    def __getattr__(self, name: str) -> Any:
        """Let FastAPI find out the rest, when something of it is asked for the first time."""
        declared = self.__dict__.pop("_declared", None)
        if declared is None:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)
        super().__init__(self.path, self.endpoint, **declared)
        return getattr(self, name)

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        if not scope.get("root_path") and not scope["path"].startswith(self._begins):
            return Match.NONE, {}
        if "path_regex" not in self.__dict__:
            self.path_regex, self.path_format, self.param_convertors = compile_path(self.path)
        return super().matches(scope)

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self.right is Right.ADMIN and scope["method"] not in _SAFE and await _is_run(scope):
            state = scope["state"]
            state["user"] = state["user"].acting_for(UNKNOWN)
        self.require_right(scope)
        await super().handle(scope, receive, send)

    def require_right(self, scope: Scope) -> None:
        """Check that the caller has the scope.

        Raises:
            Forbidden: it does not.
        """
        if not isinstance(self.right, Right):
            return
        must_be_allowed(scope["state"]["user"], self.right)
