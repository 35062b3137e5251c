"""What there is to do in a database that processes share, in one query."""

from collections.abc import Collection, Mapping
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
from agent_fabric.infrastructure.persistence.chat.queue import DUE_SESSIONS
from agent_fabric.infrastructure.persistence.runs.run_queue import FIRST, SqlRunQueue, due_runs, free_runs
from agent_fabric.infrastructure.persistence.sql import Condition, Database, SqlConnection

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
