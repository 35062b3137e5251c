"""Deletes old runs from the database and the disk; each leaves a tombstone in the audit chain."""

import asyncio
from collections.abc import Callable, Container, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from agent_fabric.application.ports.clock import Clock
from agent_fabric.domain.errors import RunHeld
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.task import RunStatus
from agent_fabric.infrastructure.persistence.audit.chain_writer import REMOVED, ChainWriter, Sealed
from agent_fabric.infrastructure.persistence.dialects import Dialect
from agent_fabric.infrastructure.persistence.runs.codec import blobs_named_in
from agent_fabric.infrastructure.persistence.runs.event_rows import head_of, locate
from agent_fabric.infrastructure.persistence.runs.index_batches import settled_position
from agent_fabric.infrastructure.persistence.runs.run_text_index import forget_activity, forget_text
from agent_fabric.infrastructure.persistence.secrets.sealing import HASH_BYTES, OWNER_BYTES, owner_of
from agent_fabric.infrastructure.persistence.sql import Database, SqlConnection, erasing, marks
from agent_fabric.infrastructure.persistence.table import fetch
from agent_fabric.infrastructure.tree_walk import remove_tree

AT_ONCE = 200
"""Blobs that are removed in one transaction, so that runs can write in between."""


_SETTLED = [status.value for status in RunStatus if status.settled]
_OF_RUN = ("events", "inbox", "outbox", "drivers", "refusals", "run_vectors", "pending_approvals", "run_keys")
"""Tables whose rows go with their run."""


class SqlRetentionStore:
    """RetentionStore over the store and the folders of runs."""

    def __init__(self, database: Database, folder_of: Callable[[RunId], str], clock: Clock, chain: ChainWriter) -> None:
        self._database = database
        self._folder_of = folder_of
        self._clock = clock
        self._chain = chain
        self._must_truncate = False
        """Whether the write-ahead log may still hold something of runs that are gone."""

    async def settled_before(self, at: float) -> list[RunId]:
        query = (
            f"SELECT run_id FROM runs WHERE status IN ({marks(_SETTLED)}) AND "  # noqa: S608 - only marks
            "(SELECT max(ts) FROM events WHERE events.run = runs.number) < ? AND "
            # A workflow that goes on reads how the runs ended that work for it; they all work in its folder.
            f"NOT EXISTS (SELECT 1 FROM runs AS kin WHERE kin.status NOT IN ({marks(_SETTLED)}) AND "
            "(kin.number = runs.parent OR kin.parent = runs.number)) "
            # Turns go with their session.
            "AND session_id = '' "
            # What follows a run up works in its workspace.
            "AND NOT EXISTS (SELECT 1 FROM runs AS later WHERE later.continues = runs.number) ORDER BY number"
        )
        return [run_id for (run_id,) in await fetch(self._database, query, *_SETTLED, at, *_SETTLED)]

    async def remove(self, run_id: RunId, *, by: str, reason: str) -> int:
        number = (await self._database.read(lambda connection: locate(connection, run_id))).number
        lease = await self._database.leases.acquire(number)
        if lease is None:
            raise RunHeld(f"Run {run_id} is being driven", hint="Try again when it has ended.")
        try:
            folder = Path(self._folder_of(run_id))  # before anything is removed: it may be refused
            note = f"{reason}, by {by}"
            freed = await self._database.write(lambda connection: self._forget(connection, number, run_id, note))
            self._must_truncate = True
            return freed + await asyncio.to_thread(remove_tree, folder)
        finally:
            self._database.leases.release(number, lease.epoch)

    async def sweep(self) -> int:
        since, unnamed = await self._database.read(partial(_unnamed_blobs, dialect=self._database.dialect))
        freed = 0
        for first in range(0, len(unnamed), AT_ONCE):
            some = unnamed[first : first + AT_ONCE]
            freed += await self._database.write(
                partial(_remove_blobs, dialect=self._database.dialect, unnamed=some, since=since)
            )
        if self._must_truncate:
            self._must_truncate = not await self._database.truncate_log()
        return freed

    def _forget(self, connection: SqlConnection, number: int, run_id: RunId, note: str) -> int:
        encrypted = locate(connection, run_id).key is not None  # fails if another process was faster
        if connection.execute("SELECT 1 FROM runs WHERE continues = ?", (number,)).fetchone() is not None:
            raise RunHeld(f"Run {run_id} is followed up by another one", hint="Delete that one first.")
        ((events, size),) = connection.execute(
            "SELECT count(*), coalesce(sum(length(payload)), 0) FROM events WHERE run = ?", (number,)
        ).fetchall()
        head = head_of(connection, number)
        self._chain.seal(connection, Sealed(self._clock.now(), REMOVED, number, run_id, int(str(events)), head, note))
        with erasing(connection, self._database.dialect):
            forget_activity(connection, number)
            for table in _OF_RUN:
                connection.execute(f"DELETE FROM {table} WHERE run = ?", (number,))  # noqa: S608 - our own names
            connection.execute("DELETE FROM runs WHERE number = ?", (number,))
            forget_text(connection, number)
            if encrypted:
                owner = owner_of(run_id)
                query = "DELETE FROM blobs WHERE hash BETWEEN ? AND ? AND length(hash) > ? RETURNING length(data)"
                found = connection.execute(query, (owner, owner + b"\xff" * HASH_BYTES, HASH_BYTES)).fetchall()
                size = float(str(size)) + sum(int(str(length)) for (length,) in found)
        return int(float(str(size)))


def _unnamed_blobs(connection: SqlConnection, dialect: Dialect) -> tuple[int, list[bytes]]:
    """Return the blobs that nothing refers to, and up to which event that is so."""
    since = settled_position(connection, dialect)
    named, owners = set(_named_hashes(connection, dialect, 0)), _owners(connection)
    rows: Any = connection.execute("SELECT hash FROM blobs")
    return since, [digest for (digest,) in rows if not _is_needed(digest, named, owners)]


def _remove_blobs(connection: SqlConnection, dialect: Dialect, unnamed: Sequence[bytes], since: int) -> int:
    """Delete blobs except those that an event refers to by now; return how many bytes they had."""
    named, owners = set(_named_hashes(connection, dialect, since)), _owners(connection)
    freed = 0
    for digest in unnamed:
        if not _is_needed(digest, named, owners):
            query = "DELETE FROM blobs WHERE hash = ? RETURNING length(data)"
            freed += sum(int(str(size)) for (size,) in connection.execute(query, (digest,)).fetchall())
    return freed


def _is_needed(digest: bytes, named: Container[bytes], owners: Container[bytes]) -> bool:
    # What names a sealed blob is sealed, too; such a blob belongs to one run and goes with it.
    return digest in named if len(digest) == HASH_BYTES else digest[:OWNER_BYTES] in owners


def _owners(connection: SqlConnection) -> set[bytes]:
    query = "SELECT run_id FROM run_keys JOIN runs ON number = run"
    return {owner_of(str(run_id)) for (run_id,) in connection.execute(query)}


def _named_hashes(connection: SqlConnection, dialect: Dialect, since: int) -> Iterator[bytes]:
    query = f"SELECT payload FROM events WHERE position > ? AND {dialect.holds_blob}"  # noqa: S608 - ours
    rows: Any = connection.execute(query, (since,))
    for (payload,) in rows:
        yield from blobs_named_in(payload)
