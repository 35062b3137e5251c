"""What is due, and how it is fired: a firing and its run in one transaction, once, however many servers there are."""

from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from agent_fabric.application.ports.automation import DueLook, DueSchedule, NewFiring, OpenRun, Turn
from agent_fabric.domain.automation.firing import Firing, FiringStatus, Reason
from agent_fabric.domain.errors import DriverConflict
from agent_fabric.domain.events import Event
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.task import RunStatus
from agent_fabric.infrastructure.persistence.automation.dead_letters import LetterSeal, add_letter
from agent_fabric.infrastructure.persistence.automation.firings import chunks, count_queued, make_room
from agent_fabric.infrastructure.persistence.automation.schedules import FIRINGS, SCHEDULES, add_version, version_of
from agent_fabric.infrastructure.persistence.runs.event_store import SqlRunRepository
from agent_fabric.infrastructure.persistence.sql import Database, SqlConnection, marks


class SqlFiringQueue:
    """FiringQueue over the database."""

    def __init__(self, database: Database, runs: SqlRunRepository, seal: LetterSeal) -> None:
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

    def _create(self, connection: SqlConnection, run_id: RunId, created: Event) -> None:
        """Create the run of a firing. One that is there already is that run: only its firing was forgotten."""
        with suppress(DriverConflict):
            self._runs.create_undriven(connection, run_id, created)

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

    async def start(self, fired: Firing, created: Event | None, over: Sequence[OpenRun] = ()) -> bool:
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
