"""Writes that processes which share a database make at the same time: of rows of one run, or one statement each.

Every other write is one that looks first and writes then, and has the database for itself while it does. A database in
a file knows no difference.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.task import RunStatus
from agent_fabric.infrastructure.persistence.audit.chain_writer import ChainWriter, Sealed
from agent_fabric.infrastructure.persistence.runs.event_rows import add_key, add_run, forget_driver, note_driver
from agent_fabric.infrastructure.persistence.sql import OneStatement, RunNumberLeases, SqlConnection

EventRow = tuple[int, float, str, int, str | None, str, bytes, bytes]
"""Number, time, kind, version, lane, step, payload and hash of an event."""
_INSERT_EVENT: Final = (
    "INSERT INTO events (run, seq, ts, kind, version, lane, step, payload, hash) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
)


class Numbered(Protocol):
    """A run of this process, by the number of its row and the epoch of its lease."""

    number: int
    epoch: int


@dataclass(frozen=True, slots=True)
class OfOneRun:
    """A write of which it does not matter what other processes write at the same time."""

    write: Callable[[SqlConnection], Any]

    def __call__(self, connection: SqlConnection) -> Any:
        return self.write(connection)


@dataclass(frozen=True, slots=True)
class ForgetDriver:
    """Says that this process does not drive a run any more, and that its mirrors are whole."""

    number: int
    since: float

    def __call__(self, connection: SqlConnection) -> None:
        forget_driver(connection, self.number, self.since)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseRun:
    """Releases a run, if its mirrors can be brought up to date; else the row of its driver stays, which says so."""

    held: Numbered
    leases: RunNumberLeases
    since: float
    """When this process began to drive it."""
    is_mirrored: Callable[[], bool]
    """Brings the mirrors up to date, and tells whether they are."""

    def __call__(self, connection: SqlConnection) -> None:
        if self.is_mirrored():
            forget_driver(connection, self.held.number, self.since)
            self.leases.write_release(connection, self.held.number, self.held.epoch)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRunRow:
    """The row of a run that this process creates and holds."""

    run_id: RunId
    created_at: float
    created: object
    """The body of its first event."""
    key: bytes | None
    """Its key, sealed, if it is encrypted."""
    since: float
    """When this process began to drive it."""

    def insert(self, connection: SqlConnection, held: Numbered, leases: RunNumberLeases) -> None:
        """Insert the row and hold the run.

        Raises:
            DriverConflict: there is one with this id.
        """
        if held.number:  # a second attempt, after another write of the same commit failed: it may differ
            leases.release(held.number, held.epoch)
        home = leases.home_of(self.run_id, self.created)
        held.number = add_run(connection, self.run_id, self.created_at, self.created, home=home)
        if self.key is not None:
            add_key(connection, held.number, self.key)
        held.epoch = leases.hold_new(connection, held.number)
        note_driver(connection, held.number, self.since)


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendEvents:
    """Events of one run, and what has to be written with them. Called, it writes row by row."""

    held: Numbered
    leases: RunNumberLeases
    before: bytes
    """The hash that the log must end with; that of the run's id for a new one."""
    rows: Sequence[EventRow]
    blobs: Sequence[tuple[bytes, bytes]]
    new: NewRunRow | None = None
    """The run itself, if it is created with these events."""
    then: Callable[[SqlConnection], None] | None = None
    """Writes what follows from the events."""
    settles: RunStatus | None = None
    """The status that the run ends with, if nothing else follows: `then` writes it, or one statement for many runs."""
    sealed: Callable[[], Sealed] | None = None
    """Returns the entry for the audit chain, as soon as the run has a number."""
    chain: ChainWriter

    @property
    def is_plain(self) -> bool:
        """Whether there is nothing but events."""
        return self.new is None and self.then is None and self.sealed is None

    def __call__(self, connection: SqlConnection) -> None:
        if self.new is not None:
            self.new.insert(connection, self.held, self.leases)
        else:
            self.leases.require(connection, self.held.number, self.held.epoch, self.before)
        insert_rows(connection, self.held.number, self.rows, self.blobs)
        if self.then is not None:
            self.then(connection)
        if self.sealed is not None:
            self.chain.seal(connection, self.sealed())


def insert_rows(
    connection: SqlConnection, number: int, rows: Sequence[EventRow], blobs: Sequence[tuple[bytes, bytes]]
) -> None:
    """Insert the events of one run."""
    if blobs:
        connection.executemany("INSERT INTO blobs (hash, data) VALUES (?, ?) ON CONFLICT DO NOTHING", blobs)
    connection.executemany(_INSERT_EVENT, list(map((number,).__add__, rows)))


RunWrite = OfOneRun | OneStatement | AppendEvents | ForgetDriver | ReleaseRun
