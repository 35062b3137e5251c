"""The tables of users, API keys and logins that were ended before their time."""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from agent_fabric.application.ports.clock import Clock
from agent_fabric.domain.audit.acts import Act
from agent_fabric.domain.errors import AccountNotFound, LastAdmin, NameTaken
from agent_fabric.domain.identity.accounts import ApiKey, User, UserChange
from agent_fabric.domain.identity.principals import Role, known_scopes
from agent_fabric.infrastructure.persistence.audit.chain_writer import ChainWriter, add_act
from agent_fabric.infrastructure.persistence.sql import Database, SqlConnection
from agent_fabric.infrastructure.persistence.table import FLAG, Codec, Table, fetch_briefly, json_text

USE_NOTED_EVERY_S: Final = 60.0
_SCOPES: Final = json_text(known_scopes, sorted)
USERS: Final = Table(
    "users", User, key="name", renamed={"extra": "scopes"}, role=Codec(Role), extra=_SCOPES, disabled=FLAG
)
KEYS: Final = Table("api_keys", ApiKey, key="id", scopes=_SCOPES)

_log = logging.getLogger(__name__)


class SqlUserRepository:
    """UserRepository; each change adds an entry to the audit chain in its transaction."""

    def __init__(self, database: Database, chain: ChainWriter) -> None:
        self._database = database
        self._chain = chain
        self._users = USERS.within(database)

    async def find(self, name: str) -> User | None:
        return await self._users.find("name = ?", name)

    async def list(self) -> Sequence[User]:
        return await self._users.rows("ORDER BY name")

    async def add(self, user: User, *, act: Act | None) -> None:
        def write(connection: SqlConnection) -> None:
            if not USERS.add(connection, user):
                raise NameTaken(
                    f"There is a user {user.name!r} already", hint=f"Change them with: fabric users set {user.name}"
                )
            add_act(connection, self._chain, act)

        await self._database.write(write)

    async def change(self, name: str, change: UserChange, *, keep_an_admin: bool, act: Act | None) -> User:
        def write(connection: SqlConnection) -> User:
            before = _require_user(connection, name)
            after = before.apply(change)
            if keep_an_admin and before.is_admin and not after.is_admin:
                _require_another_admin(connection, name)
            USERS.put(connection, after)
            add_act(connection, self._chain, act)
            return after

        return await self._database.write(write)

    async def remove(self, name: str, *, keep_an_admin: bool, act: Act | None) -> None:
        def write(connection: SqlConnection) -> None:
            if _require_user(connection, name).is_admin and keep_an_admin:
                _require_another_admin(connection, name)
            USERS.delete(connection, "name = ?", name)
            add_act(connection, self._chain, act)

        await self._database.write(write)


def _require_user(connection: SqlConnection, name: str) -> User:
    user = USERS.find(connection, "name = ?", name)
    if user is None:
        raise AccountNotFound(f"There is no user {name!r}", hint="See them with: fabric users list")
    return user


def _require_another_admin(connection: SqlConnection, name: str) -> None:
    if not any(user.is_admin for user in USERS.rows(connection, "WHERE name <> ?", name)):
        raise LastAdmin(
            f"{name} is the last user with the scope 'admin'",
            hint="Make another user an admin first. On the server's own machine, `fabric users` can do it anyway: "
            "the holder of the folder's token is always an admin.",
        )


class SqlApiKeyRepository:
    """ApiKeyRepository; each change adds an entry to the audit chain in its transaction."""

    def __init__(self, database: Database, chain: ChainWriter) -> None:
        self._database = database
        self._chain = chain
        self._keys = KEYS.within(database)
        self._noted: dict[str, float] = {}
        """When the use of each key was last written down by this process."""

    async def find(self, key_id: str) -> ApiKey | None:
        return await self._keys.find("id = ?", key_id)

    async def list(self) -> Sequence[ApiKey]:
        return await self._keys.rows("ORDER BY created_at DESC, id")

    async def add(self, key: ApiKey, *, act: Act | None) -> None:
        def write(connection: SqlConnection) -> None:
            if _live_key(connection, key.name, key.created_at) is not None:
                raise NameTaken(
                    f"There is a live key {key.name!r} already",
                    hint=f"Choose another name, or revoke it first: fabric keys revoke {key.name}",
                )
            KEYS.insert(connection, key)
            add_act(connection, self._chain, act)

        await self._database.write(write)

    async def revoke(self, which: str, *, at: float, act: Act | None) -> ApiKey:
        def write(connection: SqlConnection) -> ApiKey:
            key = KEYS.find(connection, "id = ?", which) or _live_key(connection, which, at)
            if key is None:
                raise AccountNotFound(
                    f"There is no key with the id, and no live one with the name, {which[:80]!r}",
                    hint="See them with: fabric keys list",
                )
            if not KEYS.update(connection, {"revoked_at": at}, "id = ? AND revoked_at IS NULL", key.id):
                return key
            if act is not None:
                add_act(connection, self._chain, replace(act, about=key.title))
            return replace(key, revoked_at=at)

        return await self._database.write(write)

    def note_use(self, key_id: str, *, at: float) -> None:
        if abs(at - self._noted.get(key_id, float("-inf"))) < USE_NOTED_EVERY_S:
            return
        self._noted[key_id] = at
        written = self._database.write(
            lambda connection: KEYS.update(connection, {"last_used_at": at}, "id = ?", key_id)
        )
        written.add_done_callback(_log_failure)


def _log_failure(written: "asyncio.Future[Any]") -> None:
    if not written.cancelled() and (problem := written.exception()) is not None:
        _log.warning("The use of an API key could not be written down: %s", problem)


def _live_key(connection: SqlConnection, name: str, now: float) -> ApiKey | None:
    return next((key for key in KEYS.rows(connection, "WHERE name = ?", name) if key.is_live(now)), None)


class SqlEndedLogins:
    """EndedLogins over the database. A login whose time is over needs no row: its tokens have expired."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def has(self, login: str) -> bool:
        return await fetch_briefly(self._database, "SELECT 1 FROM ended_logins WHERE id = ?", login) is not None

    async def add(self, login: str, *, until: float) -> None:
        now = self._clock.now()

        def write(connection: SqlConnection) -> None:
            connection.execute("DELETE FROM ended_logins WHERE until <= ?", (now,))
            query = "INSERT INTO ended_logins (id, until) VALUES (?, ?) ON CONFLICT DO NOTHING"
            connection.execute(query, (login, until))

        await self._database.write(write)
