"""Settles commits whose answer was lost: if our hash stands in the log, it happened; if not, it is done again."""

import asyncio
import time
from collections.abc import Callable
from typing import Any, Final

from agent_fabric.domain.errors import DriverConflict, StoreFull, StoreUnavailable
from agent_fabric.domain.ids import RunId
from agent_fabric.infrastructure.persistence.sql import GroupWriter, SqlConnection, UniqueViolation

PATIENCE_S: Final = 5.0
"""How long the database may be gone."""
PAUSE_S: Final = 0.2


def has_event(connection: SqlConnection, run_id: RunId, seq: int, digest: bytes) -> bool:
    """Tell whether a log has this event.

    Raises:
        DriverConflict: it has another one in its place.
    """
    query = "SELECT hash FROM events JOIN runs ON number = run WHERE run_id = ? AND seq = ?"
    row = connection.execute(query, (run_id, seq)).fetchone()
    if row is None:
        return False
    if bytes(row[0]) != digest:
        raise DriverConflict(
            f"Another process has appended to run {run_id}",
            hint="Another process drives it. Look with `fabric logs show`; this one stops.",
        )
    return True


async def write_unless_done(
    writer: GroupWriter,
    write: Callable[[SqlConnection], Any],
    is_done: Callable[[SqlConnection], bool],
    after: Callable[[], None],
) -> None:
    """Do what `write` did in a transaction of which no one knows whether it was committed, if it was not.

    Looking is part of the new transaction: that one has its turn only when the lost one has ended, either way.

    Raises:
        StoreUnavailable: the database did not come back in time.
        DriverConflict: another process was faster.
    """

    def again(connection: SqlConnection) -> None:
        if not is_done(connection):
            write(connection)

    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return await writer.write(again, after=after)
        except (StoreFull, UniqueViolation):
            raise
        except StoreUnavailable:
            if time.monotonic() > deadline:
                raise
        await asyncio.sleep(PAUSE_S)
