"""Log in, and see who one is; people and keys."""

import logging

from fastapi import FastAPI, Request
from starlette.responses import Response

from agent_fabric.bootstrap.identity import Identity
from agent_fabric.domain.identity.principals import Scope
from agent_fabric.interfaces.http.answers import json_answer
from agent_fabric.interfaces.http.bodies import body_of
from agent_fabric.interfaces.http.gate import END, RENEW
from agent_fabric.interfaces.http.identity.identity_schemas import LoginRequest, OwnPassword, RenewalRequest
from agent_fabric.interfaces.http.identity.keys import add_keys
from agent_fabric.interfaces.http.identity.users import add_users
from agent_fabric.interfaces.http.locks import PUBLIC, who_asks
from agent_fabric.interfaces.http.openapi import operation, takes
from agent_fabric.wire.identity import LOGIN, PRINCIPAL, TOKEN

_NOT_KEPT = {"cache-control": "no-store"}

_log = logging.getLogger(__name__)


def add_identity(app: FastAPI, identity: Identity) -> None:
    """Add the routes about who may use this server."""
    _add_login(app, identity)
    add_users(app, identity)
    add_keys(app, identity)


def _add_login(app: FastAPI, identity: Identity) -> None:
    @app.post(
        "/api/v1/login",
        **operation(
            "identity",
            PUBLIC,
            "Log in with a name and a password",
            LOGIN,
            body=takes(LoginRequest),
            fails=[401, 429, 503],
        ),
    )
    async def log_in(request: Request) -> Response:
        """Answer with a token for `Authorization: Bearer TOKEN`. Whatever is wrong, the answer is the same.

        `refresh_token` gets another one when it has expired, for `refresh_expires_in` seconds.
        """
        wish = await body_of(request, LoginRequest)
        issued = await identity.login(wish.username, wish.password.get_secret_value())
        _log.info("%s has logged in", issued.access.name)
        answer = json_answer(LOGIN.dump(issued))
        answer.headers.update(_NOT_KEPT)
        return answer

    @app.post(
        RENEW,
        **operation("identity", PUBLIC, "Renew a login", TOKEN, body=takes(RenewalRequest), fails=[401, 429, 503]),
    )
    async def renew(request: Request) -> Response:
        """Answer with another access token, until the login ends. A new password and a logout everywhere end it."""
        wish = await body_of(request, RenewalRequest)
        answer = json_answer(TOKEN.dump(await identity.renew(wish.refresh_token.get_secret_value())))
        answer.headers.update(_NOT_KEPT)
        return answer

    @app.post(
        END,
        **operation("identity", PUBLIC, "Log out", status=204, body=takes(RenewalRequest), fails=[401, 429, 503]),
    )
    async def end(request: Request) -> Response:
        """End one login: neither its access tokens nor its refresh token count any more."""
        wish = await body_of(request, RenewalRequest)
        _log.info("%s has logged out", await identity.renew.end(wish.refresh_token.get_secret_value()))
        return Response(status_code=204)

    @app.get("/api/v1/me", **operation("identity", Scope.RUNS_READ, "Show who is asking", PRINCIPAL, fails=[401]))
    async def me(request: Request) -> Response:
        """Return who the credential belongs to, and its scopes."""
        return json_answer(PRINCIPAL.dump(who_asks(request)))

    @app.put(
        "/api/v1/me/password",
        **operation(
            "identity",
            Scope.RUNS_READ,
            "Choose a new password",
            status=204,
            body=takes(OwnPassword),
            fails=[401, 429, 503],
        ),
    )
    async def change_password(request: Request) -> Response:
        """For people who have logged in. All of their tokens count no more: they log in again."""
        wish = await body_of(request, OwnPassword)
        user = await identity.users.change_own_password(
            who_asks(request), old=wish.old_password.get_secret_value(), new=wish.new_password.get_secret_value()
        )
        _log.info("%s has chosen a new password", user.name)
        return Response(status_code=204)

    @app.post(
        "/api/v1/me/logout",
        **operation("identity", Scope.RUNS_READ, "Log out everywhere", status=204, fails=[401, 503]),
    )
    async def log_out(request: Request) -> Response:
        """For people who have logged in. All of their tokens count no more, wherever they are."""
        await identity.users.log_out(who_asks(request))
        return Response(status_code=204)
