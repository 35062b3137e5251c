"""Who may use a server: people, keys of programs, and tokens."""

from collections.abc import Iterable
from typing import Any, Literal

from agent_fabric.client.transport import Named, Resource
from agent_fabric.client.wire import json_from
from agent_fabric.domain.errors import AccountNotFound
from agent_fabric.domain.identity.accounts import key_name, password_for, user_name
from agent_fabric.wire.shape import Json

USERS = "/api/v1/users"
KEYS = "/api/v1/keys"
_USER = json_from("name", "role", "scopes")
_user = Named(USERS, AccountNotFound, "There is no user {!r}", "See them with: fabric users list")
_key = Named(KEYS, AccountNotFound, "There is no key {!r}", "See them with: fabric keys list")


class Users(Resource):
    """People who can log in to a server. What is changed counts at once."""

    async def list(self) -> list[Json]:
        """Return all users, by name."""
        return await self._list("users", USERS)

    async def show(self, name: str) -> Json:
        """Return what a user may.

        Raises:
            AccountNotFound: there is no such user.
        """
        return await self._get(_USER, _user(name))

    async def add(
        self, name: str, *, password: str | None = None, role: str = "viewer", scopes: Iterable[str] = ()
    ) -> Json:
        """Add a user; without a password they cannot log in, only use tokens that were issued for them.

        Raises:
            InvalidInputs: the name or the password cannot be used.
            NameTaken: there is one of this name.
        """
        body: dict[str, Any] = {"name": user_name(name), "role": role, "scopes": list(scopes)}
        if password is not None:
            body["password"] = password_for(name, password)
        return await self._post(_USER, USERS, body)

    async def change(
        self,
        name: str,
        *,
        role: str | None = None,
        scopes: Iterable[str] | None = None,
        disabled: bool | None = None,
    ) -> Json:
        """Change what a user may; what is not given stays as it is. Their tokens count no more.

        Raises:
            AccountNotFound: there is no such user.
            LastAdmin: there would be no admin any more.
        """
        wish = {"role": role, "scopes": None if scopes is None else list(scopes), "disabled": disabled}
        body = {key: value for key, value in wish.items() if value is not None}
        return await self._post(_USER, _user(name), body, method="PATCH")

    async def set_password(self, name: str, password: str) -> None:
        """Give a user a new password. Their tokens count no more.

        Raises:
            AccountNotFound: there is no such user.
            InvalidInputs: the password cannot be used.
        """
        await self._transport.post(_user(name, "/password"), {"password": password_for(name, password)})

    async def remove(self, name: str) -> Json:
        """Remove a user. Their tokens count no more; keys that they have made stay, and are returned as `keys`.

        Raises:
            AccountNotFound: there is no such user.
            LastAdmin: there would be no admin any more.
        """
        return await self._post(json_from("name", "keys"), _user(name), method="DELETE")

    async def issue_token(
        self, name: str, *, scopes: Iterable[str] | None = None, lifetime_s: float | None = None
    ) -> Json:
        """Return a token for a user's script, for all that they may or for less: `access_token`, `expires_in`.

        Raises:
            AccountNotFound: there is no such user.
            Forbidden: they are disabled, or may less than that.
        """
        wish = {"scopes": None if scopes is None else list(scopes), "lifetime_s": lifetime_s}
        body = {key: value for key, value in wish.items() if value is not None}
        return await self._post(json_from("access_token", "expires_in", "scopes"), _user(name, "/tokens"), body)


class Keys(Resource):
    """Keys of programs. What is changed counts at once."""

    async def list(self, *, also_dead: bool = False) -> list[Json]:
        """Return keys, the newest first, without the keys themselves; `also_dead`: those that count no more, too."""
        return await self._list("keys", KEYS, {"all": also_dead})

    async def create(self, name: str, *, scopes: Iterable[str], lasts_s: float | Literal["never"]) -> Json:
        """Make a key; `key` of the answer is shown this once.

        Raises:
            InvalidInputs: the name cannot be used.
            NameTaken: there is a live one of this name.
        """
        body = {"name": key_name(name), "scopes": list(scopes), "expires_in_s": lasts_s}
        return await self._post(json_from("id", "key"), KEYS, body)

    async def revoke(self, key: str) -> Json:
        """Let a key open nothing any more; it is named by its id, or a live one by its name.

        Raises:
            AccountNotFound: there is no such key.
        """
        return await self._post(json_from("id", "name", "status"), _key(key), method="DELETE")
