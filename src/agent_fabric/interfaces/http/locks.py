"""Who asks, and whether they may."""

import asyncio
from typing import assert_never

from fastapi import Request
from starlette.types import Scope

from agent_fabric.bootstrap.this_machine import is_called_by_run
from agent_fabric.domain.errors import Forbidden
from agent_fabric.domain.identity.principals import UNKNOWN_RUN, Kind, Principal
from agent_fabric.domain.identity.principals import Scope as Right


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
    return principal.acting_for(UNKNOWN_RUN) if not principal.run and await _is_run(request.scope) else principal


async def narrow_to_run(scope: Scope) -> None:
    """Let a request of a program that a run has started act for the run, whatever it shows."""
    if await _is_run(scope):
        scope["state"]["user"] = scope["state"]["user"].acting_for(UNKNOWN_RUN)


async def _is_run(scope: Scope) -> bool:
    return await asyncio.to_thread(is_called_by_run, scope.get("client"), scope.get("server"))


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
