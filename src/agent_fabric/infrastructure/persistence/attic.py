"""Takes old runs out of the store and off the disk, and leaves a tombstone in the audit chain for each."""

import asyncio
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import apsw

from agent_fabric.application.ports.clock import Clock
from agent_fabric.domain.errors import RunHeld
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.task import RunStatus
from agent_fabric.infrastructure.persistence.audit_chain import REMOVED, AuditKey, Sealed, seal
from agent_fabric.infrastructure.persistence.codec import blobs_named_in
from agent_fabric.infrastructure.persistence.event_rows import head_of, number_of
from agent_fabric.infrastructure.persistence.store import Store

_SETTLED = [status.value for status in RunStatus if status.settled]


class SqliteAttic:
    """Attic over the store and the folders of runs."""

    def __init__(self, store: Store, folder_of: Callable[[RunId], str], clock: Clock, key: AuditKey) -> None:
        self._store = store
        self._folder_of = folder_of
        self._clock = clock
        self._key = key

    async def settled_before(self, at: float) -> list[RunId]:
        marks = ",".join("?" * len(_SETTLED))
        query = (
            f"SELECT run_id FROM runs WHERE status IN ({marks}) AND "  # noqa: S608 - only marks
            "(SELECT max(ts) FROM events WHERE events.run = runs.number) < ? AND "
            # A workflow that goes on reads how the runs ended that work for it; they all work in its folder.
            f"NOT EXISTS (SELECT 1 FROM runs AS kin WHERE kin.status NOT IN ({marks}) AND "
            "(kin.number = runs.parent OR kin.parent = runs.number)) ORDER BY number"
        )
        values = (*_SETTLED, at, *_SETTLED)
        return await self._store.read(
            lambda connection: [RunId(str(run_id)) for (run_id,) in connection.execute(query, values)]
        )

    async def remove(self, run_id: RunId, *, by: str, reason: str) -> int:
        number = await self._store.read(lambda connection: number_of(connection, run_id))
        if not self._store.locks.acquire(number):
            raise RunHeld(f"Run {run_id} is being driven", hint="Try again when it has ended.")
        try:
            note = f"{reason}, by {by}"
            freed = await self._store.writer.write(lambda connection: self._forget(connection, number, run_id, note))
            return freed + await asyncio.to_thread(_remove_folder, Path(self._folder_of(run_id)))
        finally:
            self._store.locks.release(number)

    async def sweep(self) -> int:
        return await self._store.writer.write(_remove_unnamed_blobs)

    def _forget(self, connection: apsw.Connection, number: int, run_id: RunId, note: str) -> int:
        number_of(connection, run_id)  # somebody may have been faster
        ((events, size),) = connection.execute(
            "SELECT count(*), total(length(payload)) FROM events WHERE run = ?", (number,)
        ).fetchall()
        head = head_of(connection, number)
        seal(connection, self._key, Sealed(self._clock.now(), REMOVED, number, run_id, int(str(events)), head, note))
        for table, column in (
            ("events", "run"),
            ("inbox", "run"),
            ("drivers", "run"),
            ("run_vectors", "run"),
            ("pending_approvals", "run"),
            ("runs", "number"),
        ):
            connection.execute(f"DELETE FROM {table} WHERE {column} = ?", (number,))  # noqa: S608 - our own names
        return int(float(str(size)))


def _remove_folder(folder: Path) -> int:
    size = 0
    for path in folder.rglob("*"):
        with suppress(OSError):
            size += path.lstat().st_size
    shutil.rmtree(folder, ignore_errors=True)
    return size


def _remove_unnamed_blobs(connection: apsw.Connection) -> int:
    named = set(_named(connection))
    unnamed = [
        (bytes(digest), int(size))
        for digest, size in connection.execute("SELECT hash, length(data) FROM blobs")
        if bytes(digest) not in named
    ]
    connection.executemany("DELETE FROM blobs WHERE hash = ?", [(digest,) for digest, _ in unnamed])
    return sum(size for _, size in unnamed)


def _named(connection: apsw.Connection) -> Iterator[bytes]:
    rows: Any = connection.execute("SELECT payload FROM events WHERE instr(payload, CAST('\"$blob\"' AS BLOB)) > 0")
    for (payload,) in rows:
        yield from blobs_named_in(payload)
