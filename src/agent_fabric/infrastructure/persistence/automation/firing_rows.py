"""Rows of the table of firings."""

from collections.abc import Sequence
from typing import Any

from agent_fabric.domain.automation.firing import Firing, FiringStatus, Reason
from agent_fabric.domain.ids import RunId
from agent_fabric.infrastructure.persistence.sql import SqlConnection, storable

FIRING_COLUMNS = "trigger_name, due_at, until_at, count, status, reason, fired_at, run_id, server, about, revision"


def add_firing(connection: SqlConnection, firing: Firing) -> bool:
    """Record a firing, in the caller's transaction; False: there is one for this trigger and instant."""
    query = (
        f"INSERT INTO firings ({FIRING_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"  # noqa: S608 - ours
        " ON CONFLICT (trigger_name, due_at) DO NOTHING RETURNING 1"
    )
    values = (
        storable(firing.trigger),
        firing.due_at,
        firing.until_at,
        firing.count,
        firing.status,
        firing.reason,
        firing.fired_at,
        firing.run_id,
        storable(firing.server),
        storable(firing.about),
        firing.revision,
    )
    return bool(connection.execute(query, values).fetchall())


def make_room(connection: SqlConnection, firing: Firing) -> None:
    """Let an instant that was skipped be fired after all; of several that were skipped together, the others stay so."""
    place = (storable(firing.trigger), firing.due_at)
    alone = "trigger_name = ? AND due_at = ? AND status = 'skipped' AND count = 1"
    connection.execute(f"DELETE FROM firings WHERE {alone}", place)  # noqa: S608 - ours
    connection.execute(
        "UPDATE firings SET due_at = due_at + 0.001, count = count - 1"
        " WHERE trigger_name = ? AND due_at = ? AND status = 'skipped' AND count > 1",
        place,
    )


def firing_from(row: Sequence[Any]) -> Firing:
    """Return the firing of a row with `FIRING_COLUMNS`."""
    trigger, due_at, until_at, count, status, reason, fired_at, run_id, server, about, revision = row
    return Firing(
        trigger=str(trigger),
        due_at=float(due_at),
        until_at=float(until_at),
        count=int(count),
        status=FiringStatus(status),
        reason=Reason(reason),
        fired_at=float(fired_at),
        run_id=None if run_id is None else RunId(str(run_id)),
        server=str(server),
        about=str(about),
        revision=int(revision),
    )
