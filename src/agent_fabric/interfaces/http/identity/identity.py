"""Log in, and see who one is; people and keys."""

import logging
import time
from collections.abc import Iterable
from typing import Annotated, Literal

from fastapi import Path, Query
from pydantic import Field, SecretStr, StringConstraints
from starlette.responses import Response

from agent_fabric.application.identity.issue_token import MAX_REFRESH_TOKEN_CHARS, MAX_TOKEN_LIFETIME_S
from agent_fabric.application.identity.manage_api_keys import LASTS_S, MAX_KEY_LIFETIME_S
from agent_fabric.bootstrap.identity import Identity
from agent_fabric.domain.identity.accounts import MAX_PASSWORD_CHARS, MIN_PASSWORD_CHARS, User
from agent_fabric.domain.identity.principals import SCOPE_PATTERN, TOOLS_PREFIX, Principal, Role, Scope, scope_from
from agent_fabric.interfaces.http.answers import json_answer
from agent_fabric.interfaces.http.bodies import LenientBody
from agent_fabric.interfaces.http.gate import END, RENEW
from agent_fabric.interfaces.http.routing import Open, OptionalBody, Routes
from agent_fabric.wire import identity as wire

UserName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9._@-]{0,63}$")]
KeyName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._@-]{0,63}$")]
ScopeName = Annotated[str, StringConstraints(pattern=SCOPE_PATTERN)]
_NARROWS = {"contains": {"type": "string", "pattern": f"^{TOOLS_PREFIX}"}}
_IS_ADMIN = {"contains": {"const": Scope.ADMIN.value}}
Scopes = Annotated[list[ScopeName], Field(json_schema_extra={"not": {"allOf": [_IS_ADMIN, _NARROWS]}})]
"""`admin` includes every tool, so it is not given together with a tool scope."""
Secret = Annotated[SecretStr, Field(max_length=MAX_PASSWORD_CHARS)]
FreshSecret = Annotated[SecretStr, Field(min_length=MIN_PASSWORD_CHARS, max_length=MAX_PASSWORD_CHARS)]


class LoginRequest(LenientBody, example={"username": "ada", "password": "correct horse battery staple"}):
    """A user's name and password."""

    username: Annotated[str, StringConstraints(max_length=255)]
    password: Secret


class RenewalRequest(LenientBody, example={"refresh_token": "eyJhbGciOi…"}):
    """What a login gave to renew it with."""

    refresh_token: Annotated[SecretStr, Field(min_length=1, max_length=MAX_REFRESH_TOKEN_CHARS)]


class NewUser(
    LenientBody,
    json_schema_extra={
        "examples": [{"name": "ada", "password": "correct horse battery staple", "role": "member"}],
        "not": {
            "properties": {"role": {"const": Role.ADMIN.value}, "scopes": _NARROWS},
            "required": ["role", "scopes"],
        },
    },
):
    """A person who shall be able to log in."""

    name: UserName
    password: FreshSecret | None = None
    """At least 12 characters. Without one they cannot log in, only use tokens that were issued for them."""
    role: Role = Role.VIEWER
    scopes: Scopes = Field(default=[])
    """Scopes beyond the role; `tools:NAME` and the like narrow which tools runs may use."""


class UserUpdate(LenientBody, example={"role": "operator"}):
    """What becomes different; what is left out stays as it is."""

    role: Role | None = None
    scopes: list[ScopeName] | None = None
    """Scopes beyond the role; `tools:NAME` and the like narrow which tools runs may use."""
    disabled: bool | None = None


class NewPassword(LenientBody, example={"password": "correct horse battery staple"}):
    """A new password for a user."""

    password: FreshSecret


class OwnPassword(
    LenientBody, example={"old_password": "the one until now", "new_password": "correct horse battery staple"}
):
    """A new password for oneself."""

    old_password: Secret
    new_password: FreshSecret


class TokenRequest(LenientBody, example={"scopes": ["runs:read"], "lifetime_s": 43_200}):
    """A token for a script of a user."""

    scopes: list[ScopeName] | None = None
    """What it allows; by default all that they may."""
    lifetime_s: Annotated[float, Field(strict=True, gt=0, le=MAX_TOKEN_LIFETIME_S, allow_inf_nan=False)] | None = None
    """How long it counts; by default `identity.token_lifetime_s`."""


class NewKeyRequest(LenientBody, example={"name": "ci", "scopes": ["runs"], "expires_in_s": LASTS_S}):
    """A key for a program."""

    name: KeyName
    scopes: Scopes = Field(default=[Scope.RUNS_READ], min_length=1)
    expires_in_s: Annotated[float, Field(strict=True, gt=0, le=MAX_KEY_LIFETIME_S)] | Literal["never"] = LASTS_S
    """How long it counts; `never` has to be said."""


_NOT_KEPT = {"cache-control": "no-store"}

_log = logging.getLogger(__name__)


def add_identity(routes: Routes, identity: Identity) -> None:
    """Add the routes about who may use this server."""
    _add_login(routes, identity)
    add_users(routes, identity)
    add_keys(routes, identity)


def _add_login(routes: Routes, identity: Identity) -> None:
    @routes.post("/api/v1/login", Open.PUBLIC, "Log in with a name and a password", wire.LOGIN, fails=[401, 429, 503])
    async def log_in(wish: LoginRequest) -> Response:
        """Answer with a token for `Authorization: Bearer TOKEN`. Whatever is wrong, the answer is the same.

        `refresh_token` gets another one when it has expired, for `refresh_expires_in` seconds.
        """
        issued = await identity.login(wish.username, wish.password.get_secret_value())
        _log.info("%s has logged in", issued.access.name)
        return json_answer(wire.LOGIN.dump(issued), headers=_NOT_KEPT)

    @routes.post(RENEW, Open.PUBLIC, "Renew a login", wire.TOKEN, fails=[401, 429, 503])
    async def renew(wish: RenewalRequest) -> Response:
        """Answer with another access token, until the login ends. A new password and a logout everywhere end it."""
        return json_answer(
            wire.TOKEN.dump(await identity.renew(wish.refresh_token.get_secret_value())), headers=_NOT_KEPT
        )

    @routes.post(END, Open.PUBLIC, "Log out", status=204, fails=[401, 429, 503])
    async def end(wish: RenewalRequest) -> None:
        """End one login: neither its access tokens nor its refresh token count any more."""
        _log.info("%s has logged out", await identity.renew.end(wish.refresh_token.get_secret_value()))

    @routes.get("/api/v1/me", Scope.RUNS_READ, "Show who is asking", wire.PRINCIPAL, fails=[401])
    async def me(by: Principal) -> Principal:
        """Return who the credential belongs to, and its scopes."""
        return by

    @routes.put("/api/v1/me/password", Scope.RUNS_READ, "Choose a new password", status=204, fails=[401, 429, 503])
    async def change_password(wish: OwnPassword, by: Principal) -> None:
        """For people who have logged in. All of their tokens count no more: they log in again."""
        user = await identity.users.change_own_password(
            by, old=wish.old_password.get_secret_value(), new=wish.new_password.get_secret_value()
        )
        _log.info("%s has chosen a new password", user.name)

    @routes.post("/api/v1/me/logout", Scope.RUNS_READ, "Log out everywhere", status=204, fails=[401, 503])
    async def log_out(by: Principal) -> None:
        """For people who have logged in. All of their tokens count no more, wherever they are."""
        await identity.users.log_out(by)


ONE_USER = "/api/v1/users/{name}"
UserPath = Annotated[str, Path(description="The name of a user.")]


def add_users(routes: Routes, identity: Identity) -> None:
    """Add the routes. What they change counts at once."""
    users, one = identity.users, routes.below(ONE_USER)

    @routes.get("/api/v1/users", Scope.ADMIN, "List users", wire.USERS, fails=[401])
    async def list_users() -> Iterable[User]:
        """Answer with all users, by name."""
        return await users.list()

    @routes.post("/api/v1/users", Scope.ADMIN, "Add a user", wire.USER, status=201, fails=[401, 409, 429, 503, 507])
    async def add(wish: NewUser, who: Principal) -> Response:
        """No caller can grant a scope that they lack."""
        password = None if wish.password is None else wish.password.get_secret_value()
        user = await users.add(wish.name, password=password, role=wish.role, extra=map(scope_from, wish.scopes), by=who)
        _log.info("%s has added the user %s as %s", who.name, user.name, user.role.value)
        return json_answer(wire.USER.dump(user), status=201)

    @one.get("", Scope.ADMIN, "Show a user", wire.USER, fails=[401, 404])
    async def show(name: UserPath) -> User:
        """Return the scopes of a user."""
        return await users.get(name)

    @one.patch("", Scope.ADMIN, "Change a user", wire.USER, fails=[401, 404, 409, 503, 507])
    async def change(wish: UserUpdate, name: UserPath, who: Principal) -> User:
        """All of their tokens count no more. The last admin stays one; only the machine itself can change that."""
        extra = None if wish.scopes is None else map(scope_from, wish.scopes)
        user = await users.change(name, role=wish.role, extra=extra, disabled=wish.disabled, by=who)
        _log.info("%s has changed the user %s", who.name, user.name)
        return user

    @one.delete("", Scope.ADMIN, "Remove a user", wire.REMOVED_USER, fails=[401, 404, 409, 503, 507])
    async def remove(name: UserPath, who: Principal) -> wire.RemovedUser:
        """All of their tokens count no more; keys that they have made stay, and are listed in the answer.

        The last admin cannot be removed so.
        """
        await users.remove(name, by=who)
        _log.info("%s has removed the user %s", who.name, name)
        return wire.RemovedUser(name, [wire.KeyState(key, "live") for key in await identity.keys.made_by(name)])

    @one.post("/password", Scope.ADMIN, "Give a user a new password", status=204, fails=[401, 404, 429, 503, 507])
    async def set_password(wish: NewPassword, name: UserPath, who: Principal) -> None:
        """All of their tokens count no more."""
        await users.set_password(name, wish.password.get_secret_value(), by=who)
        _log.info("%s has given the user %s a new password", who.name, name)

    @one.post(
        "/tokens", Scope.ADMIN, "Issue a token for a user's script", wire.TOKEN, status=201, fails=[401, 404, 503, 507]
    )
    async def issue(wish: OptionalBody[TokenRequest], name: UserPath, who: Principal) -> Response:
        """It allows all that they may, or less. It is shown this once, and counts until they are changed."""
        scopes = None if wish.scopes is None else map(scope_from, wish.scopes)
        issued = await identity.issue(name, by=who, scopes=scopes, lifetime_s=wish.lifetime_s)
        _log.info("%s has issued a token for the user %s", who.name, issued.name)
        return json_answer(wire.TOKEN.dump(issued), 201, _NOT_KEPT)


def add_keys(routes: Routes, identity: Identity) -> None:
    """Add the routes. What they change counts at once."""
    keys = identity.keys

    @routes.get("/api/v1/keys", Scope.ADMIN, "List API keys, the newest first", wire.KEYS, fails=[401])
    async def list_keys(
        all: Annotated[bool, Query(description="Whether to include those that are no longer valid.")] = False,  # noqa: A002
    ) -> Iterable[wire.KeyState]:
        """The keys themselves are not included: they cannot be shown again."""
        now, found = time.time(), await keys.list(also_dead=all)
        return (wire.KeyState.of(key, now=now, usable=keys.is_usable(key)) for key in found)

    @routes.post(
        "/api/v1/keys", Scope.ADMIN, "Make an API key", wire.CREATED_KEY, status=201, fails=[401, 409, 503, 507]
    )
    async def create(wish: NewKeyRequest, who: Principal) -> Response:
        """Answer with the key, this once. No caller can grant a scope that they lack."""
        lasts_s = None if wish.expires_in_s == "never" else wish.expires_in_s
        made = await keys.create(wish.name, scopes=map(scope_from, wish.scopes), lasts_s=lasts_s, by=who)
        _log.info("%s has made the key %s (%s)", who.name, made.key.name, made.key.id)
        return json_answer({**wire.KEY.dump(wire.KeyState(made.key, "live")), "key": made.secret}, 201, _NOT_KEPT)

    @routes.delete("/api/v1/keys/{key_id}", Scope.ADMIN, "Revoke an API key", wire.KEY, fails=[401, 404, 503, 507])
    async def revoke(
        key_id: Annotated[str, Path(description="The id of a key, or the name of a live one.")], who: Principal
    ) -> wire.KeyState:
        """It opens nothing from now on, and stays in the list of all keys."""
        key = await keys.revoke(key_id, by=who)
        _log.info("%s has revoked the key %s (%s)", who.name, key.name, key.id)
        return wire.KeyState.of(key, now=time.time())
