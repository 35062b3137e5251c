"""Leases of runs in PostgreSQL. They belong to processes, not to runs: one row is renewed for all of them."""

import asyncio
from collections.abc import Callable
from typing import Any

from agent_fabric.domain.errors import DriverConflict, LeaseLost, LogWentBack
from agent_fabric.infrastructure.persistence.postgres.membership import NOW, Membership, reap
from agent_fabric.infrastructure.persistence.sql import SqlConnection

ALIVE = f"(SELECT id FROM workers WHERE state <> 'gone' AND lease_until >= {NOW})"  # noqa: S608 - ours
_HOLD = (
    "UPDATE runs SET driver = ?, epoch = epoch + 1 WHERE number = ?"
    " AND EXISTS (SELECT 1 FROM workers WHERE id = ? AND state <> 'gone')"
)
_ACQUIRE = (
    f"{_HOLD} AND (driver IN ('', ?) OR driver NOT IN"  # noqa: S608 - ours
    " (SELECT id FROM workers WHERE state <> 'gone')) RETURNING epoch"
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

    def hold_new(self, connection: SqlConnection, number: int) -> int:
        worker_id = self.membership.worker_id
        row = connection.execute(f"{_HOLD} RETURNING epoch", (worker_id, number, worker_id)).fetchone()
        if row is None:
            raise self.membership.lose(worker_id, "its lease has lapsed")
        self._held.add(number)
        return int(row[0])

    async def acquire(self, number: int) -> int | None:
        if number in self._held:
            return None

        def acquire(connection: SqlConnection) -> int | None:
            worker_id = self.membership.worker_id
            reap(connection)
            row = connection.execute(_ACQUIRE, (worker_id, number, worker_id, worker_id)).fetchone()
            return None if row is None else int(row[0])

        self._held.add(number)  # now: others of this process may ask meanwhile
        epoch: int | None = None
        try:
            epoch = await self._write(acquire)
        finally:
            if epoch is None:
                self._held.discard(number)
        return epoch

    def require(self, connection: SqlConnection, number: int, epoch: int, head: bytes) -> None:
        if number not in self._held:
            raise self._lost()
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
            raise self._lost()

    def release(self, number: int, epoch: int) -> None:
        self._held.discard(number)
        self.membership.release(number, epoch)

    def is_free(self, connection: SqlConnection, number: int) -> bool:
        query = f"SELECT 1 FROM runs WHERE number = ? AND driver IN {ALIVE}"  # noqa: S608 - ours
        return connection.execute(query, (number,)).fetchone() is None

    def on_lost(self, tell: Callable[[Exception], None]) -> None:
        def lost(problem: Exception) -> None:
            self._held.clear()
            tell(problem)

        self.membership.on_lost(lost)

    def _lost(self) -> LeaseLost:
        return LeaseLost(
            "This process could not renew its lease in time, so another one may drive this run",
            hint="Look with `fabric logs show`; it can be resumed: fabric resume.",
        )
