"""The runs that a server takes up, from the tables of runs, inboxes and approvals, and what else there is to do."""

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any, Final

from agent_fabric.application.ports.clock import Clock
from agent_fabric.application.ports.pending_work import (
    ANSWERS,
    COMMANDS,
    MESSAGES,
    NOTICES,
    OUTBOX,
    PLANS,
    RUNS,
    SCHEDULES,
    TURNS,
)
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.task import RunStatus
from agent_fabric.infrastructure.persistence.chat.queue import DUE_SESSIONS
from agent_fabric.infrastructure.persistence.sql import Condition, Database, SqlConnection
from agent_fabric.infrastructure.persistence.table import fetch

LEARN_EVERY_S: Final = 5.0
"""How often the place is looked up where runs that have to be driven begin."""
MARGIN: Final = 500
"""Runs that are looked at before that place: they may have become durable later than those after them."""
FIRST: Final = (
    "SELECT coalesce((SELECT min(number) FROM runs WHERE status = 'running'), (SELECT max(number) FROM runs), 0)"
)


class QueueStart:
    """Where the runs begin that have to be driven.

    While a process keeps a transaction open, a database cannot forget the runs that have settled since, and a look
    from the beginning passes all of them.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._number = 0
        self._learned_at = float("-inf")

    @property
    def known(self) -> int:
        """The first number that is worth a look. One before it that has to be driven again is seen soon."""
        return self._number

    @property
    def is_old(self) -> bool:
        """Whether it is to be looked up again."""
        return self._clock.monotonic() - self._learned_at >= LEARN_EVERY_S

    def learn(self, first: int) -> None:
        """Take what `FIRST` has found."""
        self._number, self._learned_at = first - MARGIN, self._clock.monotonic()

    def number(self, connection: SqlConnection) -> int:
        """Return the first number that is worth a look, and look it up if need be."""
        if self.is_old:
            self.learn(int(connection.execute(FIRST).fetchone()[0]))
        return self._number


class SqlRunQueue:
    """RunQueue over the store."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self.start = QueueStart(clock)

    async def list_unfinished(self, *, limit: int | None = None) -> Sequence[RunId]:
        free = self._database.leases.free
        return await self._database.read(
            partial(self._try_once, limit=limit) if free is None else partial(self._list_free, free=free, limit=limit)
        )

    def _try_once(self, connection: SqlConnection, limit: int | None) -> list[RunId]:
        """Return what is free, where each run has to be tried."""
        query = "SELECT number, run_id, parent FROM runs WHERE status = ? ORDER BY number"
        rows = connection.execute(query, (RunStatus.RUNNING,)).fetchall()
        free = [row for row in rows if self._database.leases.is_abandoned(connection, int(str(row[0])))]
        numbers = {number for number, _, _ in free}
        return [RunId(str(run_id)) for _, run_id, parent in free if parent not in numbers][:limit]

    def _list_free(self, connection: SqlConnection, free: Condition, limit: int | None) -> list[RunId]:
        """Return what is free, where the database knows."""
        query, values = free_runs(free, self.start.number(connection))
        if limit is not None:
            query, values = f"{query} LIMIT ?", (*values, limit)
        return [RunId(str(run_id)) for (run_id,) in connection.execute(query, values)]

    async def due(self) -> Sequence[RunId]:
        due = due_runs(self._database.leases.free or Condition("1 = 1", ()), self._clock.now())
        return [run_id for (run_id,) in await fetch(self._database, due.sql, *due.values)]


def free_runs(free: Condition, first: int) -> Condition:
    """Return the query for runs that have to be driven, where the database knows which are free; oldest first.

    A child of one of them is left out.
    """
    query = (
        f"SELECT run_id FROM runs WHERE status = 'running' AND number >= ? AND {free.sql}"  # noqa: S608 - ours
        " AND NOT EXISTS (SELECT 1 FROM runs AS above"
        f" WHERE above.number = runs.parent AND above.status = 'running' AND {free.sql}) ORDER BY number"
    )
    return Condition(query, (first, *free.values, *free.values))


def due_runs(free: Condition, now: float) -> Condition:
    """Return the query for waiting runs that can go on. Each part has an index: runs that only wait cost nothing."""
    waiting = f"SELECT run_id FROM runs WHERE status = 'waiting' AND {free.sql}"  # noqa: S608 - ours
    query = (
        f"{waiting} AND number IN (SELECT run FROM inbox)"  # noqa: S608 - as above
        f" UNION {waiting} AND number IN"
        " (SELECT run FROM pending_approvals WHERE status = 'pending' AND expires_at <= ?)"
        f" UNION {waiting} AND wake_at <= ?"
    )
    return Condition(query, (*free.values, *free.values, now, *free.values, now))


_OUTBOX: Final = Condition("SELECT 1 FROM outbox UNION ALL SELECT 1 FROM outbox_messages", ())


_TURNS: Final = Condition(DUE_SESSIONS, ())


_SCHEDULES: Final = "SELECT 1 FROM schedules WHERE look_at <= ? UNION ALL SELECT 1 FROM firings WHERE status = 'queued'"


_MESSAGES: Final = (
    "SELECT 1 FROM outgoing_messages JOIN subscriptions ON subscriptions.name = outgoing_messages.subscription"
    " WHERE outgoing_messages.next_at <= ? AND subscriptions.is_active = 1"
)


_PLANS: Final = Condition(
    "SELECT 1 FROM fleet_plans WHERE status IN ('waiting', 'running', 'halted') AND status = 'running'", ()
)
"""With the condition of its index."""


_OPEN: Final = "node_commands.status IN ('waiting', 'queued', 'sent')"


_COMMANDS: Final = (
    f"SELECT 1 FROM node_commands WHERE {_OPEN} AND status <> 'sent' AND expires_at <= ?"  # noqa: S608 - ours
    " UNION ALL SELECT 1 FROM node_commands JOIN runs ON runs.run_id = node_commands.run_id"
    f" JOIN pending_approvals ON pending_approvals.run = runs.number WHERE {_OPEN}"
    " AND node_commands.status = 'waiting' AND pending_approvals.status IN ('denied', 'expired', 'cancelled')"
)


_NOTICES: Final = Condition(
    "SELECT 1 FROM channel_notify, pending_approvals WHERE pending_approvals.status = 'pending'"
    " AND channel_notify.approvals LIKE '%webhook:%'",
    (),
)


_KINDS: Final = frozenset({RUNS, ANSWERS, OUTBOX, TURNS, SCHEDULES, MESSAGES, PLANS, COMMANDS, NOTICES})


class SqlPendingWork:
    """PendingWork over the store."""

    def __init__(self, database: Database, queue: SqlRunQueue, clock: Clock) -> None:
        self._database = database
        self._queue = queue
        self._clock = clock

    async def __call__(self, kinds: Collection[str]) -> Collection[str]:
        asked = [kind for kind in kinds if kind in _KINDS]
        if not asked:
            return ()

        def read(connection: SqlConnection) -> list[str]:
            known, start = self._queries(), self._queue.start
            learns = RUNS in asked and start.is_old
            columns = [f"EXISTS ({known[kind].sql})" for kind in asked] + ([f"({FIRST})"] if learns else [])
            values: list[Any] = [value for kind in asked for value in known[kind].values]
            found = connection.execute("SELECT " + ", ".join(columns), values).fetchone()
            if learns:
                start.learn(int(found[-1]))
            return [kind for kind, is_there in zip(asked, found, strict=False) if is_there]

        return await self._database.read_briefly(read)

    def _queries(self) -> Mapping[str, Condition]:
        free, now = self._database.leases.free or Condition("1 = 1", ()), self._clock.now()
        return {
            RUNS: free_runs(free, self._queue.start.known),
            ANSWERS: due_runs(free, now),
            OUTBOX: _OUTBOX,
            TURNS: _TURNS,
            SCHEDULES: Condition(_SCHEDULES, (now,)),
            MESSAGES: Condition(_MESSAGES, (now,)),
            PLANS: _PLANS,
            COMMANDS: Condition(_COMMANDS, (now,)),
            NOTICES: _NOTICES,
        }
