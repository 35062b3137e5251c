"""The table of calls of nodes on their way from one server to another."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from agent_fabric.domain.fleet.nodes import NodeId
from agent_fabric.domain.fleet.relayed_calls import RelayedCall
from agent_fabric.infrastructure.persistence.runs.log_writes import OneStatement
from agent_fabric.infrastructure.persistence.sql import Database, storable
from agent_fabric.infrastructure.persistence.table import Table, json_text
from agent_fabric.wire.json_codec import dump_json, load_json

ENDED_S: Final = 150.0
"""A node that was heard of before that has no connection any more; when it was is stored once a minute."""
_WORK: Final = (
    "SELECT agent_id FROM node_commands WHERE status IN ('waiting', 'queued', 'sent') AND status = 'queued'"
    " UNION SELECT agent_id FROM node_calls WHERE answer IS NULL AND expires_at > ?"
    " UNION SELECT id FROM agents WHERE status IN ('revoked', 'conflict') AND last_seen > ?"
)


CALLS: Final = Table("node_calls", RelayedCall, key="id", renamed={"node_id": "agent_id"}, params=json_text())


class SqlCallRelay:
    """CallRelay over the store."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._calls = CALLS.within(database)

    async def ask(self, call: RelayedCall) -> None:
        await self._database.write(OneStatement(*CALLS.statement(call)))

    async def waiting(self, node_id: NodeId, *, at: float) -> Sequence[RelayedCall]:
        rest = "WHERE agent_id = ? AND answer IS NULL AND expires_at > ? ORDER BY created_at, id"
        return await self._calls.rows(rest, node_id, at)

    async def answer(self, call_id: str, answer: Mapping[str, Any]) -> None:
        query = "UPDATE node_calls SET answer = ? WHERE id = ? AND answer IS NULL"
        values = (storable(dump_json(dict(answer)).decode()), call_id)
        await self._database.write(OneStatement(query, values))

    async def take(self, call_id: str) -> Mapping[str, Any] | None:
        query = "SELECT answer FROM node_calls WHERE id = ?"
        row = await self._database.read_briefly(lambda connection: connection.execute(query, (call_id,)).fetchone())
        if row is None or row[0] is None:
            return None
        forget = "DELETE FROM node_calls WHERE id = ?"
        await self._database.write(OneStatement(forget, (call_id,)))
        found: Mapping[str, Any] = load_json(row[0].encode())
        return found

    async def forget(self, *, expired_before: float) -> None:
        query = "DELETE FROM node_calls WHERE expires_at < ?"
        await self._database.write(OneStatement(query, (expired_before,)))


class SqlNodeWork:
    """NodeWork over the store."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def __call__(self, *, at: float) -> Sequence[NodeId]:
        rows = await self._database.read_briefly(
            lambda connection: connection.execute(_WORK, (at, at - ENDED_S)).fetchall()
        )
        return [NodeId(node_id) for (node_id,) in rows]
