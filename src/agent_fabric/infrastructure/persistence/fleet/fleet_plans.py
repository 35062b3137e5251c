"""The table of plans."""

from collections.abc import Sequence
from dataclasses import asdict, fields
from typing import Any, Final

from agent_fabric.domain.fleet.plans import OnOffline, Plan, PlannedCall, PlanStatus
from agent_fabric.infrastructure.persistence.sql import Database, marks, storable
from agent_fabric.wire.json_codec import dump_json, load_json

_PROGRESS: Final = ("wave", "note", "outcomes", "signatures", "online", "away")
_COLUMNS: Final = ("id", "name", "status", "created_by", "approver", "run_id", "created_at", "updated_at")
_SELECT: Final = f"SELECT {', '.join(_COLUMNS)}, definition, progress FROM fleet_plans"  # noqa: S608 - names of ours


class SqlPlanRepository:
    """PlanRepository over the store."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def save(self, plan: Plan) -> None:
        plain = asdict(plan)
        for name in _PROGRESS:
            del plain[name]
        row = {name: plain.pop(name) for name in _COLUMNS}
        names = (*_COLUMNS, "hash", "definition", "progress")
        values = [
            *(storable(value) if isinstance(value, str) else value for value in row.values()),
            plan.hash,
            storable(dump_json(plain).decode()),
            _progress(plan),
        ]
        changed = ", ".join(
            f"{name} = excluded.{name}" for name in ("status", "approver", "run_id", "updated_at", "progress")
        )
        query = (
            f"INSERT INTO fleet_plans ({', '.join(names)}) VALUES ({marks(names)})"  # noqa: S608 - names of ours
            f" ON CONFLICT (id) DO UPDATE SET {changed}"
        )
        await self._database.write(lambda connection: connection.execute(query, values).fetchall())

    async def replace(self, plan: Plan, *, before: Plan) -> bool:
        query = (
            "UPDATE fleet_plans SET status = ?, approver = ?, run_id = ?, updated_at = ?, progress = ?"
            " WHERE id = ? AND status = ? AND progress = ? RETURNING id"
        )
        values = (
            *(plan.status, storable(plan.approver), storable(plan.run_id), plan.updated_at, _progress(plan)),
            *(plan.id, before.status, _progress(before)),
        )
        rows = await self._database.write(lambda connection: connection.execute(query, values).fetchall())
        return bool(rows)

    async def find(self, plan_id: str) -> Plan | None:
        query = f"{_SELECT} WHERE id = ?"
        row = await self._database.read_briefly(
            lambda connection: connection.execute(query, (storable(plan_id),)).fetchone()
        )
        return None if row is None else _plan(row)

    async def list(self, *, open_only: bool = False, limit: int = 100) -> Sequence[Plan]:
        condition = "status IN ('waiting', 'running', 'halted')" if open_only else "1 = 1"
        query = f"{_SELECT} WHERE {condition} ORDER BY created_at DESC, id LIMIT ?"
        return await self._database.read(lambda connection: [_plan(row) for row in connection.execute(query, (limit,))])


def _progress(plan: Plan) -> str:
    values = {"wave": plan.wave, "note": plan.note, "outcomes": dict(plan.outcomes)}
    signed = {"signatures": [dict(each) for each in plan.signatures]} if plan.signatures else {}
    seen = {"online": list(plan.online)} if plan.online else {}
    waits = {"away": dict(plan.away)} if plan.away else {}
    return storable(dump_json({**values, **signed, **seen, **waits}).decode())


def _plan(row: Sequence[Any]) -> Plan:
    *columns, definition, progress = row
    values = {
        **dict(zip(_COLUMNS, columns, strict=True)),
        **load_json(definition.encode()),
        **load_json(progress.encode()),
    }
    known = {each.name for each in fields(Plan)}
    values["signatures"] = tuple(values.get("signatures", ()))
    for name in ("online", "online_when_frozen"):
        values[name] = tuple(values.get(name, ()))
    values["calls"] = tuple(PlannedCall(**each) for each in values["calls"])
    values["status"], values["on_offline"] = PlanStatus(values["status"]), OnOffline(values["on_offline"])
    return Plan(**{name: value for name, value in values.items() if name in known})
