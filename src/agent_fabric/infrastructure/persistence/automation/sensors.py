"""The tables of sensors and of what they have noticed."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from agent_fabric.application.ports.automation import NewNoticed, Noticed, SensorState
from agent_fabric.domain.automation.sensing import Look
from agent_fabric.domain.ids import RunId
from agent_fabric.infrastructure.persistence.automation.dead_letters import LetterSeal, Runs, add_letter
from agent_fabric.infrastructure.persistence.sql import Database, SqlConnection
from agent_fabric.infrastructure.persistence.table import Codec, Table, fetch, fetch_briefly
from agent_fabric.wire.json_codec import dump_json, load_json

_NOTICED: Final = Table("happenings", Noticed, key="sensor key")
_SENSORS: Final = Table("sensors", SensorState, key="name", cursor=Codec(load_json))
"""Cursors are given as they are stored: only those that have changed are made anew."""


class SqlSensors:
    """SensorStore over the database."""

    def __init__(self, database: Database, runs: Runs, seal: LetterSeal) -> None:
        self._database = database
        self._runs = runs
        self._seal = seal

    async def state(self, name: str, known: SensorState | None = None) -> SensorState:
        current = "SELECT revision FROM sensors WHERE name = ?"
        if known is not None and known.revision:  # a cursor may be megabytes
            row = await fetch_briefly(self._database, current, name)
            if row is not None and int(row[0]) == known.revision:
                return known
        found = await _SENSORS.within(self._database).rows("WHERE name = ?", name)
        return found[0] if found else SensorState(name=name)

    async def states(self) -> Sequence[SensorState]:
        query = "SELECT name, NULL, revision, looked_at, reason FROM sensors ORDER BY name"
        return [*map(_SENSORS.load, await fetch(self._database, query))]

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
        self._runs().create_undriven(connection, noticed.run_id, new.created)
        return noticed.run_id

    async def list_noticed(self, sensor: str, *, limit: int) -> Sequence[Noticed]:
        rest = "WHERE sensor = ? ORDER BY at DESC, key LIMIT ?"
        return await _NOTICED.within(self._database).rows(rest, sensor, limit)

    async def depth_of(self, run_id: RunId) -> int:
        ((depth,),) = await fetch(self._database, "SELECT max(depth) FROM happenings WHERE run_id = ?", run_id)
        return depth or 0


def _move(connection: SqlConnection, state: SensorState, cursor: bytes | None, reason: str, now: float) -> bool:
    """Note a look; False: another process has looked since."""
    noted = {"looked_at": now, "reason": reason, **({} if cursor is None else {"cursor": cursor})}
    if state.revision == 0:
        return _SENSORS.add(connection, replace(state, revision=1), **{"cursor": dump_json(None), **noted})
    noted["revision"] = state.revision + 1
    return bool(_SENSORS.update(connection, noted, "name = ? AND revision = ?", state.name, state.revision))
