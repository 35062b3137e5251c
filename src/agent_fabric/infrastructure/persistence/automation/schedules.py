"""The tables of schedules and of the rules that they had."""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, Final

from agent_fabric.application.ports.automation import EVERY_SCHEDULE, ScheduleQuery
from agent_fabric.domain.approvals.answers import OnDoubt
from agent_fabric.domain.automation.firing import Firing, FiringStatus, Reason, jitter
from agent_fabric.domain.automation.schedule import Misfire, Overlap, Rule, RuleVersion, Schedule, TargetKind
from agent_fabric.domain.errors import NameTaken, ScheduleNotFound
from agent_fabric.infrastructure.persistence.sql import Database, SqlConnection, marks, storable
from agent_fabric.infrastructure.persistence.table import FLAG, Codec, Table, json_bytes, json_text
from agent_fabric.wire.json_codec import dump_json, load_json

_RULE: Final = tuple(field.name for field in fields(Rule))
_OWN: Final = tuple(field.name for field in fields(Schedule) if field.name != "rule")


def _schedule(**stored: Any) -> Schedule:
    return Schedule(rule=Rule(**{name: stored.pop(name) for name in _RULE}), **stored)


def _split(schedule: Schedule) -> Mapping[str, Any]:
    due = schedule.next_at
    own = {name: getattr(schedule, name) for name in _OWN} | {name: getattr(schedule.rule, name) for name in _RULE}
    # It is looked at when it is due, and a little later with jitter.
    return own | {"look_at": None if due is None else due + jitter(schedule.name, due, schedule.jitter_s)}


SCHEDULES: Final = Table(
    "schedules",
    _schedule,
    key="id",
    columns=" ".join((*_OWN, *_RULE)),
    split=_split,
    target_kind=Codec(TargetKind),
    misfire=Codec(Misfire),
    overlap=Codec(Overlap),
    on_doubt=Codec(OnDoubt),
    inputs=json_bytes(),
    user_scopes=json_text(tuple, list),
    is_active=FLAG,
    use_persistent_chat=FLAG,
    require_proof=FLAG,
)
FIRINGS: Final = Table(
    "firings",
    Firing,
    key="trigger_name due_at",
    renamed={"trigger": "trigger_name"},
    status=Codec(FiringStatus),
    reason=Codec(Reason),
)
_VERSIONS: Final = Table(
    "schedule_versions",
    RuleVersion,
    key="name since revision",
    rule=Codec(
        lambda stored: Rule(**load_json(stored)), lambda rule: dump_json({key: getattr(rule, key) for key in _RULE})
    ),
    is_active=FLAG,
    removed=FLAG,
)
_LITERAL = str.maketrans({each: f"!{each}" for each in "!%_"})
"""What means itself in a pattern."""


class SqlScheduleRepository:
    """ScheduleRepository over the database."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._schedules = SCHEDULES.within(database)

    async def add(self, schedule: Schedule, *, by: str) -> None:
        def write(connection: SqlConnection) -> bool:
            added = SCHEDULES.add(connection, schedule)
            if added:
                add_version(connection, schedule.name, version_of(schedule, schedule.created_at, by))
            return added

        if not await self._database.write(write):
            raise NameTaken(
                f"There is a schedule {schedule.name!r} already", hint="Change it with `fabric schedules set`."
            )

    async def find(self, name: str) -> Schedule:
        found = await self._schedules.find("name = ? OR id = ?", name, name)
        if found is None:
            raise ScheduleNotFound(f"There is no schedule {name!r}", hint="See them with `fabric schedules list`.")
        return found

    async def list(self, wanted: ScheduleQuery = EVERY_SCHEDULE) -> Sequence[Schedule]:
        where, values = _conditions(wanted)
        limit = "" if wanted.limit is None else f" LIMIT {int(wanted.limit)}"
        return await self._schedules.rows(f"{where} ORDER BY name{limit}", *values)

    async def change(self, old: Schedule, new: Schedule, *, by: str, now: float) -> bool:
        def write(connection: SqlConnection) -> bool:
            pending = _pending(connection, old, now)
            changes = {**_split(new), "failures": 0}
            if not SCHEDULES.update(connection, changes, "id = ? AND revision = ?", old.id, old.revision):
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
    FIRINGS.add(connection, skipped)


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
    _VERSIONS.add(connection, version, name=name)


def versions_of(connection: SqlConnection, name: str) -> list[RuleVersion]:
    """Return the rules of a schedule, oldest first."""
    return _VERSIONS.rows(connection, "WHERE name = ? ORDER BY since, revision", name)
