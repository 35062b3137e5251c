"""The rows behind a run: its number, its events, and who drives it."""

import hashlib
import time
from struct import Struct
from typing import Any, NamedTuple

from agent_fabric.application.ports.encryption import Cipher
from agent_fabric.application.ports.runs import CANCEL, CHILD
from agent_fabric.config.constants import DEFAULT_POOL
from agent_fabric.domain.errors import DriverConflict, RunNotFound
from agent_fabric.domain.events import Event, RunCreated
from agent_fabric.domain.ids import LaneId, RunId
from agent_fabric.domain.runs.consequences import ChildCancel
from agent_fabric.domain.runs.task import RunStatus
from agent_fabric.infrastructure.persistence.runs.event_bodies import body_reader, damage_explained
from agent_fabric.infrastructure.persistence.runs.run_leases import this_process
from agent_fabric.infrastructure.persistence.sql import Condition, SqlConnection, storable
from agent_fabric.wire.json_codec import dump_json


def chain_hash(
    before: bytes, seq: int, ts: float, kind: str, version: int, lane: str | None, step: str, payload: bytes
) -> bytes:
    """Return the hash of an event, which covers everything before it as well."""
    numbers = _PACK_NUMBERS(seq, ts, version)
    return hashlib.sha256(_PLACE % (before, numbers, f"{kind}\0{lane or ''}\0{step}".encode()) + payload).digest()


def chaining(
    before: bytes, seq: int, ts: float, kind: str, version: int, lane: str | None, step: str
) -> "hashlib._Hash":
    """Begin the hash of an event; its payload is still missing."""
    numbers = _PACK_NUMBERS(seq, ts, version)
    return hashlib.sha256(_PLACE % (before, numbers, f"{kind}\0{lane or ''}\0{step}".encode()))


_PLACE = b"%b%b\0%b\0"
_PACK_NUMBERS = Struct("<qdq").pack


def number_of(connection: SqlConnection, run_id: RunId) -> int:
    """Return the number under which a run's events are kept.

    Raises:
        RunNotFound: there is no such run.
    """
    row = connection.execute("SELECT number FROM runs WHERE run_id = ?", (run_id,)).fetchone()
    if row is None:
        raise no_such_run(run_id)
    return int(row[0])


class Located(NamedTuple):
    """Where a run's events are kept, and what they are sealed with."""

    number: int
    key: bytes | None
    """The run's key, sealed; None if it is not encrypted."""


def locate(connection: SqlConnection, run_id: RunId) -> Located:
    """Return where a run is.

    Raises:
        RunNotFound: there is no such run.
    """
    query = "SELECT number, key FROM runs LEFT JOIN run_keys ON run = number WHERE run_id = ?"
    row = connection.execute(query, (run_id,)).fetchone()
    if row is None:
        raise no_such_run(run_id)
    return Located(*row)


def no_such_run(run_id: RunId) -> RunNotFound:
    """Return the error of a run that is not there."""
    return RunNotFound(f"There is no run {run_id!r}", hint="See all runs with `fabric logs list`.")


def add_key(connection: SqlConnection, number: int, sealed: bytes) -> None:
    """Keep the key of a run that is encrypted."""
    connection.execute("INSERT INTO run_keys (run, key) VALUES (?, ?)", (number, sealed))


class RunFields(NamedTuple):
    """What the row of a run says besides its id, time and driver."""

    owner: str = ""
    visibility: str = "team"
    trial_of: str = ""
    session_id: str = ""
    pool: str = DEFAULT_POOL
    continues: RunId | None = None


def run_fields(created: object) -> RunFields:
    """Return what the first event of a run, whose body is given, means for its row."""
    if not isinstance(created, RunCreated):
        return RunFields()
    return RunFields(
        storable(created.owner),
        created.visibility,
        storable(created.trial_of),
        storable(created.session),
        storable(created.pool or DEFAULT_POOL),
        created.continues,
    )


def add_run(
    connection: SqlConnection,
    run_id: RunId,
    created_at: float,
    created: object,
    *,
    parent: int | None = None,
    home: str = "",
) -> int:
    """Make room for a run and return its number. `created` is the body of its first event.

    `parent` is the number of the run that it works for, `home` where its workspace is.

    Raises:
        DriverConflict: there is one with this id.
    """
    query = (
        "INSERT INTO runs (run_id, status, created_at, parent, owner, visibility, trial_of, session_id, home, pool,"
        " continues) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, (SELECT number FROM runs WHERE run_id = ?))"
        " ON CONFLICT (run_id) DO NOTHING RETURNING number"
    )
    *asked, pool, continues = run_fields(created)
    values = (run_id, RunStatus.RUNNING, created_at, parent, *asked, home, pool, continues)
    rows = connection.execute(query, values).fetchall()
    if not rows:
        raise DriverConflict(f"There is a run {run_id} already")
    return int(rows[0][0])


def recorded_status(connection: SqlConnection, number: int) -> RunStatus:
    """Return the status that a run's log ends with."""
    ((value,),) = connection.execute("SELECT status FROM runs WHERE number = ?", (number,)).fetchall()
    return known_status(value)


def known_status(value: object) -> RunStatus:
    """Return a status as it stands in the table."""
    try:
        return RunStatus(str(value))
    except ValueError:
        return RunStatus.WAITING  # a newer program's: not settled, and not for us to drive


def note_status(connection: SqlConnection, number: int, status: RunStatus, wake_at: float | None) -> None:
    """Keep a run's status beside its log. One that has settled has no driver."""
    query = "UPDATE runs SET status = ?, wake_at = ? WHERE number = ?"
    if status.settled:
        query = "UPDATE runs SET status = ?, wake_at = ?, driver = '' WHERE number = ?"
    connection.execute(query, (status, wake_at, number))


def notify_parent(connection: SqlConnection, parent: RunId, run_id: RunId, ended_at: float) -> None:
    """Tell a run that has not settled that a child of it has."""
    query = (
        "INSERT INTO inbox (run, kind, payload, created_at) SELECT number, ?, ?, ? FROM runs"
        " WHERE run_id = ? AND status IN ('running', 'waiting', 'interrupted')"
    )
    connection.execute(query, (CHILD, dump_json({"run_id": run_id}), ended_at, parent))


def cancel_children(
    connection: SqlConnection, number: int, run_id: RunId, ended_at: float, cancel: ChildCancel
) -> None:
    """Ask children that have not settled to end."""
    query = (
        "INSERT INTO inbox (run, kind, payload, created_at) SELECT number, ?, ?, ? FROM runs"
        " WHERE parent = ? AND status IN ('running', 'waiting', 'interrupted')"
    )
    values = [CANCEL, dump_json({"by": f"run {run_id}", "reason": cancel.reason}), ended_at, number]
    if cancel.child is not None:
        query += " AND run_id = ?"
        values.append(cancel.child)
    connection.execute(query, values)


def add_to_inbox(connection: SqlConnection, number: int, kind: str, payload: bytes, at: float) -> None:
    """Put a row into a run's inbox; the payload is as it is stored."""
    query = "INSERT INTO inbox (run, kind, payload, created_at) VALUES (?, ?, ?, ?)"
    connection.execute(query, (number, kind, payload, at))


def empty_inbox(connection: SqlConnection, number: int) -> None:
    """Delete the inbox rows of a settled run, which will never be read."""
    connection.execute("DELETE FROM inbox WHERE run = ?", (number,))


def note_in_outbox(connection: SqlConnection, number: int, from_seq: int, upto_seq: int, at: float) -> None:
    """Note that the bus is to be told of events; in their transaction."""
    connection.execute(
        "INSERT INTO outbox (run, from_seq, upto_seq, noted_at) VALUES (?, ?, ?, ?)"
        " ON CONFLICT (run) DO UPDATE SET upto_seq = excluded.upto_seq",
        (number, from_seq, upto_seq, at),
    )


def holder_of(connection: SqlConnection, number: int) -> str:
    """Say who drives a run."""
    row = connection.execute("SELECT holder, since FROM drivers WHERE run = ?", (number,)).fetchone()
    if row is None:
        return "another process"
    since = time.strftime("%H:%M:%S", time.localtime(row[1]))
    return f"{row[0]} since {since}"


def load_events(
    connection: SqlConnection, number: int, cipher: Cipher | None = None, *, after: int = -1
) -> list[Event]:
    """Return a run's events, whole: long texts are read back from their blobs."""
    read = body_reader(connection, number, cipher)
    query = "SELECT seq, ts, kind, version, lane, step, payload FROM events WHERE run = ? AND seq > ? ORDER BY seq"
    with damage_explained():
        return [
            Event(seq, ts, LaneId(lane) if lane is not None else None, step, read(seq, kind, version, payload))
            for seq, ts, kind, version, lane, step, payload in connection.execute(query, (number, after))
        ]


def head_of(connection: SqlConnection, number: int) -> bytes:
    """Return the hash of a run's last event."""
    # There is always a row: a run is created together with its first event.
    query = "SELECT hash FROM events WHERE run = ? ORDER BY seq DESC LIMIT 1"
    ((head,),) = connection.execute(query, (number,)).fetchall()
    assert isinstance(head, bytes)
    return head


def note_driver(connection: SqlConnection, number: int, since: float) -> None:
    """Write down that this process drives a run."""
    connection.execute(
        "INSERT INTO drivers (run, holder, since) VALUES (?, ?, ?)"
        " ON CONFLICT (run) DO UPDATE SET holder = excluded.holder, since = excluded.since",
        (number, this_process(), since),
    )


def forget_driver(connection: SqlConnection, number: int, since: float) -> None:
    """Write down that we do not drive a run any more, and that its mirrors are whole."""
    query = "DELETE FROM drivers WHERE run = ? AND holder = ? AND since = ?"
    connection.execute(query, (number, this_process(), since))


def driven_runs(connection: SqlConnection, free: Condition | None = None) -> list[tuple[int, RunId, bytes | None]]:
    """Return the runs that a process drives, or drove when it died, with the keys of those that are encrypted.

    Where processes claim runs (`free`), one that has to go on is left out: its next driver looks after its mirrors, and
    must be able to tell that the last one died.
    """
    query = (
        "SELECT drivers.run, runs.run_id, run_keys.key FROM drivers"
        " JOIN runs ON runs.number = drivers.run LEFT JOIN run_keys ON run_keys.run = drivers.run"
    )
    if free is not None:
        query += f" WHERE runs.status <> 'running' AND {free.sql}"
    rows: list[tuple[Any, ...]] = connection.execute(query, free.values if free is not None else ()).fetchall()
    return [(number, RunId(run_id), key) for number, run_id, key in rows]
