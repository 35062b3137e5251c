"""The table of plans."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any, Final

from agent_fabric.domain.fleet.plans import OnOffline, Plan, PlannedCall, PlanStatus
from agent_fabric.infrastructure.persistence.sql import Database
from agent_fabric.infrastructure.persistence.table import Table, json_text
from agent_fabric.wire.json_codec import dump_json

_OWN: Final = ("id", "name", "status", "created_by", "approver", "run_id", "created_at", "updated_at")
"""Fields that have a column; the others are in `definition`, and these in `progress`:"""
_PROGRESS: Final = ("wave", "note", "outcomes", "signatures", "online", "away")
_KNOWN: Final = frozenset(each.name for each in fields(Plan))
_CHANGING: Final = ("status", "approver", "run_id", "updated_at", "progress")


def _plan(definition: Mapping[str, Any], progress: Mapping[str, Any], **own: Any) -> Plan:
    values = {**own, **definition, **progress}
    for name in ("signatures", "online", "online_when_frozen"):
        values[name] = tuple(values.get(name, ()))
    values["calls"] = tuple(PlannedCall(**each) for each in values["calls"])
    values["status"], values["on_offline"] = PlanStatus(values["status"]), OnOffline(values["on_offline"])
    return Plan(**{name: value for name, value in values.items() if name in _KNOWN})


def _split(plan: Plan) -> Mapping[str, Any]:
    rest = {name: value for name, value in asdict(plan).items() if name not in _PROGRESS}
    own = {name: rest.pop(name) for name in _OWN}
    return {**own, "hash": plan.hash, "definition": rest, "progress": _progress(plan)}


PLANS: Final = Table(
    "fleet_plans",
    _plan,
    key="id",
    columns=f"{' '.join(_OWN)} definition progress",
    split=_split,
    definition=json_text(),
    progress=json_text(save=lambda made: made),
)


class SqlPlanRepository:
    """PlanRepository over the store."""

    def __init__(self, database: Database) -> None:
        self._plans = PLANS.within(database)

    async def save(self, plan: Plan) -> None:
        await self._plans.put(plan, changes=_CHANGING)

    async def replace(self, plan: Plan, *, before: Plan) -> bool:
        changes = {"progress": _progress(plan), **{name: getattr(plan, name) for name in _CHANGING[:-1]}}
        was = (before.status, dump_json(_progress(before)).decode())
        return bool(await self._plans.update(changes, "id = ? AND status = ? AND progress = ?", plan.id, *was))

    async def find(self, plan_id: str) -> Plan | None:
        return await self._plans.find("id = ?", plan_id)

    async def list(self, *, open_only: bool = False, limit: int = 100) -> Sequence[Plan]:
        condition = "status IN ('waiting', 'running', 'halted')" if open_only else "1 = 1"
        return await self._plans.rows(f"WHERE {condition} ORDER BY created_at DESC, id LIMIT ?", limit)


def _progress(plan: Plan) -> Mapping[str, Any]:
    values = {"wave": plan.wave, "note": plan.note, "outcomes": dict(plan.outcomes)}
    signed = {"signatures": [dict(each) for each in plan.signatures]} if plan.signatures else {}
    seen = {"online": list(plan.online)} if plan.online else {}
    waits = {"away": dict(plan.away)} if plan.away else {}
    return {**values, **signed, **seen, **waits}
