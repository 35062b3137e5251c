"""The table of API keys."""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from agent_fabric.domain.audit.acts import Act
from agent_fabric.domain.errors import AccountNotFound, NameTaken
from agent_fabric.domain.identity.accounts import ApiKey
from agent_fabric.domain.identity.principals import known_scopes
from agent_fabric.infrastructure.persistence.audit.act_log import add_act
from agent_fabric.infrastructure.persistence.audit.chain_writer import ChainWriter
from agent_fabric.infrastructure.persistence.sql import Database, SqlConnection
from agent_fabric.wire.json_codec import dump_json, load_json

USE_NOTED_EVERY_S = 60.0
_SELECT = "SELECT id, name, hash, scopes, created_by, created_at, expires_at, revoked_at, last_used_at FROM api_keys"

_log = logging.getLogger(__name__)


class SqlApiKeyRepository:
    """ApiKeyRepository; each change adds an entry to the audit chain in its transaction."""

    def __init__(self, database: Database, chain: ChainWriter) -> None:
        self._database = database
        self._chain = chain
        self._noted: dict[str, float] = {}
        """When the use of each key was last written down by this process."""

    async def find(self, key_id: str) -> ApiKey | None:
        return await self._database.read_briefly(lambda connection: _find(connection, key_id))

    async def list(self) -> Sequence[ApiKey]:
        query = f"{_SELECT} ORDER BY created_at DESC, id"
        return await self._database.read(lambda connection: [_key(row) for row in connection.execute(query)])

    async def add(self, key: ApiKey, *, act: Act | None) -> None:
        def write(connection: SqlConnection) -> None:
            if _live(connection, key.name, key.created_at) is not None:
                raise NameTaken(
                    f"There is a live key {key.name!r} already",
                    hint=f"Choose another name, or revoke it first: fabric keys revoke {key.name}",
                )
            connection.execute(
                "INSERT INTO api_keys (id, name, hash, scopes, created_by, created_at, expires_at) "
                "VALUES (?, ?, ?, ?, ?, ?, ?)",
                (
                    key.id,
                    key.name,
                    key.hash,
                    dump_json(sorted(key.scopes)).decode(),
                    key.created_by,
                    key.created_at,
                    key.expires_at,
                ),
            )
            add_act(connection, self._chain, act)

        await self._database.write(write)

    async def revoke(self, which: str, *, at: float, act: Act | None) -> ApiKey:
        def write(connection: SqlConnection) -> ApiKey:
            key = _find(connection, which) or _live(connection, which, at)
            if key is None:
                raise AccountNotFound(
                    f"There is no key with the id, and no live one with the name, {which[:80]!r}",
                    hint="See them with: fabric keys list",
                )
            connection.execute("UPDATE api_keys SET revoked_at = ? WHERE id = ? AND revoked_at IS NULL", (at, key.id))
            if act is not None and key.revoked_at is None:
                add_act(connection, self._chain, replace(act, about=key.title))
            return _find(connection, key.id) or key

        return await self._database.write(write)

    def note_use(self, key_id: str, *, at: float) -> None:
        if abs(at - self._noted.get(key_id, float("-inf"))) < USE_NOTED_EVERY_S:
            return
        self._noted[key_id] = at
        query = "UPDATE api_keys SET last_used_at = ? WHERE id = ?"
        written = self._database.write(lambda connection: connection.execute(query, (at, key_id)).fetchall())
        written.add_done_callback(_look_at)


def _look_at(written: "asyncio.Future[Any]") -> None:
    if not written.cancelled() and (problem := written.exception()) is not None:
        _log.warning("The use of an API key could not be written down: %s", problem)


def _find(connection: SqlConnection, key_id: str) -> ApiKey | None:
    row = connection.execute(f"{_SELECT} WHERE id = ?", (key_id,)).fetchone()
    return None if row is None else _key(row)


def _live(connection: SqlConnection, name: str, now: float) -> ApiKey | None:
    keys = (_key(row) for row in connection.execute(f"{_SELECT} WHERE name = ?", (name,)))
    return next((key for key in keys if key.is_live(now)), None)


def _key(row: Sequence[Any]) -> ApiKey:
    key_id, name, hashed, scopes, created_by, created_at, expires_at, revoked_at, last_used_at = row
    return ApiKey(
        id=key_id,
        name=name,
        hash=hashed,
        scopes=known_scopes(load_json(scopes.encode())),
        created_by=created_by,
        created_at=created_at,
        expires_at=expires_at,
        revoked_at=revoked_at,
        last_used_at=last_used_at,
    )
