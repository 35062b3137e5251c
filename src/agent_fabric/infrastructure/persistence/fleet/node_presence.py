"""Which machines are there: when each was last heard of, and which server holds its connection."""

from collections.abc import Collection, Sequence
from typing import Final

from agent_fabric.application.ports.fleet import SeenNode
from agent_fabric.domain.fleet.nodes import NodeId
from agent_fabric.infrastructure.persistence.runs.log_writes import OfOneRun, OneStatement
from agent_fabric.infrastructure.persistence.sql import Database, SqlConnection

_MAX_NOTED: Final = 200
"""Rows of one statement, and of one transaction: commands that come meanwhile wait for no more than that."""


class SqlNodePresence:
    """NodePresence over the store."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def note(self, seen: Sequence[SeenNode], *, held_by: str) -> Collection[NodeId]:
        newest: set[NodeId] = set()
        for start in range(0, len(seen), _MAX_NOTED):
            newest |= await self._note(seen[start : start + _MAX_NOTED], held_by)
        return newest

    async def _note(self, seen: Sequence[SeenNode], held_by: str) -> set[NodeId]:
        query = (
            "UPDATE agents SET status = 'online', last_seen = CAST(told.column3 AS DOUBLE PRECISION), held_by = ?"  # noqa: S608 - ours
            f" FROM (VALUES {', '.join(['(?, ?, ?)'] * len(seen))}) AS told"
            " WHERE id = told.column1 AND generation = CAST(told.column2 AS BIGINT) AND status IN ('online', 'offline')"
            " RETURNING id"
        )
        values = (held_by, *(value for each in seen for value in each))

        def write(connection: SqlConnection) -> set[NodeId]:
            return {NodeId(node_id) for (node_id,) in connection.execute(query, values).fetchall()}

        return await self._database.write(OfOneRun(write))

    async def forget_gone(self) -> None:
        gone = self._database.dialect.is_holder_gone
        query = f"UPDATE agents SET status = 'offline' WHERE status = 'online' AND {gone}"  # noqa: S608 - ours
        await self._database.write(OneStatement(query, ()))
