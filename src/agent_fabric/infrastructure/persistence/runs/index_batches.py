"""Indexing what was appended to logs, in batches: other reads and writes go on in between.

Each index keeps in a table how far it has come. Encrypted runs are never indexed.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import StoreFull
from agent_fabric.infrastructure.persistence.dialects import Dialect
from agent_fabric.infrastructure.persistence.sql import Database, SqlConnection, marks
from agent_fabric.infrastructure.persistence.text_search import TextSearch

_MAX_EVENTS: Final = 20_000
"""Events looked through in one read. Progress is kept at least this often."""

_log = logging.getLogger(__name__)


class IndexedText(NamedTuple):
    """A text for an index."""

    row: int
    run: int
    text: str


class _Batch(NamedTuple):
    """What is to be indexed next."""

    before: int
    """Position of the last event that is indexed."""
    upto: int
    """And once this batch is."""
    texts: list[IndexedText]
    rest: bool
    """Whether there is more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventIndex:
    """One index over events."""

    progress: str
    """The table that says how far it has come."""
    kinds: tuple[str, ...]
    """Of events that it has."""
    max_texts: int
    """Written in one transaction at most: other writes wait for it."""
    max_chars: int
    """As above."""
    row_of: Callable[[int, int, str], int | None]
    """Gives the row for a run's number, an event's number and its kind; None: it is not indexed."""
    text_of: Callable[[SqlConnection, int, int, str, int, bytes], str]
    """Gives the text of an event: run, number, kind, version and payload."""
    put: Callable[[SqlConnection, TextSearch, Sequence[IndexedText]], None]
    """Writes texts that are not empty."""

    async def catch_up(self, database: Database) -> None:
        """Index what was appended since the last time, as far as it is there at the end of the last batch.

        Raises:
            StoreUnavailable: the store cannot be read or written.
        """
        search = database.dialect.text_search
        next_batch = partial(self._next_batch, dialect=database.dialect)
        batch = await database.read(next_batch)
        while batch.texts or batch.rest:
            try:
                await database.write(partial(self._write, batch=batch, search=search))
            except StoreFull as problem:  # what is indexed can still be searched
                _log.warning("Runs are searched with an old index: %s", problem.message)
                return
            if not batch.rest:  # where runs never pause, there would always be a few more events
                return
            batch = await database.read(next_batch)

    def count_unindexed(self, connection: SqlConnection) -> int:
        """Return how many events have not been looked at. They are counted: positions in PostgreSQL have gaps."""
        query = f"SELECT count(*) FROM events WHERE position > (SELECT position FROM {self.progress})"  # noqa: S608 - ours
        return int(connection.execute(query).fetchone()[0])

    def lacks_many(self, connection: SqlConnection, few: int) -> bool:
        """Return whether more events than `few` have not been looked at, without counting them all."""
        query = f"SELECT 1 FROM events WHERE position > (SELECT position FROM {self.progress}) LIMIT 1 OFFSET ?"  # noqa: S608 - ours
        return bool(connection.execute(query, (few,)).fetchall())

    def _next_batch(self, connection: SqlConnection, dialect: Dialect) -> _Batch:
        before = int(connection.execute(f"SELECT position FROM {self.progress}").fetchone()[0])  # noqa: S608 - ours
        newest = settled_position(connection, dialect, known=before)
        upto = min(before + _MAX_EVENTS, newest)
        query = (
            "SELECT position, run, seq, kind, version, payload FROM events WHERE position > ? AND position <= ?"  # noqa: S608 - only marks
            f" AND kind IN ({marks(self.kinds)})"
            " AND NOT EXISTS (SELECT 1 FROM run_keys WHERE run_keys.run = events.run) ORDER BY position LIMIT ?"
        )
        found: list[Any] = connection.execute(query, (before, upto, *self.kinds, self.max_texts)).fetchall()
        texts: list[IndexedText] = []
        chars = 0
        for number, (position, run, seq, kind, version, payload) in enumerate(found, 1):
            row = self.row_of(run, seq, kind)
            if row is not None:
                texts.append(IndexedText(row, run, self.text_of(connection, run, seq, kind, version, payload)))
                chars += len(texts[-1].text)
            if chars >= self.max_chars or number == self.max_texts:
                return _Batch(before, position, texts, rest=True)
        return _Batch(before, upto, texts, rest=upto < newest)

    def _write(self, connection: SqlConnection, batch: _Batch, search: TextSearch) -> None:
        query = f"UPDATE {self.progress} SET position = ? WHERE position = ? RETURNING 1"  # noqa: S608 - ours
        if not connection.execute(query, (batch.upto, batch.before)).fetchall():
            return  # another process was faster
        self.put(connection, search, [each for each in batch.texts if each.text])


class KeptIndex:
    """Keeps one index up to date. Other reads and writes go on in between."""

    def __init__(self, database: Database, index: EventIndex) -> None:
        self._database = database
        self._index = index
        self._is_wanted = False
        """Whether someone has come since the index was last looked at."""
        self._catching_up: asyncio.Task[None] | None = None

    async def count_unindexed(self) -> int:
        """Return how many events have not been looked at."""
        return await self._database.read(self._index.count_unindexed)

    async def lacks_many(self, few: int) -> bool:
        """Return whether more events than `few` have not been looked at."""
        return await self._database.read(partial(self._index.lacks_many, few=few))

    async def catch_up(self, *, patience_s: float | None = None) -> None:
        """Index what was appended since the last time; after `patience_s`, the rest is indexed in the background.

        Raises:
            StoreUnavailable: the store cannot be read or written.
        """
        self._is_wanted = True
        task = self._catching_up
        if task is None or task.done():
            task = self._catching_up = asyncio.create_task(self._catch_up())
        await asyncio.wait([task], timeout=patience_s)
        if task.done():
            task.result()

    async def _catch_up(self) -> None:
        while self._is_wanted:
            self._is_wanted = False
            await self._index.catch_up(self._database)


_NEWEST = "SELECT coalesce(max(position), 0) FROM events"


def settled_position(connection: SqlConnection, dialect: Dialect, *, known: int = -1) -> int:
    """Return the newest position before which nothing is being written any more; outside of a transaction.

    `known` is a position of which that is known. Unless there are newer events, no one is waited for.
    """
    newest = int(connection.execute(_NEWEST).fetchone()[0])
    if not dialect.wait_for_writers or newest <= known:
        return newest
    connection.execute("BEGIN")
    connection.execute(dialect.wait_for_writers)
    newest = int(connection.execute(_NEWEST).fetchone()[0])
    connection.execute("COMMIT")
    return newest
