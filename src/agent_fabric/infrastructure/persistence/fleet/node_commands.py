"""The table of commands for nodes; `audit_log` is a view of it."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from agent_fabric.domain.fleet.commands import CommandStatus, NodeCommand
from agent_fabric.domain.fleet.nodes import NodeId
from agent_fabric.infrastructure.persistence.row_batches import RowBatches
from agent_fabric.infrastructure.persistence.runs.log_writes import OfOneRun
from agent_fabric.infrastructure.persistence.sql import Database, SqlConnection, marks, storable
from agent_fabric.wire.json_codec import dump_json, load_json

_COLUMNS: Final = (
    *("execution_id", "agent_id", "tool_name", "arguments", "status", "created_at", "expires_at", "policy_version"),
    *("bound_hash", "args_hash", "requested_by", "approver", "rule", "run_id", "plan_id", "signatures", "result"),
    "completed_at",
)
_JSON: Final = frozenset({"arguments", "signatures", "result"})
_SELECT: Final = f"SELECT {', '.join(_COLUMNS)} FROM node_commands"  # noqa: S608 - names of ours, here and below
_OPEN: Final = "status IN ('waiting', 'queued', 'sent')"
"""As the partial index has it: with placeholders the database would not know that it may use it."""
_MAX_ADDED: Final = 100
_MAX_FINISHED: Final = 200
"""Rows of one statement; both databases limit its placeholders."""
_Finished = tuple[str, str, str, str, float]
"""Execution id, node, status, result and time of a command."""


class SqlCommandRepository:
    """CommandRepository over the store."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._added: RowBatches[list[Any], None] = RowBatches(database, _add, most=_MAX_ADDED)
        self._finished: RowBatches[_Finished, NodeCommand | None] = RowBatches(database, _finish, most=_MAX_FINISHED)

    async def add(self, *commands: NodeCommand) -> None:
        await self._added.put([[_stored(name, getattr(each, name)) for name in _COLUMNS] for each in commands])

    async def find(self, execution_id: str) -> NodeCommand | None:
        query = f"{_SELECT} WHERE execution_id = ?"
        row = await self._database.read_briefly(
            lambda connection: connection.execute(query, (storable(execution_id),)).fetchone()
        )
        return None if row is None else _command(row)

    async def list(
        self, node_id: NodeId | None = None, *, open_only: bool = False, run_id: str = "", limit: int = 100
    ) -> Sequence[NodeCommand]:
        conditions, values = ["1 = 1"], list[Any]()
        if node_id is not None:
            conditions.append("agent_id = ?")
            values.append(node_id)
        if run_id:
            conditions.append("run_id = ? AND run_id <> ''")  # as the index has it
            values.append(storable(run_id))
        if open_only:
            conditions.append(_OPEN)
        query = f"{_SELECT} WHERE {' AND '.join(conditions)} ORDER BY created_at DESC, execution_id LIMIT ?"
        return await self._database.read(
            lambda connection: [_command(row) for row in connection.execute(query, (*values, limit))]
        )

    async def due(self, node_id: NodeId, statuses: Sequence[CommandStatus]) -> Sequence[NodeCommand]:
        query = (
            f"{_SELECT} WHERE agent_id = ? AND {_OPEN} AND status IN ({marks(statuses)})"
            " ORDER BY created_at, execution_id"
        )
        return await self._database.read(
            lambda connection: [_command(row) for row in connection.execute(query, (node_id, *statuses))]
        )

    async def move(
        self, execution_id: str, status: CommandStatus, *, since: Sequence[CommandStatus], at: float, **more: Any
    ) -> NodeCommand | None:
        changes: dict[str, Any] = {"status": status, **more}
        if status.settled:
            changes["completed_at"] = at
        assigned = ", ".join(f"{name} = ?" for name in changes)
        query = (
            f"UPDATE node_commands SET {assigned} WHERE execution_id = ? AND status IN ({marks(since)})"  # noqa: S608
            f" RETURNING {', '.join(_COLUMNS)}"
        )
        values = (*(_stored(name, value) for name, value in changes.items()), execution_id, *since)

        row = await self._database.write(OfOneRun(lambda connection: connection.execute(query, values).fetchone()))
        return None if row is None else _command(row)

    async def finish(
        self, execution_id: str, node_id: NodeId, status: CommandStatus, result: Mapping[str, Any], *, at: float
    ) -> NodeCommand | None:
        row = (storable(execution_id), node_id, status.value, _stored("result", dict(result)), at)
        return (await self._finished.put([row]))[0]


def _add(connection: SqlConnection, rows: Sequence[list[Any]]) -> list[None]:
    query = (
        f"INSERT INTO node_commands ({', '.join(_COLUMNS)})"  # noqa: S608
        f" VALUES {', '.join([f'({marks(_COLUMNS)})'] * len(rows))} ON CONFLICT (execution_id) DO NOTHING"
    )
    connection.execute(query, [value for row in rows for value in row]).fetchall()
    return [None] * len(rows)


def _finish(connection: SqlConnection, rows: Sequence[_Finished]) -> list[NodeCommand | None]:
    """Keep results; the first one of each command counts, also of two in the same statement."""
    first = {row[:2]: row for row in reversed(rows)}  # any node may name any command
    query = (
        "UPDATE node_commands SET status = told.column3, result = told.column4,"  # noqa: S608
        " completed_at = CAST(told.column5 AS DOUBLE PRECISION)"
        f" FROM (VALUES {', '.join(['(?, ?, ?, ?, ?)'] * len(first))}) AS told"
        " WHERE execution_id = told.column1 AND agent_id = told.column2 AND status IN ('sent', 'queued')"
        f" RETURNING {', '.join(_COLUMNS)}"
    )
    found = connection.execute(query, [value for row in first.values() for value in row]).fetchall()
    ended = {(each.execution_id, each.agent_id): each for each in map(_command, found)}
    return [ended.pop((row[0], NodeId(row[1])), None) for row in rows]


def _stored(name: str, value: Any) -> Any:
    if name in _JSON:
        return (
            None if value is None else storable(dump_json(list(value) if isinstance(value, tuple) else value).decode())
        )
    return storable(value) if isinstance(value, str) else value


def _command(row: Sequence[Any]) -> NodeCommand:
    values = dict(zip(_COLUMNS, row, strict=True))
    for name in _JSON:
        values[name] = None if values[name] is None else load_json(values[name].encode())
    values["signatures"] = tuple(values["signatures"] or ())
    values["status"] = CommandStatus(values["status"])
    return NodeCommand(**values)
