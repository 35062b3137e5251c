"""The chain over all runs: each entry holds the head of a run's log and the hash of the entry before.

An entry is written in the transaction of the event that it covers: when a run begins, and whenever it stops, waits or
settles. What people do to the folder itself stands among them, in entries that belong to no run. The hash is keyed, so
that write access to the database alone, without the user's own files, is not enough to forge the chain.
"""

import hmac
from collections.abc import Iterator
from struct import pack as pack_fields
from typing import NamedTuple

from agent_fabric.application.ports.audit import ChainReport
from agent_fabric.domain.audit_key import AuditKey
from agent_fabric.domain.ids import RunId
from agent_fabric.infrastructure.persistence.dialects import Dialect
from agent_fabric.infrastructure.persistence.log_inspector import inspect_run
from agent_fabric.infrastructure.persistence.sealing import RunKeys
from agent_fabric.infrastructure.persistence.sql import Database, SqlConnection

HEAD, REMOVED, ADMIN = "head", "removed", "admin"
_START = b"\0" * 32


class Sealed(NamedTuple):
    """How far a run had come, or that it was removed."""

    at: float
    kind: str
    run: int
    run_id: str
    events: int
    head: bytes
    note: str = ""


class _Entry(NamedTuple):
    position: int
    sealed: Sealed
    key: str
    hash: bytes


def seal(connection: SqlConnection, key: AuditKey, sealed: Sealed) -> None:
    """Add an entry, in the caller's transaction."""
    last = connection.execute("SELECT hash FROM audit_chain ORDER BY position DESC LIMIT 1").fetchone()
    before = bytes(last[0]) if last else _START
    connection.execute(
        "INSERT INTO audit_chain (at, kind, run, run_id, events, head, note, key, hash) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (*sealed, key.name, _hash(key, before, sealed)),
    )


def _hash(key: AuditKey, before: bytes, sealed: Sealed) -> bytes:
    numbers = pack_fields("<dqq", sealed.at, sealed.run, sealed.events)
    texts = f"\0{sealed.kind}\0{sealed.run_id}\0{sealed.note}\0{key.name}\0".encode()
    return hmac.digest(key.value, before + numbers + texts + sealed.head, "sha256")


class SqlAuditChain:
    """AuditChain over the store."""

    def __init__(self, database: Database, key: AuditKey) -> None:
        self._database = database
        self._key = key

    async def verify(self) -> ChainReport:
        def read(connection: SqlConnection) -> ChainReport:
            connection.execute(self._database.dialect.begin_snapshot)  # runs that go on meanwhile are no damage
            try:
                return _verify(connection, self._database.dialect, self._key, self._database.keys)
            finally:
                connection.execute("COMMIT")

        return await self._database.read(read)

    async def holds(self, head: str) -> bool:
        try:
            digest = bytes.fromhex(head)
        except ValueError:
            return False
        query = "SELECT 1 FROM audit_chain WHERE hash = ?"
        return await self._database.read(lambda connection: connection.execute(query, (digest,)).fetchone() is not None)


def _verify(connection: SqlConnection, dialect: Dialect, key: AuditKey, keys: RunKeys) -> ChainReport:
    damage: list[str] = []
    before, expected, unknown = _START, 1, 0
    newest: dict[int, Sealed] = {}
    for entry in _entries(connection):
        if entry.position != expected:
            damage.append(f"entry {expected} of the chain is missing")
        if entry.key != key.name:
            unknown += 1
        elif not hmac.compare_digest(_hash(key, before, entry.sealed), entry.hash):
            damage.append(f"entry {entry.position} of the chain is not what was recorded, or does not follow")
        before, expected = entry.hash, entry.position + 1
        if entry.sealed.kind != ADMIN:
            newest[entry.sealed.run] = entry.sealed
    if expected <= _last_given(connection, dialect, "audit_chain"):
        damage.append(f"the chain was cut behind entry {expected - 1}")
    known = {int(number): str(run_id) for number, run_id in connection.execute("SELECT number, run_id FROM runs")}
    damage += _missing_runs(_last_given(connection, dialect, "runs"), known, newest)
    for number, run_id in sorted(known.items()):
        damage += _damage_of(connection, keys, run_id, newest.get(number))
    removed = sum(entry.kind == REMOVED for entry in newest.values())
    return ChainReport(
        entries=expected - 1,
        runs=len(known),
        removed=removed,
        head=before.hex(),
        damage=tuple(damage),
        unknown_key=unknown,
    )


def _entries(connection: SqlConnection) -> Iterator[_Entry]:
    query = "SELECT position, at, kind, run, run_id, events, head, note, key, hash FROM audit_chain ORDER BY position"
    for position, *sealed, key, digest in connection.execute(query):
        yield _Entry(position, Sealed(*sealed), key, digest)


def _missing_runs(last: int, known: dict[int, str], newest: dict[int, Sealed]) -> list[str]:
    found = []
    for number in range(1, last + 1):
        entry = newest.get(number)
        if number in known:
            if entry is not None and entry.kind == REMOVED:
                found.append(f"run {entry.run_id} was removed, but there is one with its number")
        elif entry is None:
            found.append(f"run number {number} is missing, and nothing is known about it")
        elif entry.kind != REMOVED:
            found.append(f"run {entry.run_id} is missing, and no removal is recorded")
    return found


def _damage_of(connection: SqlConnection, keys: RunKeys, run_id: str, entry: Sealed | None) -> list[str]:
    condition = inspect_run(connection, keys, RunId(run_id))
    damage = [f"run {run_id}: {sentence}" for sentence in condition.damage]
    if entry is None or entry.kind == REMOVED:
        return damage
    if condition.events < entry.events:
        damage.append(f"run {run_id}: {entry.events - condition.events} events at its end are missing")
        return damage
    query = "SELECT hash FROM events JOIN runs ON runs.number = events.run WHERE run_id = ? AND seq = ?"
    row = connection.execute(query, (run_id, entry.events - 1)).fetchone()
    if row is None or bytes(row[0]) != entry.head:
        damage.append(f"run {run_id}: its log is not the one that was recorded")
    return damage


def _last_given(connection: SqlConnection, dialect: Dialect, table: str) -> int:
    row = connection.execute(dialect.last_number, (table,)).fetchone()
    return int(row[0]) if row and row[0] is not None else 0
