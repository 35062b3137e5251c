"""What the routes about people, keys and tokens take and give."""

from typing import Annotated, Literal

from pydantic import Field, SecretStr, StringConstraints

from agent_fabric.application.identity.issue_token import LONGEST_LIFETIME_S, LONGEST_REFRESH_TOKEN
from agent_fabric.application.identity.manage_api_keys import LASTS_S, LONGEST_S
from agent_fabric.domain.identity.accounts import LONGEST_PASSWORD, SHORTEST_PASSWORD
from agent_fabric.domain.identity.principals import SCOPE_PATTERN, TOOLS_PREFIX, Role, Scope
from agent_fabric.interfaces.http.bodies import RequestBody

UserName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9._@-]{0,63}$")]
KeyName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._@-]{0,63}$")]
ScopeName = Annotated[str, StringConstraints(pattern=SCOPE_PATTERN)]
_NARROWS = {"contains": {"type": "string", "pattern": f"^{TOOLS_PREFIX}"}}
_IS_ADMIN = {"contains": {"const": Scope.ADMIN.value}}
Scopes = Annotated[list[ScopeName], Field(json_schema_extra={"not": {"allOf": [_IS_ADMIN, _NARROWS]}})]
"""`admin` includes every tool, so it is not given together with a tool scope."""
Secret = Annotated[SecretStr, Field(max_length=LONGEST_PASSWORD)]
FreshSecret = Annotated[SecretStr, Field(min_length=SHORTEST_PASSWORD, max_length=LONGEST_PASSWORD)]


class _Taken(RequestBody, strict=False):
    """A body whose roles and scopes are written as text."""


class LoginRequest(
    _Taken, json_schema_extra={"examples": [{"username": "ada", "password": "correct horse battery staple"}]}
):
    """A user's name and password."""

    username: Annotated[str, StringConstraints(max_length=255)]
    password: Secret


class RenewalRequest(_Taken, json_schema_extra={"examples": [{"refresh_token": "eyJhbGciOi…"}]}):
    """What a login gave to renew it with."""

    refresh_token: Annotated[SecretStr, Field(min_length=1, max_length=LONGEST_REFRESH_TOKEN)]


class NewUser(
    _Taken,
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


class UserUpdate(_Taken, json_schema_extra={"examples": [{"role": "operator"}]}):
    """What becomes different; what is left out stays as it is."""

    role: Role | None = None
    scopes: list[ScopeName] | None = None
    """Scopes beyond the role; `tools:NAME` and the like narrow which tools runs may use."""
    disabled: bool | None = None


class NewPassword(_Taken, json_schema_extra={"examples": [{"password": "correct horse battery staple"}]}):
    """A new password for a user."""

    password: FreshSecret


class OwnPassword(
    _Taken,
    json_schema_extra={
        "examples": [{"old_password": "the one until now", "new_password": "correct horse battery staple"}]
    },
):
    """A new password for oneself."""

    old_password: Secret
    new_password: FreshSecret


class TokenRequest(_Taken, json_schema_extra={"examples": [{"scopes": ["runs:read"], "lifetime_s": 43_200}]}):
    """A token for a script of a user."""

    scopes: list[ScopeName] | None = None
    """What it allows; by default all that they may."""
    lifetime_s: Annotated[float, Field(gt=0, le=LONGEST_LIFETIME_S, allow_inf_nan=False)] | None = None
    """How long it counts; by default `identity.token_lifetime_s`."""


class NewKeyRequest(
    _Taken, json_schema_extra={"examples": [{"name": "ci", "scopes": ["runs"], "expires_in_s": LASTS_S}]}
):
    """A key for a program."""

    name: KeyName
    scopes: Scopes = Field(default=[Scope.RUNS_READ], min_length=1)
    expires_in_s: Annotated[float, Field(gt=0, le=LONGEST_S)] | Literal["never"] = LASTS_S
    """How long it counts; `never` has to be said."""
