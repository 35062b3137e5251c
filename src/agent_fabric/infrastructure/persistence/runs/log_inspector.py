"""Recomputes the hashes of a run's log and of the texts that it refers to, and compares the tables that follow from it.

Rows and blobs are read piece by piece: how much memory that takes depends neither on the length of a log nor on the
size of an event.
"""

import hashlib
from collections.abc import Iterator

from agent_fabric.application.ports.audit import LogCondition
from agent_fabric.application.ports.encryption import Cipher
from agent_fabric.domain.errors import RunKeyMissing
from agent_fabric.domain.events import Event
from agent_fabric.domain.ids import LaneId, RunId
from agent_fabric.domain.runs.consequences import has_consequences
from agent_fabric.infrastructure.persistence.runs.codec import decode
from agent_fabric.infrastructure.persistence.runs.event_bodies import DAMAGE, blob_pieces, pieces_of
from agent_fabric.infrastructure.persistence.runs.event_rows import chaining, locate
from agent_fabric.infrastructure.persistence.runs.projections import Projection
from agent_fabric.infrastructure.persistence.secrets.sealing import RunKeys, event_place, is_sealed, unsealed_json
from agent_fabric.infrastructure.persistence.sql import Database, Row, SqlConnection

PAGE = 200
"""Events that are read at a time."""
SHORT_BYTES = 64 * 1024
"""A payload up to this size is read together with others."""
LARGE_BYTES = 4 * 1024 * 1024
"""A payload or blob above this size is hashed, and not kept in memory."""
MAX_SENTENCES = 1_000
"""Damage of one log above this is counted, not described."""


class SqlLogInspector:
    """LogInspector over the store."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def inspect(self, run_id: RunId) -> LogCondition:
        def read(connection: SqlConnection) -> LogCondition:
            connection.execute(self._database.dialect.begin_snapshot)  # a run that goes on meanwhile is no damage
            try:
                return inspect_run(connection, self._database.keys, run_id)
            finally:
                connection.execute("COMMIT")

        return await self._database.read(read)


def inspect_run(connection: SqlConnection, keys: RunKeys, run_id: RunId) -> LogCondition:
    """Recompute every hash of a run's log; they cover what is stored, so that of an encrypted one needs no key.

    Raises:
        RunNotFound: there is none with this id.
    """
    number, key = locate(connection, run_id)
    try:
        bodies: _Bodies | None = _Bodies(connection, keys.cipher(run_id, key))
    except RunKeyMissing:
        bodies = None
    ((status,),) = connection.execute("SELECT status FROM runs WHERE number = ?", (number,)).fetchall()
    damage = _Sentences()
    projection = Projection(run_id)
    readable = bodies is not None
    head, expected = hashlib.sha256(run_id.encode()).digest(), 0
    for position, seq, ts, kind, version, lane, step, size, short, digest in _rows(connection, number):
        small = short
        if short is None and size <= LARGE_BYTES:
            small = b"".join(pieces_of(connection, _PAYLOAD, position, size))
        if seq != expected:
            damage.add(f"event {expected} is missing")
        hashed = chaining(head, seq, ts, kind, version, lane, step)
        for piece in (small,) if small is not None else pieces_of(connection, _PAYLOAD, position, size):
            hashed.update(piece)
        if hashed.digest() != digest:
            damage.add(f"event {seq} ({kind}) is not what was recorded, or does not follow the one before")
        payload = small
        if payload is None and has_consequences(kind):
            payload = b"".join(pieces_of(connection, _PAYLOAD, position, size))
        if bodies is not None and payload is not None:
            try:
                bodies.large = False
                body = decode(kind, version, bodies.plain(seq, kind, payload), bodies.blob)
                event = Event(seq, ts, LaneId(lane) if lane is not None else None, step, body)
                projection.follow(event, whole=not bodies.large)
            except RunKeyMissing:
                bodies, readable = None, False
            except DAMAGE as problem:
                damage.add(f"event {seq} ({kind}) cannot be read: {problem}")
                readable = False
        head, expected = digest, seq + 1
    if bodies is not None and readable:
        for sentence in projection.damage(connection, keys, number, bodies.cipher):
            damage.add(sentence)
    return LogCondition(events=expected, head=head.hex(), status=str(status), damage=damage.told())


def _rows(connection: SqlConnection, number: int) -> Iterator[Row]:
    """Return the rows of a log, page by page: not every database reads them one at a time."""
    last: int | None = -1
    while last is not None:
        rows, last = connection.execute(_PAGE, (SHORT_BYTES, number, last, PAGE)).fetchall(), None
        for row in rows:
            yield row
            last = row[1]


_PAGE = (
    "SELECT position, seq, ts, kind, version, lane, step, length(payload),"
    " CASE WHEN length(payload) <= ? THEN payload END, hash FROM events WHERE run = ? AND seq > ?"
    " ORDER BY seq LIMIT ?"
)
_PAYLOAD = "SELECT substr(payload, ?, ?) FROM events WHERE position = ?"


class _Sentences:
    """What is damaged, with a limit."""

    def __init__(self) -> None:
        self._kept: list[str] = []
        self._more = 0

    def add(self, sentence: str) -> None:
        if len(self._kept) < MAX_SENTENCES:
            self._kept.append(sentence)
        else:
            self._more += 1

    def told(self) -> tuple[str, ...]:
        return (*self._kept, f"and {self._more} more") if self._more else tuple(self._kept)


class _Bodies:
    """Reads what events of one run say; of a large text, only the hash is checked."""

    def __init__(self, connection: SqlConnection, cipher: Cipher | None) -> None:
        self._connection = connection
        self.cipher = cipher
        self.large = False
        """Whether a text was too large to be returned."""

    def plain(self, seq: int, kind: str, payload: bytes) -> bytes:
        if self.cipher is not None:
            return unsealed_json(self.cipher, event_place(seq, kind), payload)
        if is_sealed(payload):
            raise RunKeyMissing("The run's key was removed")
        return payload

    def blob(self, address: bytes) -> bytes:
        """Return a blob's content; of a large one, what stands for it.

        Raises:
            ValueError, zlib.error: it is missing, or not what it was.
        """
        digest, size, kept = hashlib.sha256(), 0, list[bytes]()
        for piece in blob_pieces(self._connection, self.cipher, address):
            digest.update(piece)
            size += len(piece)
            if size <= LARGE_BYTES:
                kept.append(piece)
        if self.cipher is None and digest.digest() != address:
            raise ValueError(f"blob {address.hex()} is missing or not what it was")
        if size <= LARGE_BYTES:
            return b"".join(kept)
        self.large = True
        return b"(a text of %d bytes)" % size
