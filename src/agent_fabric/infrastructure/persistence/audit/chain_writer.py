"""Adds entries to the audit chain, and keeps the chain's head outside of the database after each commit.

Where one process writes at a time there is one chain. Where many do, what becomes of runs goes into strands
(`strands.py`), and the main chain holds the rest: what people did, removed runs, and the heads of the strands.
"""

import hmac
import json
from collections.abc import Sequence
from dataclasses import asdict, fields
from struct import pack as pack_fields
from typing import TYPE_CHECKING, Any, NamedTuple

from agent_fabric.application.ports.audit import ChainHead, HeadKeeper
from agent_fabric.domain.audit.acts import Act
from agent_fabric.domain.audit.key import UNKEYED, AuditKey
from agent_fabric.infrastructure.persistence.sql import Database, SqlConnection
from agent_fabric.infrastructure.persistence.table import fetch

if TYPE_CHECKING:
    from agent_fabric.infrastructure.persistence.audit.strands import Strand

HEAD, REMOVED, ADMIN, TIE, CLOSED = "head", "removed", "admin", "tie", "closed"
START = b"\0" * 32


class Sealed(NamedTuple):
    """How far a run had come, or that it was removed."""

    at: float
    kind: str
    run: int
    run_id: str
    events: int
    head: bytes
    note: str = ""


class ChainWriter:
    """Writes the audit chain of one store with one key. Its methods are called where the store is written."""

    def __init__(self, key: AuditKey = UNKEYED, heads: HeadKeeper | None = None) -> None:
        self.key = key
        self.heads = heads
        self.strand: Strand | None = None
        """Takes the entries about runs, where other processes write at the same time."""
        self.lock_statement = ""
        """Makes the others that write the main chain wait until the transaction ends. Empty: none can."""
        self._added: ChainHead | None = None
        """Newest entry of the transaction under way."""
        self._committed: ChainHead | None = None
        """Newest committed entry that is not kept outside yet."""
        self.has_head_to_keep = False
        """Whether `open_transaction` may have anything to do: most commits add no entry."""

    def seal(self, connection: SqlConnection, sealed: Sealed) -> None:
        """Add an entry, in the caller's transaction."""
        if self.strand is not None and sealed.kind == HEAD:
            self.strand.add(connection, self.key, (sealed,))
            return
        self.lock(connection)
        last = newest_entry(connection)
        digest = entry_hash(self.key, last.hash or START, sealed)
        # The position is counted here: a counter of the database could be set back with the rows.
        connection.execute(
            "INSERT INTO audit_chain (position, at, kind, run, run_id, events, head, note, key, hash) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (last.position + 1, *sealed, self.key.name, digest),
        )
        self._added, self.has_head_to_keep = ChainHead(last.position + 1, digest), True

    def seal_all(self, connection: SqlConnection, sealed: Sequence[Sealed]) -> None:
        """Add entries about runs, in the caller's transaction."""
        if self.strand is None:
            for each in sealed:
                self.seal(connection, each)
        elif sealed:
            self.strand.add(connection, self.key, sealed)

    def lock(self, connection: SqlConnection) -> None:
        """Let no one else add to the main chain until the caller's transaction ends."""
        if self.lock_statement:
            connection.execute(self.lock_statement)

    def rolled_back(self) -> None:
        """Forget the entries of a transaction that failed, or may have."""
        self._added = None
        if self.strand is not None:
            self.strand.rolled_back()

    def open_transaction(self, connection: SqlConnection, *, patient: bool = False) -> None:
        """Keep the head of a transaction that is durable."""
        if self._added is not None:
            self._committed, self._added = self._added, None
        self.has_head_to_keep = self._committed is not None
        if self._committed is None:
            return
        if self.heads is None or self.heads.advance(
            self._committed, lambda kept: has_entry(connection, kept), patient=patient
        ):
            self._committed, self.has_head_to_keep = None, False


def newest_entry(connection: SqlConnection) -> ChainHead:
    """Return the newest entry of the chain."""
    row = connection.execute("SELECT position, hash FROM audit_chain ORDER BY position DESC LIMIT 1").fetchone()
    return ChainHead(int(row[0]), bytes(row[1])) if row else ChainHead(0, b"")


def has_entry(connection: SqlConnection, head: ChainHead) -> bool:
    """Tell whether the chain has this entry at its place."""
    row = connection.execute("SELECT hash FROM audit_chain WHERE position = ?", (head.position,)).fetchone()
    return bytes(row[0]) == head.hash if row else head == ChainHead(0, b"")


def entry_hash(key: AuditKey, before: bytes, sealed: Sealed) -> bytes:
    """Return the hash of an entry, which covers everything before it as well."""
    numbers = pack_fields("<dqq", sealed.at, sealed.run, sealed.events)
    texts = f"\0{sealed.kind}\0{sealed.run_id}\0{sealed.note}\0{key.name}\0".encode()
    return hmac.digest(key.value, before + numbers + texts + sealed.head, "sha256")


_TEXTS = tuple(field.name for field in fields(Act) if field.name != "at")


class SqlActLog:
    """ActLog over the store: acts are entries of the audit chain."""

    def __init__(self, database: Database, chain: ChainWriter) -> None:
        self._database = database
        self._chain = chain

    async def record(self, act: Act) -> None:
        await self._database.write(lambda connection: add_act(connection, self._chain, act))

    async def recent(self, *, limit: int) -> Sequence[Act]:
        query = "SELECT at, note FROM audit_chain WHERE kind = ? ORDER BY position DESC LIMIT ?"
        return [_act(at, note) for at, note in await fetch(self._database, query, ADMIN, limit)]


def add_act(connection: SqlConnection, chain: ChainWriter, act: Act | None) -> None:
    """Record an act in the caller's transaction: it is recorded if, and only if, what was done is."""
    if act is not None:
        texts = {name: text for name, text in asdict(act).items() if name in _TEXTS and text}
        chain.seal(connection, Sealed(act.at, ADMIN, 0, "", 0, b"", json.dumps(texts)))


def _act(at: float, note: str) -> Act:
    """Return what an entry says; whether it is true is for the check of the chain to tell."""
    try:
        found: Any = json.loads(note)
        texts = {name: str(found.get(name, "")) for name in _TEXTS}
    except (ValueError, AttributeError, RecursionError):
        texts = {**dict.fromkeys(_TEXTS, ""), "detail": note}
    return Act(at=at, **texts)
