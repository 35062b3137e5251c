"""The tables of schedules and of the rules that they had."""

import json
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from agent_fabric.application.ports.automation import EVERY_SCHEDULE, ScheduleQuery
from agent_fabric.domain.approvals.answers import OnDoubt
from agent_fabric.domain.automation.firing import Firing, FiringStatus, Reason, jitter
from agent_fabric.domain.automation.schedule import Misfire, Overlap, Rule, RuleVersion, Schedule, TargetKind
from agent_fabric.domain.errors import NameTaken, ScheduleNotFound
from agent_fabric.infrastructure.persistence.automation.firing_rows import add_firing
from agent_fabric.infrastructure.persistence.sql import Database, SqlConnection, marks, storable
from agent_fabric.wire.json_codec import dump_json, load_json

_RULE = tuple(field.name for field in fields(Rule))
_OWN = tuple(field.name for field in fields(Schedule) if field.name != "rule")
_COLUMN_NAMES = (*_OWN, *_RULE, "look_at")
COLUMNS = ", ".join(_COLUMN_NAMES)
_LITERAL = str.maketrans({each: f"!{each}" for each in "!%_"})
"""What means itself in a pattern."""


class SqlScheduleRepository:
    """ScheduleRepository over the database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, schedule: Schedule, *, by: str) -> None:
        values = _values(schedule)
        query = (
            f"INSERT INTO schedules ({COLUMNS}) VALUES ({', '.join('?' * len(values))})"  # noqa: S608 - ours
            " ON CONFLICT (name) DO NOTHING RETURNING 1"
        )

        def write(connection: SqlConnection) -> bool:
            added = connection.execute(query, values).fetchall()
            if added:
                add_version(connection, schedule.name, version_of(schedule, schedule.created_at, by))
            return bool(added)

        if not await self._database.write(write):
            raise NameTaken(
                f"There is a schedule {schedule.name!r} already", hint="Change it with `fabric schedules set`."
            )

    async def find(self, name: str) -> Schedule:
        query = f"SELECT {COLUMNS} FROM schedules WHERE name = ? OR id = ?"  # noqa: S608 - ours
        row = await self._database.read(
            lambda connection: connection.execute(query, (storable(name), storable(name))).fetchone()
        )
        if row is None:
            raise ScheduleNotFound(f"There is no schedule {name!r}", hint="See them with `fabric schedules list`.")
        return schedule_from(row)

    async def list(self, wanted: ScheduleQuery = EVERY_SCHEDULE) -> Sequence[Schedule]:
        where, values = _conditions(wanted)
        query = f"SELECT {COLUMNS} FROM schedules{where} ORDER BY name"  # noqa: S608 - ours
        if wanted.limit is not None:
            query, values = f"{query} LIMIT ?", [*values, wanted.limit]
        rows = await self._database.read(lambda connection: connection.execute(query, values).fetchall())
        return [schedule_from(row) for row in rows]

    async def change(self, old: Schedule, new: Schedule, *, by: str, now: float) -> bool:
        values = _values(new)
        query = (
            f"UPDATE schedules SET {', '.join(f'{name} = ?' for name in _COLUMN_NAMES)}, failures = 0"  # noqa: S608 - ours
            " WHERE id = ? AND revision = ? RETURNING 1"
        )

        def write(connection: SqlConnection) -> bool:
            pending = _pending(connection, old, now)
            if not connection.execute(query, (*values, old.id, old.revision)).fetchall():
                return False
            _skip_pending(connection, old, pending, new, by=by, now=now)
            add_version(connection, new.name, version_of(new, now, by))
            return True

        return await self._database.write(write)

    async def remove(self, schedule: Schedule, *, by: str, now: float) -> None:
        last = RuleVersion(
            since=now,
            revision=schedule.revision + 1,
            rule=schedule.rule,
            is_active=False,
            changed_by=by,
            removed=True,
        )

        def write(connection: SqlConnection) -> None:
            connection.execute("DELETE FROM schedules WHERE id = ?", (schedule.id,))
            connection.execute(
                "UPDATE firings SET status = 'skipped', reason = ?, about = ?, fired_at = ?"
                " WHERE trigger_name = ? AND status = 'queued'",
                (Reason.CHANGED, storable(by), now, storable(schedule.name)),
            )
            add_version(connection, schedule.name, last)

        await self._database.write(write)


def _conditions(wanted: ScheduleQuery) -> tuple[str, list[Any]]:
    """Return which rows a query is about, and its values."""
    found: list[str] = ["source <> ''"] if wanted.declared else []
    values: list[Any] = []
    if wanted.owners is not None:
        found.append(f"owner IN ({marks(wanted.owners)})" if wanted.owners else "1 = 0")
        values += map(storable, wanted.owners)
    if wanted.after:
        found.append("name > ?")
        values.append(storable(wanted.after))
    if wanted.words:
        sought = storable(wanted.words).lower().translate(_LITERAL)
        found.append("lower(name || ' ' || target || ' ' || task_instruction) LIKE ? ESCAPE '!'")
        values.append(f"%{sought}%")
    return f" WHERE {' AND '.join(found)}" if found else "", values


def _pending(connection: SqlConnection, schedule: Schedule, now: float) -> float | None:
    """Return what was due and is not fired yet."""
    row = connection.execute("SELECT next_at FROM schedules WHERE id = ?", (schedule.id,)).fetchone()
    return None if row is None or row[0] is None or row[0] > now else float(row[0])


def _skip_pending(
    connection: SqlConnection, old: Schedule, pending: float | None, new: Schedule, *, by: str, now: float
) -> None:
    if pending is None:
        return
    reason = Reason.CHANGED if new.is_active else Reason.PAUSED
    skipped = Firing(
        trigger=old.name,
        due_at=pending,
        until_at=max(pending, now),
        count=1,
        status=FiringStatus.SKIPPED,
        reason=reason,
        fired_at=now,
        about=by,
        revision=old.revision,
    )
    add_firing(connection, skipped)


def version_of(schedule: Schedule, since: float, by: str) -> RuleVersion:
    """Return the rule that a schedule has from some time on."""
    return RuleVersion(
        since=since,
        revision=schedule.revision,
        rule=schedule.rule,
        is_active=schedule.is_active,
        changed_by=by,
    )


def add_version(connection: SqlConnection, name: str, version: RuleVersion) -> None:
    """Keep a rule, in the caller's transaction."""
    rule = dump_json({key: getattr(version.rule, key) for key in _RULE})
    connection.execute(
        "INSERT INTO schedule_versions (name, revision, since, rule, is_active, changed_by, removed)"
        " VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
        (
            storable(name),
            version.revision,
            version.since,
            rule,
            int(version.is_active),
            storable(version.changed_by),
            int(version.removed),
        ),
    )


def versions_of(connection: SqlConnection, name: str) -> list[RuleVersion]:
    """Return the rules of a schedule, oldest first."""
    query = (
        "SELECT since, revision, rule, is_active, changed_by, removed FROM schedule_versions"
        " WHERE name = ? ORDER BY since, revision"
    )
    return [
        RuleVersion(
            since=float(since),
            revision=int(revision),
            rule=Rule(**load_json(rule)),
            is_active=bool(active),
            changed_by=str(by),
            removed=bool(removed),
        )
        for since, revision, rule, active, by, removed in connection.execute(query, (storable(name),))
    ]


def look_at(schedule: Schedule) -> float | None:
    """Return when a schedule is looked at: when it is due, and a little later with jitter."""
    due = schedule.next_at
    return None if due is None else due + jitter(schedule.name, due, schedule.jitter_s)


def _values(schedule: Schedule) -> tuple[Any, ...]:
    stored = {name: getattr(schedule, name) for name in _OWN} | {name: getattr(schedule.rule, name) for name in _RULE}
    stored |= {
        "inputs": dump_json(dict(schedule.inputs)),
        "user_scopes": json.dumps(list(schedule.user_scopes)),
        "look_at": look_at(schedule),
    }
    return tuple(_plain(stored[name]) for name in _COLUMN_NAMES)


def _plain(value: Any) -> Any:
    if isinstance(value, bool):
        return int(value)
    return storable(str(value)) if isinstance(value, str) else value


def schedule_from(row: Sequence[Any]) -> Schedule:
    """Return the schedule of a row with `COLUMNS`."""
    stored = dict(zip(_COLUMN_NAMES, row, strict=True))
    own: dict[str, Any] = {name: stored[name] for name in _OWN}
    own |= {
        "target_kind": TargetKind(own["target_kind"]),
        "misfire": Misfire(own["misfire"]),
        "overlap": Overlap(own["overlap"]),
        "on_doubt": OnDoubt(own["on_doubt"]),
        "inputs": load_json(own["inputs"]),
        "user_scopes": tuple(json.loads(own["user_scopes"])),
        "is_active": bool(own["is_active"]),
        "use_persistent_chat": bool(own["use_persistent_chat"]),
    }
    return Schedule(rule=Rule(**{name: stored[name] for name in _RULE}), **own)
