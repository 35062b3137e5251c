"""The tables of commands for nodes, of which `audit_log` is a view, and of calls on their way between servers."""

import asyncio
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Generic, TypeVar

from agent_fabric.domain.fleet.commands import CommandStatus, NodeCommand, RelayedCall
from agent_fabric.domain.fleet.nodes import NodeId
from agent_fabric.infrastructure.persistence.runs.log_writes import OfOneRun
from agent_fabric.infrastructure.persistence.sql import Database, OneStatement, SqlConnection, marks, storable
from agent_fabric.infrastructure.persistence.table import Codec, Table, fetch_briefly, json_text, matching
from agent_fabric.wire.json_codec import dump_json, load_json

R = TypeVar("R")
T = TypeVar("T")


class RowBatches(Generic[R, T]):
    """Rows that many callers write with the same statement: one statement for all that have come until it runs.

    The writer groups transactions, but every statement inside one still costs two changes of the interpreter's lock,
    and each of them takes milliseconds while the event loop is busy. A thousand machines that answer within a second
    would wait for that, and not for the disk.
    """

    def __init__(
        self, database: Database, write: Callable[[SqlConnection, Sequence[R]], Sequence[T]], *, most: int
    ) -> None:
        """`write` writes up to `most` rows and returns one value for each; it may be called again with the same.

        It must not matter what other processes write at the same time.
        """
        self._database = database
        self._write = write
        self._most = most
        self._guard = threading.Lock()
        """Protects the field below: rows come on the event loop and are taken on the writer's thread."""
        self._waiting: list[tuple[Sequence[R], asyncio.Future[list[T]]]] = []

    def put(self, rows: Sequence[R]) -> "asyncio.Future[list[T]]":
        """Write rows; the future is done once they are durable. It fails as `Database.write` does."""
        future: asyncio.Future[list[T]] = asyncio.get_running_loop().create_future()
        with self._guard:
            is_first = not self._waiting
            self._waiting.append((rows, future))
        if is_first:
            self._begin()
        return future

    def _begin(self) -> None:
        """Ask for a transaction; what it writes is decided when it begins."""
        taken: list[tuple[Sequence[R], asyncio.Future[list[T]]]] = []

        def write(connection: SqlConnection) -> list[T]:
            if not taken:  # else it is tried again, and has to be the same
                taken.extend(self._take())
            rows = [row for each, _ in taken for row in each]
            parts = [rows[start : start + self._most] for start in range(0, len(rows), self._most)]
            return [value for part in parts for value in self._write(connection, part)]

        def tell(written: "asyncio.Future[list[T]]") -> None:
            problem = None if written.cancelled() else written.exception()
            told = taken or self._take()  # it failed before it could begin
            values = iter(written.result() if problem is None and not written.cancelled() else ())
            for rows, future in told:
                own = [value for _, value in zip(rows, values, strict=False)]
                if future.done():
                    continue
                if problem is not None:
                    future.set_exception(problem)
                elif written.cancelled():
                    future.cancel()
                else:
                    future.set_result(own)

        self._database.write(OfOneRun(write)).add_done_callback(tell)

    def _take(self) -> list[tuple[Sequence[R], "asyncio.Future[list[T]]"]]:
        with self._guard:
            taken, self._waiting = self._waiting, []
        return taken


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
        row = await fetch_briefly(self._database, query, call_id)
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


_LIST: Final = json_text(tuple, list)
COMMANDS: Final = Table(
    "node_commands",
    NodeCommand,
    key="execution_id",
    columns="execution_id agent_id tool_name arguments status created_at expires_at policy_version bound_hash args_hash"
    " requested_by approver rule run_id plan_id signatures result completed_at",
    arguments=json_text(),
    signatures=_LIST,
    result=json_text(),
    status=Codec(CommandStatus),
)
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
        self._commands = COMMANDS.within(database)
        self._added: RowBatches[list[Any], None] = RowBatches(database, _add, most=_MAX_ADDED)
        self._finished: RowBatches[_Finished, NodeCommand | None] = RowBatches(database, _finish, most=_MAX_FINISHED)

    async def add(self, *commands: NodeCommand) -> None:
        await self._added.put([[*COMMANDS.values(each).values()] for each in commands])

    async def find(self, execution_id: str) -> NodeCommand | None:
        return await self._commands.find("execution_id = ?", execution_id)

    async def list(
        self, node_id: NodeId | None = None, *, open_only: bool = False, run_id: str = "", limit: int = 100
    ) -> Sequence[NodeCommand]:
        where = matching(agent_id=node_id, run_id=run_id)
        narrow = (" AND run_id <> ''" if run_id else "") + (
            f" AND {_OPEN}" if open_only else ""
        )  # as the indexes have it
        return await self._commands.rows(
            f"WHERE {where.sql}{narrow} ORDER BY created_at DESC, execution_id LIMIT ?", *where.values, limit
        )

    async def due(self, node_id: NodeId, statuses: Sequence[CommandStatus]) -> Sequence[NodeCommand]:
        rest = f"WHERE agent_id = ? AND {_OPEN} AND status IN ({marks(statuses)}) ORDER BY created_at, execution_id"
        return await self._commands.rows(rest, node_id, *statuses)

    async def move(
        self, execution_id: str, status: CommandStatus, *, since: Sequence[CommandStatus], at: float, **more: Any
    ) -> NodeCommand | None:
        changes: dict[str, Any] = {"status": status, **more}
        if status.settled:
            changes["completed_at"] = at
        query, values = COMMANDS.updating(
            changes, f"execution_id = ? AND status IN ({marks(since)})", execution_id, *since
        )
        row = await self._database.write(OfOneRun(lambda connection: connection.execute(query, values).fetchone()))
        return None if row is None else COMMANDS.load(row)

    async def finish(
        self, execution_id: str, node_id: NodeId, status: CommandStatus, result: Mapping[str, Any], *, at: float
    ) -> NodeCommand | None:
        told = COMMANDS.encode({"execution_id": execution_id, "status": status, "result": result})
        row = (told["execution_id"], node_id, told["status"], told["result"], at)
        return (await self._finished.put([row]))[0]


def _add(connection: SqlConnection, rows: Sequence[list[Any]]) -> list[None]:
    query = (
        f"INSERT INTO node_commands ({COMMANDS.names})"  # noqa: S608
        f" VALUES {', '.join([f'({marks(COMMANDS.columns)})'] * len(rows))} ON CONFLICT (execution_id) DO NOTHING"
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
        f" RETURNING {COMMANDS.names}"
    )
    found = connection.execute(query, [value for row in first.values() for value in row]).fetchall()
    ended = {(each.execution_id, each.agent_id): each for each in map(COMMANDS.load, found)}
    return [ended.pop((row[0], NodeId(row[1])), None) for row in rows]
