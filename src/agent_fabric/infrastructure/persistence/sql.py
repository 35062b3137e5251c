"""SQL as table modules see it: one text for SQLite and for PostgreSQL.

A table module holds statements and row mapping, and nothing of a driver. Rules for its text:

- Placeholders are `?`. A driver that wants others translates them.
- `INSERT … ON CONFLICT … DO UPDATE` or `DO NOTHING`, and `RETURNING`; never `INSERT OR …` or the last row id.
- Full-text search is the one query that is not shared: see `run_text_index` and `run_vectors`.
- `CASE` instead of `iif`, `coalesce(sum(x), 0)` instead of `total(x)`, no `rowid`, no PRAGMA.
- Text is stored without lone surrogates and NUL (`storable`).

`apsw.Connection` fits `SqlConnection` as it is, so SQLite pays nothing for the protocol. `postgres.connection` makes
one of a connection of psycopg.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol, TypeVar

from agent_fabric.application.ports.leases import Before
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import StoreUnavailable
from agent_fabric.domain.ids import RunId
from agent_fabric.infrastructure.persistence.dialects import Dialect
from agent_fabric.infrastructure.persistence.secrets.sealing import RunKeys

T = TypeVar("T")
Row = tuple[Any, ...]


class UniqueViolation(StoreUnavailable):
    """A row with the same key exists; nothing of the transaction has happened."""


class CommitUnknown(StoreUnavailable):
    """The connection ended before COMMIT was answered: the transaction has happened, or it has not."""


class Rows(Protocol):
    """The rows of a statement. All of them are read before the next statement runs."""

    def __iter__(self) -> Iterator[Any]:
        """Iterate over the rows."""
        ...

    def fetchone(self) -> Any:
        """Return the next row, or None."""
        ...

    def fetchall(self) -> list[Any]:
        """Return the remaining rows."""
        ...


class SqlConnection(Protocol):
    """A connection; where a table module writes, it is inside a transaction."""

    def execute(self, sql: str, parameters: Any = (), /) -> Rows:
        """Run one statement."""
        ...

    def executemany(self, sql: str, rows: Iterable[Sequence[Any]], /) -> object:
        """Run one statement for each row of parameters."""
        ...


class Condition(NamedTuple):
    """A condition on a table, and the values for its question marks."""

    sql: str
    values: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class OneStatement:
    """A write that is one statement; to run it twice is the same as to run it once. Its rows are returned.

    Where each statement can be a transaction of its own, it is one.
    """

    sql: str
    values: Sequence[Any] = ()

    def __call__(self, connection: SqlConnection) -> list[Any]:
        return connection.execute(self.sql, self.values).fetchall()


class Acquired(NamedTuple):
    """A lease that this process has just been given."""

    epoch: int
    before: Before
    noted: bool = False
    """Whether it is written down who drives the run."""


class RunNumberLeases(Protocol):
    """Which process drives which run, by the number of its row.

    A lease has an epoch. The next driver of a run has a higher one, and nothing is appended under an older one.
    """

    @property
    def free(self) -> Condition | None:
        """Condition on a row of `runs`: this process may acquire it. None: only `is_abandoned` can tell."""
        ...

    def home_of(self, run_id: RunId, created: object) -> str:
        """Return where the workspace of a new run is, whose first event has this body; empty: where the database is."""
        ...

    def hold_new(self, connection: SqlConnection, number: int) -> int:
        """Hold a run that the caller's transaction creates; return the epoch."""
        ...

    async def acquire(self, number: int, *, since: float | None = None) -> Acquired | None:
        """Hold a run that exists, under a new epoch; None if a living process holds it, also this one.

        With `since`, who drives it from then on may be written down in the same transaction.

        Raises:
            StoreUnavailable: it could not be looked up.
        """
        ...

    def require(self, connection: SqlConnection, number: int, epoch: int, head: bytes) -> None:
        """Check, inside the transaction that appends, that no one else has taken the run and that its log ends so.

        Raises:
            DriverConflict: another process holds it by now, or the log is not as we left it.
        """
        ...

    def require_time(self, number: int) -> None:
        """Check that no one else can have taken a run of ours by now; asked before effects begin.

        Raises:
            LeaseLost: someone may have.
        """
        ...

    def write_release(self, connection: SqlConnection, number: int, epoch: int) -> None:
        """Write down, inside a transaction, that a run is released."""
        ...

    def release(self, number: int, epoch: int, *, written: bool = False) -> None:
        """Release a run, so that others can acquire it: now, or in a moment if it is not `written` down yet."""
        ...

    @property
    def abandoned(self) -> Condition | None:
        """Condition on a row of `runs`: what `is_abandoned` tells. None: each has to be tried."""
        ...

    def is_abandoned(self, connection: SqlConnection, number: int) -> bool:
        """Tell whether no living process drives a run, or will do so by itself."""
        ...

    def on_lost(self, tell: Callable[[Exception], None]) -> None:
        """Call `tell`, on some thread, when this process has lost all its leases; nothing can be appended then."""
        ...


class Database(Protocol):
    """What a table module reads and writes through."""

    @property
    def dialect(self) -> Dialect:
        """The few texts that differ."""
        ...

    @property
    def keys(self) -> RunKeys:
        """The keys of encrypted runs."""
        ...

    @property
    def leases(self) -> RunNumberLeases:
        """Who drives which run."""
        ...

    async def read(self, read: Callable[[SqlConnection], T]) -> T:
        """Run `read` on a thread; it sees everything that is durable.

        Raises:
            StoreUnavailable: the database cannot be read.
        """
        ...

    async def read_briefly(self, read: Callable[[SqlConnection], T]) -> T:
        """Run `read`, which takes microseconds: on the event loop, unless a network is in between."""
        ...

    def read_now(self, read: Callable[[SqlConnection], T]) -> T:
        """Run `read` on this thread; for what takes microseconds."""
        ...

    def write(self, write: Callable[[SqlConnection], T]) -> "asyncio.Future[T]":
        """Run `write` in a transaction; the future is done when that is durable. If it fails, nothing has happened.

        The future may end with StoreFull, StoreUnavailable, UniqueViolation, or what `write` itself raised. After a
        CommitUnknown it may have happened.
        """
        ...

    def write_along(self, write: Callable[[SqlConnection], object]) -> None:
        """Run `write` in the next transaction; it may be lost, and its outcome is not reported."""
        ...

    async def truncate_log(self) -> bool:
        """Erase deleted data from the write-ahead log; False if that has to be tried again later."""
        ...


class GroupWriter(Protocol):
    """What writes for a process, and groups the commits of all its runs."""

    def write(
        self, write: Callable[[SqlConnection], T], *, after: Callable[[], None] | None = None, alone: bool = False
    ) -> "asyncio.Future[T]":
        """Run `write` inside a transaction; the future is done once that is durable.

        Cancelling the future does not stop the write. `after` runs once the transaction is durable, before any later
        write; it updates mirrors. `alone` says that no other run of this process would have to wait for the disk.
        `write` may be called again, if another write of its group failed. The future may end with:

            CommitUnknown: whether it has happened is not known.
            StoreFull, StoreUnavailable: nothing of `write` has happened.
            Exception: what `write` itself raised; nothing of it has happened, other writes are not affected.
        """
        ...

    def write_along(self, write: Callable[[SqlConnection], object]) -> None:
        """Run `write` inside the next transaction, or when the writer is closed.

        For best-effort writes: it costs no commit of its own, and its outcome is not reported.
        """
        ...

    async def between_writes(self, work: Callable[[], None]) -> None:
        """Run `work` on a thread, while nothing is being written."""
        ...


class LogDatabase(Database, Protocol):
    """What the event store reads and writes through."""

    @property
    def writer(self) -> GroupWriter:
        """The one writer of this process."""
        ...


@contextmanager
def erasing(connection: SqlConnection, dialect: Dialect) -> Iterator[None]:
    """Let deletions overwrite their data: nothing must stay in a page that is no longer used."""
    begin, end = dialect.erase_deleted
    if begin:
        connection.execute(begin)
    yield
    if end:
        connection.execute(end)


def storable(text: str) -> str:
    """Return text without lone surrogates and NUL, which not every database stores."""
    return text.encode(errors="replace").decode().replace("\0", "\ufffd")


def marks(values: Sequence[object]) -> str:
    """Return as many placeholders, for `IN (…)`."""
    return ", ".join("?" * len(values))
