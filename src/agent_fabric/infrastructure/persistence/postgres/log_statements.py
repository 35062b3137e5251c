"""The hot path of a store in PostgreSQL: rows of many runs in one statement.

The fence is part of the statement that appends. A run's row is locked, its epoch must be ours and the log must end as
we left it; else nothing of that run is written, and the others are not affected. Rows of different runs never wait for
each other. Blobs are inserted in the order of their hashes, so that two processes with the same ones cannot wait for
each other in a circle.
"""

from collections.abc import Sequence
from typing import Any, Final

from agent_fabric.application.ports.approvals import ApprovalStatus
from agent_fabric.application.ports.runs import APPROVAL
from agent_fabric.domain.errors import DriverConflict
from agent_fabric.domain.runs.task import RunStatus
from agent_fabric.infrastructure.persistence.dialects import WRITERS_LOCK
from agent_fabric.infrastructure.persistence.group_commits import Refused
from agent_fabric.infrastructure.persistence.postgres.binary import (
    BIGINT,
    BIGINTS,
    BYTEA,
    BYTEAS,
    FLOATS,
    TEXTS,
    BinaryStatement,
)
from agent_fabric.infrastructure.persistence.postgres.connection import PostgresConnection
from agent_fabric.infrastructure.persistence.postgres.leases import PostgresLeases
from agent_fabric.infrastructure.persistence.runs.event_rows import run_fields
from agent_fabric.infrastructure.persistence.runs.log_writes import AppendEvents, ForgetDriver, NewRunRow, ReleaseRun
from agent_fabric.infrastructure.persistence.runs.run_leases import this_process

LOCK_TIMEOUT_S: Final = 60
"""How long a write waits for one that has the database for itself. Each takes milliseconds."""

FIRST_EPOCH: Final = 1
"""Of the creator of a run."""

_EVENT: Final = "run, seq, ts, kind, version, lane, step, payload, hash"
_ROWS: Final = (BIGINTS, BIGINTS, FLOATS, TEXTS, BIGINTS, TEXTS, TEXTS, BYTEAS, BYTEAS)
_FENCE: Final = (BIGINTS, BIGINTS, BIGINTS, BYTEAS)
_BLOBS: Final = (BYTEAS, BYTEAS)
_TURN: Final = (
    f"turn AS MATERIALIZED (SELECT pg_advisory_xact_lock_shared({WRITERS_LOCK}) FROM"  # noqa: S608 - ours
    f" (SELECT set_config('lock_timeout', '{LOCK_TIMEOUT_S}s', true) OFFSET 0) AS patience)"
)
_FENCED: Final = (
    "fenced AS MATERIALIZED (SELECT runs.number FROM turn, unnest($1, $2, $3, $4) AS ours (number, epoch, first, head)"
    " JOIN runs ON runs.number = ours.number AND runs.epoch = ours.epoch"
    " WHERE ours.first = 0 OR (SELECT hash FROM events WHERE run = ours.number AND seq = ours.first - 1) = ours.head"
    " ORDER BY runs.number FOR UPDATE OF runs)"
)
_ADDED: Final = (
    f"added AS (INSERT INTO events ({_EVENT}) SELECT rows.* FROM"  # noqa: S608 - ours
    f" unnest($5, $6, $7, $8, $9, $10, $11, $12, $13) AS rows ({_EVENT}) JOIN fenced ON fenced.number = rows.run)"
)
_KEPT: Final = (
    "kept AS (INSERT INTO blobs (hash, data) SELECT given.* FROM turn, unnest($14, $15) AS given (hash, data)"
    " ORDER BY given.hash ON CONFLICT DO NOTHING)"
)
_APPEND: Final = BinaryStatement(
    f"WITH {_TURN}, {_FENCED}, {_ADDED} SELECT number FROM fenced",  # noqa: S608 - ours
    (*_FENCE, *_ROWS),
)
_APPEND_WITH_BLOBS: Final = BinaryStatement(
    f"WITH {_TURN}, {_FENCED}, {_KEPT}, {_ADDED} SELECT number FROM fenced",  # noqa: S608 - ours
    (*_FENCE, *_ROWS, *_BLOBS),
)
_APPEND_ONE: Final = BinaryStatement(
    # Half the server's work of the other one: with a single run, planning is most of it.
    "WITH fenced AS MATERIALIZED (SELECT number,"  # noqa: S608 - ours
    f" set_config('lock_timeout', '{LOCK_TIMEOUT_S}s', true), pg_advisory_xact_lock_shared({WRITERS_LOCK}) FROM runs"
    " WHERE number = $1 AND epoch = $2 AND ($3 = 0 OR (SELECT hash FROM events WHERE run = $1 AND seq = $3 - 1) = $4)"
    " FOR UPDATE)"
    f" INSERT INTO events ({_EVENT}) SELECT fenced.number, rows.* FROM fenced,"
    " unnest($5, $6, $7, $8, $9, $10, $11, $12) AS rows RETURNING run",
    (BIGINT, BIGINT, BIGINT, BYTEA, *_ROWS[1:]),
    "fabric_append_one",
)
_CREATE: Final = BinaryStatement(
    "WITH new AS MATERIALIZED (SELECT * FROM unnest($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13) AS new"  # noqa: S608 - ours
    " (run_id, status, created_at, home, driver, owner, visibility, trial_of, session_id, pool, continues, holder,"
    " since) WHERE EXISTS (SELECT 1 FROM workers WHERE id = new.driver AND state <> 'gone')),"
    " made AS (INSERT INTO runs (run_id, status, created_at, home, driver, owner, visibility, trial_of, session_id,"
    " pool, epoch, continues) SELECT run_id, status, created_at, home, driver, owner, visibility, trial_of, session_id,"
    f" pool, {FIRST_EPOCH}, (SELECT number FROM runs WHERE runs.run_id = new.continues) FROM new"
    " ON CONFLICT (run_id) DO NOTHING RETURNING run_id, number),"
    " noted AS (INSERT INTO drivers (run, holder, since) SELECT made.number, new.holder, new.since"
    " FROM made JOIN new ON new.run_id = made.run_id)"
    " SELECT run_id, number FROM made",
    (TEXTS, TEXTS, FLOATS, *(TEXTS,) * 9, FLOATS),
    "fabric_create_runs",
)
_KEYS: Final = BinaryStatement(
    "INSERT INTO run_keys (run, key) SELECT * FROM unnest($1, $2)", (BIGINTS, BYTEAS), "fabric_add_keys"
)

_FORGET: Final = BinaryStatement(
    "DELETE FROM drivers USING unnest($1, $2, $3) AS ours (run, holder, since)"
    " WHERE drivers.run = ours.run AND drivers.holder = ours.holder AND drivers.since = ours.since",
    (BIGINTS, TEXTS, FLOATS),
    "fabric_forget_drivers",
)
_RELEASE: Final = BinaryStatement(
    "UPDATE runs SET driver = '' FROM unnest($1, $2) AS ours (number, epoch)"
    " WHERE runs.number = ours.number AND runs.epoch = ours.epoch",
    (BIGINTS, BIGINTS),
    "fabric_release_runs",
)
_SETTLE: Final = BinaryStatement(
    # As `note_status`, `cancel_approvals` and `empty_inbox` write it for one run.
    "WITH ours AS MATERIALIZED (SELECT * FROM unnest($1, $2) AS ours (number, status)),"  # noqa: S608 - ours
    " ended AS (UPDATE runs SET status = ours.status, wake_at = NULL, driver = '' FROM ours"
    " WHERE runs.number = ours.number),"
    f" cancelled AS (UPDATE pending_approvals SET status = '{ApprovalStatus.CANCELLED}', decided_by = '',"
    " decided_at = NULL, decided_because = '' FROM ours WHERE pending_approvals.run = ours.number"
    f" AND (pending_approvals.status = '{ApprovalStatus.PENDING}' OR EXISTS (SELECT 1 FROM inbox"
    f" WHERE inbox.run = pending_approvals.run AND inbox.kind = '{APPROVAL}'"
    " AND inbox.created_at = pending_approvals.decided_at)))"
    " DELETE FROM inbox USING ours WHERE inbox.run = ours.number",
    (BIGINTS, TEXTS),
    "fabric_settle_runs",
)


def append_all(
    connection: PostgresConnection, leases: PostgresLeases, appends: Sequence[AppendEvents]
) -> list[Refused | None]:
    """Write the events of many runs in one statement, which is a transaction if there is none yet.

    Returns for each what stands against it; None: its events are written.
    """
    ours = [append for append in appends if append.rows and leases.holds(append.held.number)]
    passed = _append(connection, ours) if ours else set()
    return [None if append.held.number in passed else _why_not(connection, append) for append in appends]


def _append(connection: PostgresConnection, appends: Sequence[AppendEvents]) -> set[int]:
    """Return the numbers of the runs that have passed the fence, and whose events are written."""
    blobs = {digest: data for append in appends for digest, data in append.blobs}
    fence = [(each.held.number, each.held.epoch, each.rows[0][0], each.before) for each in appends]
    if len(appends) == 1 and not blobs:
        found = connection.execute_binary(_APPEND_ONE, [*fence[0], *zip(*appends[0].rows, strict=True)])
    else:
        rows = [(each.held.number, *row) for each in appends for row in each.rows]
        columns: list[Any] = [*zip(*fence, strict=True), *zip(*rows, strict=True)]
        if blobs:
            found = connection.execute_binary(_APPEND_WITH_BLOBS, [*columns, [*blobs], [*blobs.values()]])
        else:
            found = connection.execute_binary(_APPEND, columns)
    return {int.from_bytes(number) for (number,) in found}


def _why_not(connection: PostgresConnection, append: AppendEvents) -> Refused | None:
    """Say why a run has not passed the fence; one without events has not been at it yet."""
    try:
        append.leases.require(connection, append.held.number, append.held.epoch, append.before)
    except DriverConflict as problem:
        return Refused(problem)
    if not append.rows:
        return None
    hint = "Look with `fabric logs show`; this process stops driving it."
    return Refused(DriverConflict("Another process has taken this run over", hint=hint))


def create_held(
    connection: PostgresConnection, leases: PostgresLeases, appends: Sequence[AppendEvents]
) -> dict[int, Refused]:
    """Insert the rows of new runs, which this process holds from now on.

    Returns those that exist already, by the `id` of their write.

    Raises:
        LeaseLost: this process has been written off.
    """
    new = [(append, append.new) for append in appends if append.new is not None]
    if not new:
        return {}
    for append, _ in new:
        if append.held.number:  # a second attempt, after another write of the same commit failed: it may differ
            leases.release(append.held.number, append.held.epoch)
    numbers = _create(connection, leases, [row for _, row in new])
    leases.hold_created(numbers.values())
    refused: dict[int, Refused] = {}
    for append, row in new:
        append.held.number, append.held.epoch = numbers.pop(row.run_id, 0), FIRST_EPOCH
        if not append.held.number:
            refused[id(append)] = Refused(DriverConflict(f"There is a run {row.run_id} already"))
    return refused


def _create(connection: PostgresConnection, leases: PostgresLeases, new: Sequence[NewRunRow]) -> dict[str, int]:
    """Return the numbers of the runs that did not exist, by their ids."""
    worker_id = leases.membership.worker_id
    columns = zip(*(_values(row, worker_id, leases.home_of(row.run_id, row.created)) for row in new), strict=True)
    found = connection.execute_binary(_CREATE, list(columns))
    numbers = {run_id.decode(): int.from_bytes(number) for run_id, number in found}
    if not numbers:
        leases.require_member(connection, worker_id)
        return numbers
    keys = [(numbers[row.run_id], row.key) for row in new if row.key is not None and row.run_id in numbers]
    if keys:
        connection.execute_binary(_KEYS, list(zip(*keys, strict=True)))
    return numbers


def settle_all(connection: PostgresConnection, appends: Sequence[AppendEvents]) -> None:
    """Write what follows from the end of runs of which no one else has to be told."""
    if appends:
        statuses = [str(each.settles) for each in appends]
        connection.execute_binary(_SETTLE, [[each.held.number for each in appends], statuses])


def release_all(
    connection: PostgresConnection, releases: Sequence[ReleaseRun], forgotten: Sequence[ForgetDriver]
) -> None:
    """Release runs whose mirrors are whole, and forget who has driven those and others."""
    ready = [each for each in releases if each.is_mirrored()]
    gone = [(each.held.number, each.since) for each in ready] + [(each.number, each.since) for each in forgotten]
    if gone:
        numbers, since = zip(*gone, strict=True)
        connection.execute_binary(_FORGET, [numbers, [this_process()] * len(gone), since])
    if ready:
        held = [(each.held.number, each.held.epoch) for each in ready]
        connection.execute_binary(_RELEASE, list(zip(*held, strict=True)))


def _values(row: NewRunRow, worker_id: str, home: str) -> tuple[Any, ...]:
    said = run_fields(row.created)
    return (row.run_id, RunStatus.RUNNING, row.created_at, home, worker_id, *said, this_process(), row.since)
