"""The tables of firings and of the processes that were alive: what was recorded, what a list shows, what is made up.

A firing and its run are written in one transaction, once, however many servers there are.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from agent_fabric.application.ports.automation import AutomationStore, DueLook, DueSchedule, NewFiring, OpenRun, Turn
from agent_fabric.domain.automation.firing import AskedPerson, Firing, FiringStatus, Reason
from agent_fabric.domain.automation.schedule import RuleVersion
from agent_fabric.domain.automation.why import ALIVE_SLACK_S, Life
from agent_fabric.domain.errors import DriverConflict
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.status import RunStatus
from agent_fabric.infrastructure.persistence.automation.dead_letters import LetterSeal, Runs, SqlDeadLetters, add_letter
from agent_fabric.infrastructure.persistence.automation.schedules import (
    FIRINGS,
    SCHEDULES,
    SqlScheduleRepository,
    add_version,
    version_of,
    versions_of,
)
from agent_fabric.infrastructure.persistence.automation.sensors import SqlSensors
from agent_fabric.infrastructure.persistence.automation.subscriptions import SqlSubscriptions
from agent_fabric.infrastructure.persistence.sql import Database, OneStatement, SqlConnection, marks, storable
from agent_fabric.infrastructure.persistence.table import Table, fetch

if TYPE_CHECKING:
    from agent_fabric.domain.events import Event

_MAX_NEAR: Final = 200
KEPT_S: Final = 400 * 86_400.0
"""How long is known who was alive."""
_CHUNK: Final = 500
"""Names in one `IN (…)`."""
_LIVES: Final = Table("firing_processes", Life, key="id", columns="server since until", renamed={"until": "until_at"})


def make_room(connection: SqlConnection, firing: Firing) -> None:
    """Let an instant that was skipped be fired after all; of several that were skipped together, the others stay so."""
    place = (storable(firing.trigger), firing.due_at)
    alone = "trigger_name = ? AND due_at = ? AND status = 'skipped' AND count = 1"
    FIRINGS.delete(connection, alone, *place)
    connection.execute(
        "UPDATE firings SET due_at = due_at + 0.001, count = count - 1"
        " WHERE trigger_name = ? AND due_at = ? AND status = 'skipped' AND count > 1",
        place,
    )


def chunks(names: Sequence[str]) -> Iterable[tuple[str, ...]]:
    """Return names in parts that fit into one query."""
    for start in range(0, len(names), _CHUNK):
        yield tuple(storable(name) for name in names[start : start + _CHUNK])


def count_queued(connection: SqlConnection, triggers: Sequence[str], *, without: str = "-") -> dict[str, int]:
    """Return how many firings of triggers wait, but for those that wait for the reason `without`."""
    found: dict[str, int] = {}
    for names in chunks(triggers):
        query = (
            "SELECT trigger_name, count(*) FROM firings WHERE status = 'queued'"  # noqa: S608 - ours
            f" AND trigger_name IN ({marks(names)}) AND reason <> ? GROUP BY trigger_name"
        )
        rows = connection.execute(query, (*names, without)).fetchall()
        found |= {str(name): int(count) for name, count in rows}
    return found


_QUESTIONS = (
    "WITH RECURSIVE below (trigger_name, run_id, number) AS ("
    "SELECT firings.trigger_name, firings.run_id, runs.number FROM firings"
    " JOIN runs ON runs.run_id = firings.run_id WHERE {top}"
    " UNION ALL SELECT below.trigger_name, below.run_id, runs.number FROM below"
    " JOIN runs ON runs.parent = below.number)"
    " SELECT below.trigger_name, below.run_id, asked.id, asked.created_at, asked.expires_at, asked.decided_at,"
    " asked.decided_by FROM below JOIN pending_approvals AS asked ON asked.run = below.number"
)
_OLDEST_FIRST = " ORDER BY asked.created_at, asked.id"


def _asked_person(row: Sequence[Any]) -> AskedPerson:
    run_id, approval_id, since, expires_at, decided_at, decided_by = row
    at = None if decided_at is None else float(decided_at)
    return AskedPerson(RunId(str(run_id)), str(approval_id), float(since), float(expires_at), at, str(decided_by))


class SqlFirings:
    """FiringHistory, FiringOverview, Backlog and Heartbeats over the database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def firings(self, trigger: str, *, limit: int, before: float | None = None) -> Sequence[Firing]:
        older = "" if before is None else " AND due_at < ?"
        rest = f"WHERE trigger_name = ?{older} ORDER BY due_at DESC LIMIT ?"
        values = (trigger, limit) if before is None else (trigger, before, limit)
        return await FIRINGS.within(self._database).rows(rest, *values)

    async def around(self, trigger: str, at: float, *, within_s: float) -> Sequence[Firing]:
        near = "WHERE trigger_name = ? AND due_at <= ? AND due_at >= ? ORDER BY due_at DESC LIMIT ?"
        # Instants that were skipped together do not overlap: the newest row of several is the one that can reach here.
        reaching = "WHERE trigger_name = ? AND due_at < ? AND until_at > due_at ORDER BY due_at DESC LIMIT 1"

        def read(connection: SqlConnection) -> list[Firing]:
            found = FIRINGS.rows(connection, near, trigger, at, at - within_s, _MAX_NEAR)
            found += FIRINGS.rows(connection, reaching, trigger, at - within_s)
            return [each for each in found if each.until_at >= at - within_s]

        return await self._database.read(read)

    async def fired_within(self, trigger: str, since: float, until: float) -> Sequence[float]:
        query = (
            "SELECT due_at FROM firings WHERE trigger_name = ? AND due_at >= ? AND due_at <= ?"
            " AND status IN ('fired', 'queued') ORDER BY due_at"
        )
        return [float(due_at) for (due_at,) in await fetch(self._database, query, trigger, since, until)]

    async def versions(self, trigger: str) -> Sequence[RuleVersion]:
        return await self._database.read(partial(versions_of, name=trigger))

    async def lives(self, around: float) -> Sequence[Life]:
        queries = (
            ("WHERE until_at > since AND since <= ? AND until_at >= ?", (around, around - ALIVE_SLACK_S)),
            ("WHERE since <= ? AND since >= ? LIMIT 1", (around, around - ALIVE_SLACK_S)),
            ("WHERE until_at < ? ORDER BY until_at DESC LIMIT 1", (around,)),
            ("WHERE since > ? ORDER BY since LIMIT 1", (around,)),
        )
        return await self._database.read(
            lambda connection: [each for rest, values in queries for each in _LIVES.rows(connection, rest, *values)]
        )

    async def newest(self, triggers: Sequence[str]) -> Mapping[str, Firing]:
        columns = ", ".join(f"firings.{name}" for name in FIRINGS.columns)

        def read(connection: SqlConnection) -> dict[str, Firing]:
            found: list[Firing] = []
            for names in chunks(triggers):
                # By way of the schedules: one step down the index for each, however long its history is.
                query = (
                    f"SELECT {columns} FROM schedules JOIN firings ON trigger_name = name AND due_at ="  # noqa: S608 - ours
                    " (SELECT max(due_at) FROM firings AS newest WHERE newest.trigger_name = schedules.name)"
                    f" WHERE name IN ({marks(names)})"
                )
                found += map(FIRINGS.load, connection.execute(query, names).fetchall())
            return {each.trigger: each for each in found}

        return await self._database.read(read)

    async def waiting(self, triggers: Sequence[str]) -> Mapping[str, int]:
        return await self._database.read(lambda connection: count_queued(connection, triggers))

    async def open_questions(self, triggers: Sequence[str] | None = None) -> Mapping[str, AskedPerson]:
        def read(connection: SqlConnection) -> dict[str, AskedPerson]:
            found: dict[str, AskedPerson] = {}
            for names in [()] if triggers is None else chunks(triggers):
                which = "" if triggers is None else f" AND trigger_name IN ({marks(names)})"
                under_way = f"firings.status = 'fired' AND firings.outcome = ''{which}"
                query = _QUESTIONS.format(top=under_way) + " WHERE asked.status = 'pending'" + _OLDEST_FIRST
                for trigger, *question in connection.execute(query, names).fetchall():
                    found.setdefault(str(trigger), _asked_person(question))
            return found

        return await self._database.read(read)

    async def questions(self, run_id: RunId) -> Sequence[AskedPerson]:
        query = _QUESTIONS.format(top="firings.run_id = ?") + _OLDEST_FIRST
        return [_asked_person(question) for _, *question in await fetch(self._database, query, run_id)]

    async def add(self, firings: Sequence[Firing]) -> int:
        def write(connection: SqlConnection) -> int:
            added = 0
            for firing in firings:
                make_room(connection, firing)
                added += FIRINGS.add(connection, firing)
            return added

        return await self._database.write(write)

    async def withdraw(self, trigger: str, *, by: str, now: float) -> int:
        withdrawn = {"status": FiringStatus.SKIPPED, "reason": Reason.WITHDRAWN, "about": by, "fired_at": now}
        where = "trigger_name = ? AND status = 'queued' AND reason = ?"
        return await FIRINGS.within(self._database).update(withdrawn, where, trigger, Reason.BACKFILL)

    async def beat(self, life_id: str, server: str, since: float, now: float) -> None:
        query = (
            "INSERT INTO firing_processes (id, server, since, until_at) VALUES (?, ?, ?, ?)"
            " ON CONFLICT (id) DO UPDATE SET until_at ="
            " CASE WHEN excluded.until_at > firing_processes.until_at THEN excluded.until_at"
            " ELSE firing_processes.until_at END"
        )

        await self._database.write(OneStatement(query, (life_id, storable(server), since, now)))
        if since == now:
            old = "DELETE FROM firing_processes WHERE until_at < ?"
            await self._database.write(OneStatement(old, (now - KEPT_S,)))


class SqlFiringQueue:
    """FiringQueue over the database."""

    def __init__(self, database: Database, runs: Runs, seal: LetterSeal) -> None:
        self._database = database
        self._runs = runs
        self._seal = seal

    async def due(self, now: float, *, limit: int) -> DueLook:
        first = (
            "SELECT (SELECT min(look_at) FROM schedules WHERE look_at IS NOT NULL),"
            " EXISTS (SELECT 1 FROM firings WHERE status = 'queued')"
        )
        query = (
            f"SELECT {SCHEDULES.names}, failures FROM schedules WHERE look_at <= ?"  # noqa: S608 - ours
            " ORDER BY look_at, id LIMIT ?"
        )

        def read(connection: SqlConnection) -> DueLook:
            next_at, has_queued = connection.execute(first).fetchone() or (None, False)
            if next_at is None or next_at > now:
                return DueLook((), next_at, bool(has_queued))
            rows = connection.execute(query, (now, limit)).fetchall()
            found = [(SCHEDULES.load(row[:-1]), int(row[-1])) for row in rows]
            names = [schedule.name for schedule, _ in found]
            # What is made up for waits for runs of today, and not they for it.
            running, queued = _open_runs(connection, names), count_queued(connection, names, without=Reason.BACKFILL)
            due = [
                DueSchedule(
                    schedule=schedule,
                    open_runs=running[schedule.name],
                    queued=queued.get(schedule.name, 0),
                    failures=failures,
                )
                for schedule, failures in found
            ]
            return DueLook(due, now, bool(has_queued))

        # Most looks find nothing; one takes microseconds then.
        return await self._database.read_briefly(read)

    async def commit(self, turns: Sequence[Turn]) -> Sequence[bool]:
        # In one order everywhere: else two servers could wait for each other.
        ordered = sorted(enumerate(turns), key=lambda pair: pair[1].schedule.id)

        def write(connection: SqlConnection) -> list[bool]:
            done = [False] * len(turns)
            for nth, turn in ordered:
                done[nth] = self._write_turn(connection, turn)
            return done

        return await self._database.write(write)

    def _write_turn(self, connection: SqlConnection, turn: Turn) -> bool:
        schedule = turn.schedule
        paused = bool(turn.paused_by)
        changes = {
            "next_at": turn.next_at,
            "look_at": turn.look_at,
            "failures": turn.failures,
            "is_active": not paused and schedule.is_active,
            "paused_by": turn.paused_by,
            "revision": schedule.revision + paused,
        }
        unchanged = (schedule.id, schedule.revision, schedule.next_at)
        if not SCHEDULES.update(connection, changes, "id = ? AND revision = ? AND next_at = ?", *unchanged):
            return False
        _close(connection, schedule.name, turn.over)
        for new in turn.firings:
            self._write_firing(connection, new)
        for letter in turn.letters:
            add_letter(connection, letter, self._seal)
        if paused:
            now = turn.firings[0].firing.fired_at if turn.firings else schedule.next_at or 0.0
            later = replace(schedule, revision=schedule.revision + 1, is_active=False, paused_by=turn.paused_by)
            add_version(connection, schedule.name, version_of(later, now, turn.paused_by))
        return True

    def _write_firing(self, connection: SqlConnection, new: NewFiring) -> bool:
        if not FIRINGS.add(connection, new.firing):
            return False  # fired before, by a schedule of the same name or by hand
        if new.created is not None and new.firing.run_id is not None:
            self._create(connection, new.firing.run_id, new.created)
        return True

    def _create(self, connection: SqlConnection, run_id: RunId, created: "Event") -> None:
        """Create the run of a firing. One that is there already is that run: only its firing was forgotten."""
        with suppress(DriverConflict):
            self._runs().create_undriven(connection, run_id, created)

    async def waiting(self, *, limit: int) -> Sequence[tuple[Firing, Sequence[OpenRun]]]:
        rest = (
            "WHERE status = 'queued' AND (trigger_name, due_at) IN"
            " (SELECT trigger_name, min(due_at) FROM firings WHERE status = 'queued' GROUP BY trigger_name)"
            " ORDER BY due_at LIMIT ?"
        )

        def read(connection: SqlConnection) -> list[tuple[Firing, Sequence[OpenRun]]]:
            found = FIRINGS.rows(connection, rest, limit)
            running = _open_runs(connection, [firing.trigger for firing in found])
            return [(firing, running[firing.trigger]) for firing in found]

        return await self._database.read_briefly(read)

    async def start(self, fired: Firing, created: "Event | None", over: Sequence[OpenRun] = ()) -> bool:
        changes = {name: getattr(fired, name) for name in ("status", "reason", "fired_at", "run_id", "server", "about")}
        where = "trigger_name = ? AND due_at = ? AND status = 'queued'"

        def write(connection: SqlConnection) -> bool:
            if not FIRINGS.update(connection, changes, where, fired.trigger, fired.due_at):
                return False
            _close(connection, fired.trigger, over)
            if fired.status is FiringStatus.FIRED and fired.run_id is not None and created is not None:
                self._create(connection, fired.run_id, created)
            return True

        return await self._database.write(write)

    async def record(self, fired: NewFiring) -> bool:
        def write(connection: SqlConnection) -> bool:
            make_room(connection, fired.firing)
            return self._write_firing(connection, fired)

        return await self._database.write(write)


def _open_runs(connection: SqlConnection, triggers: Sequence[str]) -> "defaultdict[str, list[OpenRun]]":
    """Return the runs of triggers that nothing was noted about since they were started."""
    found: defaultdict[str, list[OpenRun]] = defaultdict(list)
    for names in chunks(triggers):
        query = (
            "SELECT trigger_name, firings.run_id, due_at, runs.status FROM firings"  # noqa: S608 - ours
            " LEFT JOIN runs ON runs.run_id = firings.run_id WHERE firings.status = 'fired' AND outcome = ''"
            f" AND trigger_name IN ({marks(names)}) ORDER BY due_at"
        )
        for name, run_id, due_at, status in connection.execute(query, names).fetchall():
            known = status if status in list(RunStatus) else RunStatus.WAITING
            at = None if status is None else RunStatus(known)
            found[str(name)].append(OpenRun(RunId(str(run_id)), float(due_at), at))
    return found


def _close(connection: SqlConnection, trigger: str, over: Sequence[OpenRun]) -> None:
    """Note how runs ended."""
    for run in over:
        outcome = "deleted" if run.status is None else run.status.value
        FIRINGS.update(connection, {"outcome": outcome}, "trigger_name = ? AND due_at = ?", trigger, run.due_at)


def open_automation(database: Database, runs: Runs) -> AutomationStore:
    """Return the tables of automation."""
    seal, subscriptions, firings = LetterSeal(database.keys), SqlSubscriptions(database), SqlFirings(database)
    return AutomationStore(
        schedules=SqlScheduleRepository(database),
        queue=SqlFiringQueue(database, runs, seal),
        history=firings,
        overview=firings,
        backlog=firings,
        heartbeats=firings,
        sensors=SqlSensors(database, runs, seal),
        subscriptions=subscriptions,
        outgoing=subscriptions,
        letters=SqlDeadLetters(database, seal, runs),
    )
