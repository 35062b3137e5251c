"""What people do to the fabric folder itself, as entries of the audit chain."""

import json
from collections.abc import Sequence
from dataclasses import asdict, fields
from typing import Any

from agent_fabric.domain.audit.acts import Act
from agent_fabric.infrastructure.persistence.audit.chain_writer import ADMIN, ChainWriter, Sealed
from agent_fabric.infrastructure.persistence.sql import Database, SqlConnection

_TEXTS = tuple(field.name for field in fields(Act) if field.name != "at")


class SqlActLog:
    """ActLog over the store."""

    def __init__(self, database: Database, chain: ChainWriter) -> None:
        self._database = database
        self._chain = chain

    async def record(self, act: Act) -> None:
        await self._database.write(lambda connection: add_act(connection, self._chain, act))

    async def recent(self, *, limit: int) -> Sequence[Act]:
        query = "SELECT at, note FROM audit_chain WHERE kind = ? ORDER BY position DESC LIMIT ?"
        return await self._database.read(
            lambda connection: [_act(at, note) for at, note in connection.execute(query, (ADMIN, limit))]
        )


def add_act(connection: SqlConnection, chain: ChainWriter, act: Act | None) -> None:
    """Record an act in the caller's transaction: it is recorded if, and only if, what was done is."""
    if act is not None:
        texts = {name: text for name, text in asdict(act).items() if name in _TEXTS and text}
        chain.seal(connection, Sealed(act.at, ADMIN, 0, "", 0, b"", json.dumps(texts)))


def _act(at: float, note: str) -> Act:
    """Return what an entry says; whether it is true is for the check of the chain to tell."""
    try:
        found: Any = json.loads(note)
        texts = {name: str(found.get(name, "")) for name in _TEXTS}
    except (ValueError, AttributeError, RecursionError):
        texts = {**dict.fromkeys(_TEXTS, ""), "detail": note}
    return Act(at=at, **texts)
