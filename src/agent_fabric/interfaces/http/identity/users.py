"""People who can log in."""

import logging
from collections.abc import Iterable
from typing import Annotated

from fastapi import Path, Request
from starlette.responses import Response

from agent_fabric.bootstrap.identity import Identity
from agent_fabric.domain.identity.accounts import User
from agent_fabric.domain.identity.principals import Scope, scope_from
from agent_fabric.interfaces.http.answers import json_answer
from agent_fabric.interfaces.http.identity.identity_schemas import NewPassword, NewUser, TokenRequest, UserUpdate
from agent_fabric.interfaces.http.locks import who_asks
from agent_fabric.interfaces.http.routing import OptionalBody, Routes
from agent_fabric.wire.identity import REMOVED_USER, TOKEN, USER, USERS, KeyState, RemovedUser

UserName = Annotated[str, Path(description="The name of a user.")]

_log = logging.getLogger(__name__)


def add_users(routes: Routes, identity: Identity) -> None:
    """Add the routes. What they change counts at once."""
    users = identity.users

    @routes.get("/api/v1/users", Scope.ADMIN, "List users", USERS, fails=[401])
    async def list_users() -> Iterable[User]:
        """Answer with all users, by name."""
        return await users.list()

    @routes.post("/api/v1/users", Scope.ADMIN, "Add a user", USER, status=201, fails=[401, 409, 429, 503, 507])
    async def add(wish: NewUser, request: Request) -> Response:
        """No caller can grant a scope that they lack."""
        who = who_asks(request)
        password = None if wish.password is None else wish.password.get_secret_value()
        user = await users.add(wish.name, password=password, role=wish.role, extra=map(scope_from, wish.scopes), by=who)
        _log.info("%s has added the user %s as %s", who.name, user.name, user.role.value)
        return json_answer(USER.dump(user), status=201)

    @routes.get("/api/v1/users/{name}", Scope.ADMIN, "Show a user", USER, fails=[401, 404])
    async def show(name: UserName) -> User:
        """Return the scopes of a user."""
        return await users.get(name)

    @routes.patch("/api/v1/users/{name}", Scope.ADMIN, "Change a user", USER, fails=[401, 404, 409, 503, 507])
    async def change(wish: UserUpdate, name: UserName, request: Request) -> User:
        """All of their tokens count no more. The last admin stays one; only the machine itself can change that."""
        who = who_asks(request)
        extra = None if wish.scopes is None else map(scope_from, wish.scopes)
        user = await users.change(name, role=wish.role, extra=extra, disabled=wish.disabled, by=who)
        _log.info("%s has changed the user %s", who.name, user.name)
        return user

    @routes.delete("/api/v1/users/{name}", Scope.ADMIN, "Remove a user", REMOVED_USER, fails=[401, 404, 409, 503, 507])
    async def remove(name: UserName, request: Request) -> RemovedUser:
        """All of their tokens count no more; keys that they have made stay, and are listed in the answer.

        The last admin cannot be removed so.
        """
        who = who_asks(request)
        await users.remove(name, by=who)
        _log.info("%s has removed the user %s", who.name, name)
        return RemovedUser(name, [KeyState(key, "live") for key in await identity.keys.made_by(name)])

    @routes.post(
        "/api/v1/users/{name}/password",
        Scope.ADMIN,
        "Give a user a new password",
        status=204,
        fails=[401, 404, 429, 503, 507],
    )
    async def set_password(wish: NewPassword, name: UserName, request: Request) -> None:
        """All of their tokens count no more."""
        who = who_asks(request)
        await users.set_password(name, wish.password.get_secret_value(), by=who)
        _log.info("%s has given the user %s a new password", who.name, name)

    @routes.post(
        "/api/v1/users/{name}/tokens",
        Scope.ADMIN,
        "Issue a token for a user's script",
        TOKEN,
        status=201,
        fails=[401, 404, 503, 507],
    )
    async def issue(wish: OptionalBody[TokenRequest], name: UserName, request: Request) -> Response:
        """It allows all that they may, or less. It is shown this once, and counts until they are changed."""
        who = who_asks(request)
        scopes = None if wish.scopes is None else map(scope_from, wish.scopes)
        issued = await identity.issue(name, by=who, scopes=scopes, lifetime_s=wish.lifetime_s)
        _log.info("%s has issued a token for the user %s", who.name, issued.name)
        answer = json_answer(TOKEN.dump(issued), status=201)
        answer.headers["cache-control"] = "no-store"
        return answer
