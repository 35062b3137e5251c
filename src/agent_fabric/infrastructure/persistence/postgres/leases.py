"""Leases of runs in PostgreSQL. They belong to processes, not to runs: one row is renewed for all of them."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

from agent_fabric.application.ports.leases import Before
from agent_fabric.domain.cluster.roles import OBJECT_HOME
from agent_fabric.domain.errors import DriverConflict, LeaseLost, LogWentBack
from agent_fabric.domain.ids import RunId
from agent_fabric.infrastructure.persistence.postgres.membership import BETWEEN_HOMES, NOW, Membership, reap
from agent_fabric.infrastructure.persistence.runs.event_rows import note_driver
from agent_fabric.infrastructure.persistence.runs.log_writes import OfOneRun
from agent_fabric.infrastructure.persistence.sql import Acquired, Condition, SqlConnection, marks
from agent_fabric.infrastructure.runs.log.layout import may_move

ALIVE = f"(SELECT id FROM workers WHERE state <> 'gone' AND lease_until >= {NOW})"  # noqa: S608 - ours
ACQUIRE_LOCK = (
    "INSERT INTO named_locks (name, holder) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET holder = excluded.holder"  # noqa: S608 - ours
    f" WHERE named_locks.holder = excluded.holder OR named_locks.holder NOT IN {ALIVE} RETURNING name"
)
"""Acquires a lock by name for a living process, unless another one has it."""
REFUSAL_S = 90
"""How long it counts that a process has refused a run; one that lives says so again before that."""
TAKERS = (
    "SELECT 1 FROM workers AS taker WHERE taker.state = 'active' AND taker.role IN ('server', 'worker')"  # noqa: S608 - ours
    f" AND taker.lease_until >= {NOW}"
    f" AND (runs.home = '' OR runs.home = ANY (string_to_array(taker.home, '{BETWEEN_HOMES}')))"
)
"""Who has the workspace of a row of `runs`, and takes up runs by itself."""
POOL_TAKERS = f"{TAKERS} AND strpos(taker.pools, ',' || runs.pool || ',') > 0"
"""Those of them who are of its pool, too."""
ABLE_TAKERS = (
    f"{POOL_TAKERS} AND NOT EXISTS (SELECT 1 FROM refusals WHERE refusals.run = runs.number"  # noqa: S608 - ours
    f" AND refusals.worker = taker.id AND refusals.refused_at > {NOW} - {REFUSAL_S})"
)
"""Those of them who have not said that they cannot drive it."""
_IS_ABANDONED = f"driver NOT IN {ALIVE} AND NOT EXISTS ({ABLE_TAKERS})"
_ABANDONED = f"SELECT 1 FROM runs WHERE number = ? AND {_IS_ABANDONED}"  # noqa: S608 - ours
_HOLD = (
    "UPDATE runs SET driver = ?, epoch = epoch + 1 WHERE number = ?"
    " AND EXISTS (SELECT 1 FROM workers WHERE id = ? AND state <> 'gone') RETURNING epoch"
)
_ACQUIRE = (
    # The first process has the row; the others do not wait for it.
    "WITH before AS MATERIALIZED (SELECT number, epoch, driver FROM runs WHERE number = ? FOR UPDATE SKIP LOCKED)"
    " UPDATE runs SET driver = ?, epoch = runs.epoch + 1 FROM before"
    " WHERE runs.number = before.number AND runs.epoch = before.epoch"
    " AND EXISTS (SELECT 1 FROM workers WHERE id = ? AND state <> 'gone')"
    " AND (before.driver IN ('', ?) OR before.driver NOT IN (SELECT id FROM workers WHERE state <> 'gone'))"
    " RETURNING runs.epoch, before.epoch, before.driver"
)
_FENCE = (
    "SELECT epoch, (SELECT hash FROM events WHERE run = number ORDER BY seq DESC LIMIT 1) FROM runs WHERE number = ?"
)


class PostgresLeases:
    """RunNumberLeases that many machines share."""

    def __init__(
        self, membership: Membership, write: Callable[[Callable[[SqlConnection], Any]], "asyncio.Future[Any]"]
    ) -> None:
        self.membership = membership
        self._write = write
        self._held: set[int] = set()
        """What this process holds: a lease whose answer was lost is not among them, and can be asked for again."""

    @property
    def free(self) -> Condition:
        homes, pools = ("", *self.membership.homes), tuple(self.membership.introduction.pools)
        where = f"driver NOT IN {ALIVE} AND home IN ({marks(homes)}) AND pool IN ({marks(pools)})"
        return Condition(where, (*homes, *pools))

    def home_of(self, run_id: RunId, created: object) -> str:
        if self.membership.introduction.saves_workspaces and may_move(run_id, created):
            return OBJECT_HOME
        return self.membership.homes[0]

    def holds(self, number: int) -> bool:
        """Tell whether this process still believes that it holds a run."""
        return number in self._held

    def hold_created(self, numbers: Iterable[int]) -> None:
        """Hold runs that a transaction creates with this process as their driver."""
        self._held.update(numbers)

    def require_member(self, connection: SqlConnection, worker_id: str) -> None:
        """Check that no one has written this process off.

        Raises:
            LeaseLost: someone has.
        """
        query = "SELECT 1 FROM workers WHERE id = ? AND state <> 'gone'"
        if connection.execute(query, (worker_id,)).fetchone() is None:
            raise self.membership.lose(worker_id, "its lease has lapsed")

    def hold_new(self, connection: SqlConnection, number: int) -> int:
        worker_id = self.membership.worker_id
        row = connection.execute(_HOLD, (worker_id, number, worker_id)).fetchone()
        if row is None:
            raise self.membership.lose(worker_id, "its lease has lapsed")
        self._held.add(number)
        return int(row[0])

    async def acquire(self, number: int, *, since: float | None = None) -> Acquired | None:
        if number in self._held:
            return None

        def acquire(connection: SqlConnection) -> Acquired | None:
            worker_id = self.membership.worker_id
            values = (number, worker_id, worker_id, worker_id)
            row = connection.execute(_ACQUIRE, values).fetchone()
            if row is None:  # most runs that are asked for have no driver, else it may have died just now
                reap(connection)
                row = connection.execute(_ACQUIRE, values).fetchone()
            if row is None:
                return None
            if since is not None:
                note_driver(connection, number, since)
            return Acquired(row[0], _before(row[1], row[2]), noted=since is not None)

        self._held.add(number)  # now: others of this process may ask meanwhile
        lease: Acquired | None = None
        try:
            lease = await self._write(OfOneRun(acquire))
        finally:
            if lease is None:
                self._held.discard(number)
        return lease

    def require(self, connection: SqlConnection, number: int, epoch: int, head: bytes) -> None:
        if number not in self._held:
            raise self._loss()
        row = connection.execute(_FENCE, (number,)).fetchone()
        if row is None or row[0] != epoch:
            raise DriverConflict(
                "Another process has taken this run over",
                hint="Look with `fabric logs show`; this process stops driving it.",
            )
        if row[1] is None or bytes(row[1]) != head:
            raise LogWentBack(
                "The log of this run does not end as this process has left it: the database has lost commits",
                hint="Has a standby that lagged become the primary? Look with `fabric logs show`, then resume.",
            )

    def require_time(self, number: int) -> None:
        if number not in self._held or not self.membership.is_safe():
            raise self._loss()

    def write_release(self, connection: SqlConnection, number: int, epoch: int) -> None:
        connection.execute("UPDATE runs SET driver = '' WHERE number = ? AND epoch = ?", (number, epoch))

    def release(self, number: int, epoch: int, *, written: bool = False) -> None:
        self._held.discard(number)
        if not written:
            self.membership.release(number, epoch)

    @property
    def abandoned(self) -> Condition:
        return Condition(_IS_ABANDONED, ())

    def is_abandoned(self, connection: SqlConnection, number: int) -> bool:
        return connection.execute(_ABANDONED, (number,)).fetchone() is not None

    def on_lost(self, tell: Callable[[Exception], None]) -> None:
        def on_loss(problem: Exception) -> None:
            self._held.clear()
            tell(problem)

        self.membership.on_lost(on_loss)

    def _loss(self) -> LeaseLost:
        return LeaseLost(
            "This process could not renew its lease in time, so another one may drive this run",
            hint="Look with `fabric logs show`; it can be resumed: fabric resume.",
        )


def _before(epoch: int, driver: str) -> Before:
    if driver:
        return Before.UNKNOWN
    return Before.NOBODY if epoch <= 1 else Before.RELEASED  # the creator of a run has the first epoch
