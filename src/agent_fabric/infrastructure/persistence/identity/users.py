"""The table of users."""

from collections.abc import Sequence
from typing import Any

from agent_fabric.domain.audit.acts import Act
from agent_fabric.domain.errors import AccountNotFound, LastAdmin, NameTaken
from agent_fabric.domain.identity.accounts import User, UserChange
from agent_fabric.domain.identity.principals import Role, known_scopes
from agent_fabric.infrastructure.persistence.audit.act_log import add_act
from agent_fabric.infrastructure.persistence.audit.chain_writer import ChainWriter
from agent_fabric.infrastructure.persistence.sql import Database, SqlConnection
from agent_fabric.wire.json_codec import dump_json, load_json

_SELECT = "SELECT name, password, role, scopes, disabled, tokens_after, created_at FROM users"


class SqlUserRepository:
    """UserRepository; each change adds an entry to the audit chain in its transaction."""

    def __init__(self, database: Database, chain: ChainWriter) -> None:
        self._database = database
        self._chain = chain

    async def find(self, name: str) -> User | None:
        return await self._database.read_briefly(lambda connection: _find(connection, name))

    async def list(self) -> Sequence[User]:
        return await self._database.read(
            lambda connection: [_user(row) for row in connection.execute(f"{_SELECT} ORDER BY name")]
        )

    async def add(self, user: User, *, act: Act | None) -> None:
        def write(connection: SqlConnection) -> None:
            if _find(connection, user.name) is not None:
                raise NameTaken(
                    f"There is a user {user.name!r} already",
                    hint=f"Change them with: fabric users set {user.name}",
                )
            _put(connection, user)
            add_act(connection, self._chain, act)

        await self._database.write(write)

    async def change(self, name: str, change: UserChange, *, keep_an_admin: bool, act: Act | None) -> User:
        def write(connection: SqlConnection) -> User:
            before = _require(connection, name)
            after = before.changed(change)
            if keep_an_admin and before.is_admin and not after.is_admin:
                _require_another_admin(connection, name)
            _put(connection, after)
            add_act(connection, self._chain, act)
            return after

        return await self._database.write(write)

    async def remove(self, name: str, *, keep_an_admin: bool, act: Act | None) -> None:
        def write(connection: SqlConnection) -> None:
            if _require(connection, name).is_admin and keep_an_admin:
                _require_another_admin(connection, name)
            connection.execute("DELETE FROM users WHERE name = ?", (name,))
            add_act(connection, self._chain, act)

        await self._database.write(write)


def _find(connection: SqlConnection, name: str) -> User | None:
    row = connection.execute(f"{_SELECT} WHERE name = ?", (name,)).fetchone()
    return None if row is None else _user(row)


def _require(connection: SqlConnection, name: str) -> User:
    user = _find(connection, name)
    if user is None:
        raise AccountNotFound(f"There is no user {name!r}", hint="See them with: fabric users list")
    return user


def _require_another_admin(connection: SqlConnection, name: str) -> None:
    others = connection.execute(f"{_SELECT} WHERE name <> ?", (name,))
    if not any(_user(row).is_admin for row in others):
        raise LastAdmin(
            f"{name} is the last user with the scope 'admin'",
            hint="Make another user an admin first. On the server's own machine, `fabric users` can do it anyway: "
            "the holder of the folder's token is always an admin.",
        )


def _put(connection: SqlConnection, user: User) -> None:
    connection.execute(
        "INSERT INTO users (name, password, role, scopes, disabled, tokens_after, created_at) "
        "VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (name) DO UPDATE SET password = excluded.password, "
        "role = excluded.role, scopes = excluded.scopes, disabled = excluded.disabled, "
        "tokens_after = excluded.tokens_after, created_at = excluded.created_at",
        (
            user.name,
            user.password,
            user.role,
            dump_json(sorted(user.extra)).decode(),
            int(user.disabled),
            user.tokens_after,
            user.created_at,
        ),
    )


def _user(row: Sequence[Any]) -> User:
    name, password, role, scopes, disabled, tokens_after, created_at = row
    return User(
        name=name,
        password=password,
        role=Role(role),
        extra=known_scopes(load_json(scopes.encode())),
        disabled=bool(disabled),
        tokens_after=tokens_after,
        created_at=created_at,
    )
