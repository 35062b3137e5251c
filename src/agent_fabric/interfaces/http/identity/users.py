"""People who can log in."""

import logging
from typing import Annotated

from fastapi import FastAPI, Path, Request
from starlette.responses import Response

from agent_fabric.bootstrap.identity import Identity
from agent_fabric.domain.identity.principals import Scope, scope_from
from agent_fabric.interfaces.http.answers import json_answer
from agent_fabric.interfaces.http.bodies import body_of
from agent_fabric.interfaces.http.identity.identity_schemas import NewPassword, NewUser, TokenRequest, UserUpdate
from agent_fabric.interfaces.http.locks import who_asks
from agent_fabric.interfaces.http.openapi import operation, takes
from agent_fabric.wire.identity import REMOVED_USER, TOKEN, USER, USERS, KeyState, RemovedUser

UserName = Annotated[str, Path(description="The name of a user.")]

_log = logging.getLogger(__name__)


def add_users(app: FastAPI, identity: Identity) -> None:
    """Add the routes. What they change counts at once."""
    users = identity.users

    @app.get("/api/v1/users", **operation("identity", Scope.ADMIN, "List users", USERS, fails=[401]))
    async def list_users() -> Response:
        """Answer with all users, by name."""
        return json_answer(USERS.dump(await users.list()))

    @app.post(
        "/api/v1/users",
        **operation(
            "identity",
            Scope.ADMIN,
            "Add a user",
            USER,
            status=201,
            body=takes(NewUser),
            fails=[401, 409, 429, 503, 507],
        ),
    )
    async def add(request: Request) -> Response:
        """No caller can grant a scope that they lack."""
        wish, who = await body_of(request, NewUser), who_asks(request)
        password = None if wish.password is None else wish.password.get_secret_value()
        user = await users.add(wish.name, password=password, role=wish.role, extra=map(scope_from, wish.scopes), by=who)
        _log.info("%s has added the user %s as %s", who.name, user.name, user.role.value)
        return json_answer(USER.dump(user), status=201)

    @app.get("/api/v1/users/{name}", **operation("identity", Scope.ADMIN, "Show a user", USER, fails=[401, 404]))
    async def show(name: UserName) -> Response:
        """Return the scopes of a user."""
        return json_answer(USER.dump(await users.get(name)))

    @app.patch(
        "/api/v1/users/{name}",
        **operation(
            "identity",
            Scope.ADMIN,
            "Change a user",
            USER,
            body=takes(UserUpdate),
            fails=[401, 404, 409, 503, 507],
        ),
    )
    async def change(name: UserName, request: Request) -> Response:
        """All of their tokens count no more. The last admin stays one; only the machine itself can change that."""
        wish, who = await body_of(request, UserUpdate), who_asks(request)
        extra = None if wish.scopes is None else map(scope_from, wish.scopes)
        user = await users.change(name, role=wish.role, extra=extra, disabled=wish.disabled, by=who)
        _log.info("%s has changed the user %s", who.name, user.name)
        return json_answer(USER.dump(user))

    @app.delete(
        "/api/v1/users/{name}",
        **operation("identity", Scope.ADMIN, "Remove a user", REMOVED_USER, fails=[401, 404, 409, 503, 507]),
    )
    async def remove(name: UserName, request: Request) -> Response:
        """All of their tokens count no more; keys that they have made stay, and are listed in the answer.

        The last admin cannot be removed so.
        """
        who = who_asks(request)
        await users.remove(name, by=who)
        _log.info("%s has removed the user %s", who.name, name)
        return json_answer(
            REMOVED_USER.dump(RemovedUser(name, [KeyState(key, "live") for key in await identity.keys.made_by(name)]))
        )

    @app.post(
        "/api/v1/users/{name}/password",
        **operation(
            "identity",
            Scope.ADMIN,
            "Give a user a new password",
            status=204,
            body=takes(NewPassword),
            fails=[401, 404, 429, 503, 507],
        ),
    )
    async def set_password(name: UserName, request: Request) -> Response:
        """All of their tokens count no more."""
        wish, who = await body_of(request, NewPassword), who_asks(request)
        await users.set_password(name, wish.password.get_secret_value(), by=who)
        _log.info("%s has given the user %s a new password", who.name, name)
        return Response(status_code=204)

    @app.post(
        "/api/v1/users/{name}/tokens",
        **operation(
            "identity",
            Scope.ADMIN,
            "Issue a token for a user's script",
            TOKEN,
            status=201,
            body=takes(TokenRequest, required=False),
            fails=[401, 404, 503, 507],
        ),
    )
    async def issue(name: UserName, request: Request) -> Response:
        """It allows all that they may, or less. It is shown this once, and counts until they are changed."""
        wish, who = await body_of(request, TokenRequest, absent=TokenRequest()), who_asks(request)
        scopes = None if wish.scopes is None else map(scope_from, wish.scopes)
        issued = await identity.issue(name, by=who, scopes=scopes, lifetime_s=wish.lifetime_s)
        _log.info("%s has issued a token for the user %s", who.name, issued.name)
        answer = json_answer(TOKEN.dump(issued), status=201)
        answer.headers["cache-control"] = "no-store"
        return answer
