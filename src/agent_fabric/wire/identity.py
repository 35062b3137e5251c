"""Users, API keys and tokens."""

from collections.abc import Sequence
from typing import Annotated, Literal, NamedTuple

from agent_fabric.application.identity.issue_token import IssuedLogin, IssuedToken
from agent_fabric.domain.identity.accounts import ApiKey, User
from agent_fabric.domain.identity.principals import Principal
from agent_fabric.wire.shape import Listing, Shape


class KeyState(NamedTuple):
    """A key, without the key itself."""

    key: ApiKey
    status: Literal["live", "expired", "revoked", "foreign"]
    """`foreign`: it was made with another `identity.key`, so that it cannot be used here."""

    @classmethod
    def of(cls, key: ApiKey, *, now: float, usable: bool = True) -> "KeyState":
        """Return whether a key opens anything; `usable`: this server can recognise it."""
        if key.revoked_at is not None:
            return cls(key, "revoked")
        if key.is_expired(now):
            return cls(key, "expired")
        return cls(key, "live" if usable else "foreign")


class RemovedUser(NamedTuple):
    """A person who cannot log in any more."""

    name: str
    keys: Sequence[KeyState]
    """Keys that they made, and that still work until they are revoked."""


PRINCIPAL = Shape(Principal, "name kind scopes expires_at", name="Me", about="Who is asking, and what they may.")
USER = Shape(User, "name role scopes extra_scopes=extra disabled has_password created_at", name="UserDetails")
USERS = Listing("users", USER, name="UserList", about="Every user, by name.")
_KEY_FIELDS = Shape(ApiKey, "id name scopes created_by created_at expires_at revoked_at last_used_at")
KEY = Shape(KeyState, "*key status", name="KeyDetails", parts=[_KEY_FIELDS])
KEYS = Listing("keys", KEY, name="KeyList", about="Keys, the newest first.")
CREATED_KEY = Shape(
    KeyState,
    "*key status",
    name="CreatedKey",
    about="A key that was just made.",
    parts=[_KEY_FIELDS],
    also={"key": Annotated[str, "The key itself. It is shown this once, and kept nowhere."]},
)
REMOVED_USER = Shape(RemovedUser, fixed={"removed": True}, parts=[KEY])
TOKEN = Shape(
    IssuedToken,
    "access_token=token expires_in scopes",
    name="Token",
    about="A token, shown once. Send it as `Authorization: Bearer TOKEN`.",
    fixed={"token_type": "bearer"},
)
LOGIN = Shape(
    IssuedLogin,
    "*access refresh_token refresh_expires_in",
    name="LoginTokens",
    about="The tokens of a login, shown once. Send the first as `Authorization: Bearer TOKEN`; the second renews it.",
    parts=[TOKEN],
)
