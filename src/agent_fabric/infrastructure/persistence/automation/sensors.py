"""The tables of sensors and of what they have noticed."""

from collections.abc import Sequence
from typing import Any, Final

from agent_fabric.application.ports.automation import NewNoticed, Noticed, SensorState
from agent_fabric.domain.automation.sensing import Look
from agent_fabric.domain.ids import RunId
from agent_fabric.infrastructure.persistence.automation.dead_letters import LetterSeal, add_letter
from agent_fabric.infrastructure.persistence.runs.event_store import SqlRunRepository
from agent_fabric.infrastructure.persistence.sql import Database, SqlConnection, storable
from agent_fabric.infrastructure.persistence.table import Table
from agent_fabric.wire.json_codec import dump_json, load_json

_NOTICED: Final = Table("happenings", Noticed, key="sensor key")


class SqlSensors:
    """SensorStore over the database."""

    def __init__(self, database: Database, runs: SqlRunRepository, seal: LetterSeal) -> None:
        self._database = database
        self._runs = runs
        self._seal = seal

    async def state(self, name: str, known: SensorState | None = None) -> SensorState:
        query = "SELECT name, cursor, revision, looked_at, reason FROM sensors WHERE name = ?"
        current = "SELECT revision FROM sensors WHERE name = ?"
        values = (storable(name),)
        if known is not None and known.revision:  # a cursor may be megabytes
            row = await self._database.read_briefly(lambda connection: connection.execute(current, values).fetchone())
            if row is not None and int(row[0]) == known.revision:
                return known
        row = await self._database.read(lambda connection: connection.execute(query, values).fetchone())
        return SensorState(name=name) if row is None else _state(row)

    async def states(self) -> Sequence[SensorState]:
        query = "SELECT name, NULL, revision, looked_at, reason FROM sensors ORDER BY name"
        rows = await self._database.read(lambda connection: connection.execute(query).fetchall())
        return [_state(row) for row in rows]

    async def commit(
        self, state: SensorState, look: Look, new: Sequence[NewNoticed], *, now: float
    ) -> Sequence[RunId] | None:
        same = look.cursor is state.cursor or look.cursor == state.cursor
        cursor = None if same and state.revision else dump_json(look.cursor)

        def write(connection: SqlConnection) -> list[RunId] | None:
            if not _move(connection, state, cursor, look.reason, now):
                return None
            return [run_id for each in new if (run_id := self._record(connection, each)) is not None]

        return await self._database.write(write)

    def _record(self, connection: SqlConnection, new: NewNoticed) -> RunId | None:
        noticed = new.noticed
        if not _NOTICED.add(connection, noticed):
            return None
        if new.letter is not None:
            add_letter(connection, new.letter, self._seal)
        if noticed.run_id is None or new.created is None:
            return None
        self._runs.create_undriven(connection, noticed.run_id, new.created)
        return noticed.run_id

    async def list_noticed(self, sensor: str, *, limit: int) -> Sequence[Noticed]:
        rest = "WHERE sensor = ? ORDER BY at DESC, key LIMIT ?"
        return await _NOTICED.within(self._database).rows(rest, sensor, limit)

    async def depth_of(self, run_id: RunId) -> int:
        query = "SELECT max(depth) FROM happenings WHERE run_id = ?"
        row = await self._database.read(lambda connection: connection.execute(query, (run_id,)).fetchone())
        return 0 if row is None or row[0] is None else int(row[0])


def _move(connection: SqlConnection, state: SensorState, cursor: bytes | None, reason: str, now: float) -> bool:
    """Note a look; False: another process has looked since."""
    if state.revision == 0:
        query = (
            "INSERT INTO sensors (name, cursor, revision, looked_at, reason) VALUES (?, ?, 1, ?, ?)"
            " ON CONFLICT (name) DO NOTHING RETURNING 1"
        )
        first = dump_json(None) if cursor is None else cursor
        return bool(connection.execute(query, (storable(state.name), first, now, storable(reason))).fetchall())
    moved = "" if cursor is None else " cursor = ?,"
    query = (
        f"UPDATE sensors SET{moved} revision = revision + 1, looked_at = ?, reason = ?"
        " WHERE name = ? AND revision = ? RETURNING 1"
    )
    values: list[Any] = [*(() if cursor is None else (cursor,)), now, storable(reason), storable(state.name)]
    return bool(connection.execute(query, (*values, state.revision)).fetchall())


def _state(row: Sequence[Any]) -> SensorState:
    name, cursor, revision, looked_at, reason = row
    return SensorState(
        name=str(name),
        cursor=None if cursor is None else load_json(cursor),
        revision=int(revision),
        looked_at=float(looked_at),
        reason=str(reason),
    )
