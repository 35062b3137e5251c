"""People, keys and tokens as plain objects, the same for the command line and for HTTP."""

from collections.abc import Sequence
from typing import Any

from agent_fabric.application.identity.issue_token import IssuedToken
from agent_fabric.domain.accounts import ApiKey, User
from agent_fabric.domain.identity import Principal


def principal_object(who: Principal) -> dict[str, Any]:
    """Return who somebody is and what they may."""
    return {"name": who.name, "kind": who.kind.value, "scopes": sorted(who.scopes)}


def user_object(user: User) -> dict[str, Any]:
    """Return all about a user that others may know."""
    return {
        "name": user.name,
        "role": user.role.value,
        "scopes": sorted(user.scopes),
        "extra_scopes": sorted(user.extra),
        "disabled": user.disabled,
        "has_password": bool(user.password),
        "created_at": user.created_at,
    }


def key_object(key: ApiKey, *, now: float, usable: bool = True) -> dict[str, Any]:
    """Return all about a key but the key itself; `usable` tells whether this server can recognise it."""
    return {
        "id": key.id,
        "name": key.name,
        "scopes": sorted(key.scopes),
        "status": key_status(key, now=now, usable=usable),
        "created_by": key.created_by,
        "created_at": key.created_at,
        "expires_at": key.expires_at,
        "revoked_at": key.revoked_at,
        "last_used_at": key.last_used_at,
    }


def removed_object(name: str, keys: Sequence[ApiKey], *, now: float) -> dict[str, Any]:
    """Return what is left of a user who was removed: the `keys` that they made and that still work."""
    return {"name": name, "removed": True, "keys": [key_object(key, now=now) for key in keys]}


def key_status(key: ApiKey, *, now: float, usable: bool) -> str:
    """Tell in one word whether a key opens anything."""
    if key.revoked_at is not None:
        return "revoked"
    if key.is_expired(now):
        return "expired"
    return "live" if usable else "foreign"


def token_object(issued: IssuedToken) -> dict[str, Any]:
    """Return a token as OAuth 2 has it."""
    return {
        "access_token": issued.token,
        "token_type": "bearer",
        "expires_in": int(issued.lifetime_s),
        "scopes": sorted(issued.scopes),
    }
