"""Log in, and see who one is; people and keys."""

import logging

from fastapi import Request
from starlette.responses import Response

from agent_fabric.bootstrap.identity import Identity
from agent_fabric.domain.identity.principals import Principal, Scope
from agent_fabric.interfaces.http.answers import json_answer
from agent_fabric.interfaces.http.gate import END, RENEW
from agent_fabric.interfaces.http.identity.identity_schemas import LoginRequest, OwnPassword, RenewalRequest
from agent_fabric.interfaces.http.identity.keys import add_keys
from agent_fabric.interfaces.http.identity.users import add_users
from agent_fabric.interfaces.http.locks import who_asks
from agent_fabric.interfaces.http.routing import Open, Routes
from agent_fabric.wire.identity import LOGIN, PRINCIPAL, TOKEN

_NOT_KEPT = {"cache-control": "no-store"}

_log = logging.getLogger(__name__)


def add_identity(routes: Routes, identity: Identity) -> None:
    """Add the routes about who may use this server."""
    _add_login(routes, identity)
    add_users(routes, identity)
    add_keys(routes, identity)


def _add_login(routes: Routes, identity: Identity) -> None:
    @routes.post("/api/v1/login", Open.PUBLIC, "Log in with a name and a password", LOGIN, fails=[401, 429, 503])
    async def log_in(wish: LoginRequest) -> Response:
        """Answer with a token for `Authorization: Bearer TOKEN`. Whatever is wrong, the answer is the same.

        `refresh_token` gets another one when it has expired, for `refresh_expires_in` seconds.
        """
        issued = await identity.login(wish.username, wish.password.get_secret_value())
        _log.info("%s has logged in", issued.access.name)
        answer = json_answer(LOGIN.dump(issued))
        answer.headers.update(_NOT_KEPT)
        return answer

    @routes.post(RENEW, Open.PUBLIC, "Renew a login", TOKEN, fails=[401, 429, 503])
    async def renew(wish: RenewalRequest) -> Response:
        """Answer with another access token, until the login ends. A new password and a logout everywhere end it."""
        answer = json_answer(TOKEN.dump(await identity.renew(wish.refresh_token.get_secret_value())))
        answer.headers.update(_NOT_KEPT)
        return answer

    @routes.post(END, Open.PUBLIC, "Log out", status=204, fails=[401, 429, 503])
    async def end(wish: RenewalRequest) -> None:
        """End one login: neither its access tokens nor its refresh token count any more."""
        _log.info("%s has logged out", await identity.renew.end(wish.refresh_token.get_secret_value()))

    @routes.get("/api/v1/me", Scope.RUNS_READ, "Show who is asking", PRINCIPAL, fails=[401])
    async def me(request: Request) -> Principal:
        """Return who the credential belongs to, and its scopes."""
        return who_asks(request)

    @routes.put("/api/v1/me/password", Scope.RUNS_READ, "Choose a new password", status=204, fails=[401, 429, 503])
    async def change_password(wish: OwnPassword, request: Request) -> None:
        """For people who have logged in. All of their tokens count no more: they log in again."""
        user = await identity.users.change_own_password(
            who_asks(request), old=wish.old_password.get_secret_value(), new=wish.new_password.get_secret_value()
        )
        _log.info("%s has chosen a new password", user.name)

    @routes.post("/api/v1/me/logout", Scope.RUNS_READ, "Log out everywhere", status=204, fails=[401, 503])
    async def log_out(request: Request) -> None:
        """For people who have logged in. All of their tokens count no more, wherever they are."""
        await identity.users.log_out(who_asks(request))
