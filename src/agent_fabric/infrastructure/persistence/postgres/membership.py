"""This process among those that share a database: a row that it renews, and that lapses when it has died.

A row is renewed on a thread with a connection of its own: neither a busy event loop nor a long write lets it lapse.
Only the database's time is compared. A row that has lapsed is never renewed again, whether others have noticed or not:
a process that was away for too long comes back under another id.
"""

import logging
import socket
import threading
import time
import uuid
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any, Final, NamedTuple

from agent_fabric.application.ports.cluster import Introduction
from agent_fabric.domain.cluster.roles import OBJECT_HOME, Role
from agent_fabric.domain.errors import LeaseLost, StoreUnavailable
from agent_fabric.infrastructure.persistence import dialects
from agent_fabric.infrastructure.persistence.postgres.connection import PostgresConnection
from agent_fabric.infrastructure.persistence.postgres.errors import explain_errors
from agent_fabric.infrastructure.persistence.runs.run_leases import this_process
from agent_fabric.infrastructure.persistence.schema import FORMAT
from agent_fabric.infrastructure.persistence.sql import SqlConnection
from agent_fabric.infrastructure.sandbox.effect_guard import EffectGuard
from agent_fabric.infrastructure.sandbox.effect_guard_process import LOOK_S, boot_time

BETWEEN_HOMES: Final = " + "
MARGIN: Final = 0.2
"""Share of the time to live after which this process stops by itself, before others take over what it did."""
RENEWALS: Final = 5
"""How often a lease is renewed within its time to live."""
LEAVE_S: Final = 1.0
"""How long the end of the process waits for what was asked for last."""
RETRY_S: Final = 0.2
"""Pause after a renewal that failed."""
NOW: Final = dialects.NOW
"""The database's time."""
KEPT_S: Final = 86_400
"""How long it can be seen that a process was there."""
MAX_SKEW_S: Final = 1.0
"""Difference between this machine's clock and the database's that is worth a warning."""

_REAP = f"UPDATE workers SET state = 'gone' WHERE state <> 'gone' AND lease_until < {NOW}"  # noqa: S608 - ours
_JOIN = (
    "INSERT INTO workers (id, name, role, state, home, slots, pools, version, started_at, lease_until)"  # noqa: S608 - ours
    f" VALUES (?, ?, ?, 'active', ?, ?, ?, ?, {NOW}, {NOW} + ?) RETURNING {NOW}"
)
_FORGET = (
    f"DELETE FROM workers WHERE state = 'gone' AND lease_until < {NOW} - {KEPT_S}"  # noqa: S608 - ours
    " AND NOT EXISTS (SELECT 1 FROM runs WHERE driver = workers.id)"
)
_RENEW = (
    f"UPDATE workers SET lease_until = {NOW} + ? WHERE id = ? AND state <> 'gone' AND lease_until >= {NOW}"  # noqa: S608 - ours
    f" RETURNING state, {NOW}, (SELECT min_writer FROM fabric_format)"
)
_RELEASE = "UPDATE runs SET driver = '' WHERE driver = ? AND number = ? AND epoch = ?"
_LEAVE = "UPDATE workers SET state = 'gone' WHERE id = ?"

_log = logging.getLogger(__name__)


class _Timed(NamedTuple):
    """The first row of a statement, and between which times of this machine it came to be."""

    row: Any
    since: float
    until: float


def _fetch_timed(connection: PostgresConnection, sql: str, values: tuple[object, ...]) -> _Timed:
    since = time.time()
    row = connection.execute(sql, values).fetchone()
    return _Timed(row, since, time.time())


class Membership:
    """A row in `workers`, from when it is first needed until the process ends."""

    def __init__(
        self,
        connect: Callable[[], PostgresConnection],
        place: str,
        introduction: Introduction,
    ) -> None:
        """Do nothing yet.

        Args:
            connect: Opens a connection of our own.
            place: The database, for people.
            introduction: What others read about this process.
        """
        self._connect = connect
        self._place = place
        self.introduction = introduction
        own = introduction.home or f"host:{socket.gethostname()}"
        self.homes = (own, OBJECT_HOME) if introduction.opens_saved else (own,)
        """Where the workspaces are that this process can open; those of its own runs first."""
        self.home = BETWEEN_HOMES.join(self.homes)
        """The same, as others read it."""
        self.ttl_s = introduction.lease_ttl_s
        self._role = introduction.role
        self._guard = threading.Lock()
        """Protects joining and losing."""
        self._id = ""
        self._safe_until = 0.0
        """On the clock that goes on while the machine sleeps."""
        self._told: list[Callable[[Exception], None]] = []
        self._joined: list[Callable[[], None]] = []
        self._releases: SimpleQueue[tuple[str, int, int] | None] = SimpleQueue()
        """Runs to let go of: driver, number, epoch. None ends the thread."""
        self._changed = threading.Event()
        """Wakes the thread that watches the time."""
        self._threads: list[threading.Thread] = []
        self._guarding = EffectGuard()
        self._renewing: PostgresConnection | None = None
        """What the row is renewed through."""
        self.drains = False
        """Whether this process is to take nothing on any more: someone asked, or it is too old for the tables."""
        self.skew_s = 0.0
        """How far this machine's clock is ahead of the database's."""

    @property
    def worker_id(self) -> str:
        """The id of our row, which is made when it is first needed.

        Raises:
            StoreUnavailable: the database cannot be reached.
        """
        with self._guard:
            if not self._id:
                self._join()
            return self._id

    def take_role(self, role: Role) -> None:
        """Let others know what this process does from now on.

        Raises:
            StoreUnavailable: the database cannot be reached.
        """
        with self._guard:
            self._role = role
            if not self._id:
                self._join()
            else:
                self._execute("UPDATE workers SET role = ? WHERE id = ?", (role, self._id))

    def leave_role(self) -> None:
        """Take up nothing by itself any more. If the database cannot be told, it finds out when the row lapses."""
        with self._guard:
            self._role = Role.PROCESS
            worker_id = self._id
        if worker_id:
            self._try("UPDATE workers SET role = ? WHERE id = ?", (Role.PROCESS, worker_id))

    def is_safe(self) -> bool:
        """Tell whether no one else can have taken our runs."""
        return bool(self._id) and boot_time() < self._safe_until

    def on_lost(self, tell: Callable[[Exception], None]) -> None:
        """Call `tell`, on some thread, when all our leases are lost."""
        self._told.append(tell)

    def on_joined(self, tell: Callable[[], None]) -> None:
        """Call `tell`, on some thread, whenever this process has a new row; it must not ask for its id then."""
        self._joined.append(tell)

    @property
    def present_id(self) -> str:
        """The id of our row; empty while there is none."""
        return self._id

    def release(self, number: int, epoch: int) -> None:
        """Let go of a run in a moment."""
        if self._id:
            self._releases.put((self._id, number, epoch))

    def lose(self, worker_id: str, why: str) -> LeaseLost:
        """Give the row up: what was held under it is lost. The next use makes a new row."""
        problem = LeaseLost(
            f"This process is not known to {self._place} any more: {why}",
            hint="Its runs are driven by another process, or can be resumed: fabric resume.",
        )
        with self._guard:
            if self._id != worker_id:
                return problem  # someone else has noticed first
            self._id = ""
        _log.warning("%s", problem.message)
        for tell in self._told:
            tell(problem)
        return problem

    def leave(self) -> None:
        """Give everything back, and end the threads."""
        with self._guard:
            threads, self._threads = self._threads, []
            worker_id, self._id = self._id, ""
        if not threads:
            return
        self._releases.put(None)
        self._changed.set()
        for thread in threads:
            thread.join(LEAVE_S)
        self._end_waiting()
        self._guarding.close()
        if worker_id:
            self._try(_LEAVE, (worker_id,))

    def _execute(self, sql: str, values: tuple[object, ...] = ()) -> "_Timed":
        """Run a statement on a connection of its own: the one that renews is another thread's."""
        with explain_errors(self._place):
            connection = self._connect()
            try:
                return _fetch_timed(connection, sql, values)
            finally:
                connection.close()

    def _try(self, sql: str, values: tuple[object, ...]) -> None:
        """Run a statement that is not needed: without it, others wait until the row has lapsed."""
        try:
            self._execute(sql, values)
        except StoreUnavailable as problem:
            _log.info("%s", problem.message)

    def _join(self) -> None:
        worker_id, asked_at = uuid.uuid4().hex, boot_time()
        said = self.introduction
        pools = f",{','.join(said.pools)},"
        about = (said.name or this_process(), self._role, self.home, said.slots, pools, said.version)
        self._try(_FORGET, ())
        self._compare_clocks(self._execute(_JOIN, (worker_id, *about, self.ttl_s)))
        self._id, self._safe_until = worker_id, self._deadline(asked_at)
        self._guarding.renew(self._safe_until)
        self._changed.set()
        if not self._threads:
            self._threads = [
                threading.Thread(target=self._renew, name="fabric-lease", daemon=True),
                threading.Thread(target=self._watch, name="fabric-lease-watch", daemon=True),
            ]
            for thread in self._threads:
                thread.start()
        for tell in self._joined:
            tell()

    def _deadline(self, asked_at: float) -> float:
        return asked_at + self.ttl_s * (1 - MARGIN)

    def _renew(self) -> None:
        """Renew our row and let go of runs, until the process leaves."""
        pending: list[tuple[str, int, int]] = []
        pause, goes_on = self.ttl_s / RENEWALS, True
        renew_at = time.monotonic() + pause
        while goes_on:
            goes_on = self._collect(pending, max(0.0, renew_at - time.monotonic()))
            try:
                with explain_errors(self._place):
                    connection = self._renewing = self._renewing or self._connect()
                    while pending:
                        connection.execute(_RELEASE, pending[0])
                        pending.pop(0)
                    if time.monotonic() >= renew_at and self._id:
                        self._renew_once(connection, self._id)
                if not self._id and self._role is not Role.PROCESS and goes_on:
                    assert self.worker_id  # one that takes up runs is back as soon as it can
                renew_at = time.monotonic() + pause if time.monotonic() >= renew_at else renew_at
            except StoreUnavailable as problem:
                _log.info("The lease was not renewed: %s", problem.message)
                self._disconnect()
                renew_at = time.monotonic() + RETRY_S
        self._disconnect()

    def _disconnect(self) -> None:
        connection, self._renewing = self._renewing, None
        if connection is not None:
            connection.close()

    def _collect(self, pending: list[tuple[str, int, int]], wait_s: float) -> bool:
        """Add what is to be let go of, waiting for the first of it; False at the end."""
        try:
            asked = self._releases.get(timeout=wait_s) if not pending else self._releases.get_nowait()
            while asked is not None:
                pending.append(asked)
                asked = self._releases.get_nowait()
        except Empty:
            return True
        return False

    def _renew_once(self, connection: PostgresConnection, worker_id: str) -> None:
        asked_at = boot_time()
        timed = _fetch_timed(connection, _RENEW, (self.ttl_s, worker_id))
        row = timed.row
        if row is None:
            self.lose(worker_id, "its lease has lapsed")
            return
        with self._guard:
            if self._id == worker_id:
                self._safe_until = self._deadline(asked_at)
                self._guarding.renew(self._safe_until)
        self._changed.set()
        outdated = int(row[2]) > FORMAT
        if outdated and not self.drains:
            _log.warning("%s needs a newer agent-fabric by now: this process hands over and ends", self._place)
        self.drains = outdated or row[0] == "draining"
        self._compare_clocks(timed, row[1])

    def _compare_clocks(self, timed: "_Timed", there: float | None = None) -> None:
        """Note how far this machine's clock is ahead. What the way to the database takes says nothing about it."""
        there = float(timed.row[0] if there is None else there)
        if timed.until - timed.since > MAX_SKEW_S:
            return  # the network is slow, or this process was frozen meanwhile
        skew = max(timed.since - there, 0.0) or min(timed.until - there, 0.0)
        if abs(skew) > MAX_SKEW_S >= abs(self.skew_s):
            _log.warning("The clock of this machine differs from that of %s by %.1f seconds", self._place, skew)
        self.skew_s = skew

    @property
    def ahead_s(self) -> float:
        """What to take off this machine's time, so that timers and deadlines of all machines are the same."""
        return self.skew_s if abs(self.skew_s) > MAX_SKEW_S else 0.0

    def _watch(self) -> None:
        """Give up at the deadline, whatever the thread that renews is waiting for."""
        while self._threads:
            worker_id, left = self._id, self._safe_until - boot_time()
            if worker_id and left <= 0:
                self.lose(worker_id, "it could not renew its lease in time")
                self._end_waiting()
            # In short pieces: a wait does not go on while the machine sleeps, but the lease does.
            self._changed.wait(min(left, LOOK_S) if worker_id and left > 0 else None)
            self._changed.clear()

    def _end_waiting(self) -> None:
        """End a renewal that waits for a server that does not answer."""
        connection = self._renewing
        if connection is not None:
            connection.abort()


def reap(connection: SqlConnection) -> None:
    """Write off the processes whose lease has lapsed; their runs are free."""
    connection.execute(_REAP)
