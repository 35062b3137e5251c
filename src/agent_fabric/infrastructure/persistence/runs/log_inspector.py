"""Recomputes the hashes of a run's log and of the texts that it refers to, and compares the tables that follow from it.

Rows and blobs are read piece by piece: how much memory that takes depends neither on the length of a log nor on the
size of an event.
"""

import hashlib
import zlib
from collections.abc import Iterator
from dataclasses import fields
from typing import Any, NamedTuple

from agent_fabric.application.ports.approvals import ApprovalCard, ApprovalStatus, follow_approvals
from agent_fabric.application.ports.audit import LogCondition
from agent_fabric.application.ports.encryption import Cipher
from agent_fabric.application.ports.runs import APPROVAL
from agent_fabric.config.constants import DEFAULT_POOL
from agent_fabric.domain.approvals.answers import Decision
from agent_fabric.domain.approvals.events import ApprovalRequested
from agent_fabric.domain.errors import RunKeyMissing
from agent_fabric.domain.events import Event, RunCreated, UnknownEvent
from agent_fabric.domain.ids import LaneId, RunId
from agent_fabric.domain.runs.consequences import consequences, has_consequences
from agent_fabric.domain.runs.event_versions import is_known
from agent_fabric.domain.runs.task import RunStatus
from agent_fabric.infrastructure.persistence.approvals.questions import cards_of, plain_field
from agent_fabric.infrastructure.persistence.runs.codec import decode, restore
from agent_fabric.infrastructure.persistence.runs.event_bodies import DAMAGE, blob_pieces, pieces_of
from agent_fabric.infrastructure.persistence.runs.event_rows import chaining, no_such_run
from agent_fabric.infrastructure.persistence.runs.inbox import unsealed_payload
from agent_fabric.infrastructure.persistence.secrets.sealing import RunKeys, event_place, is_sealed, unsealed_json
from agent_fabric.infrastructure.persistence.sql import Database, Row, SqlConnection
from agent_fabric.wire.json_codec import load_json

CREATION_S = 60.0
"""A run is created within this time of its first event."""


class Projection:
    """What the tables must say of one run, from its events."""

    def __init__(self, run_id: RunId) -> None:
        self._run_id = run_id
        self._created: RunCreated | None = None
        self._created_at: float | None = None
        self._status = RunStatus.RUNNING
        self._wake_at: float | None = None
        self._cards: dict[str, ApprovalCard] = {}
        self._cut: set[str] = set()
        """Questions whose arguments are too long to be compared."""
        self._known = True
        """Whether every event is of a kind that this program knows."""

    def follow(self, event: Event, *, whole: bool = True) -> None:
        """Take in the next event; of one that is not `whole`, something else stands for long texts."""
        match event.body:
            case ApprovalRequested() as asked if not whole:
                self._cut.add(asked.approval_id)
            case RunCreated() as created if self._created is None:
                self._created, self._created_at = created, event.ts
            case UnknownEvent():
                self._known = False
            case _:
                pass
        following = consequences(self._run_id, self._created, (event,))
        if following.status is not None:
            self._status, self._wake_at = following.status, following.wake_at
        follow_approvals(self._cards, self._run_id, following)

    def damage(self, connection: SqlConnection, keys: RunKeys, row: "RunRow", cipher: Cipher | None) -> Iterator[str]:
        """Return where the tables say something else, one sentence each."""
        if self._known:  # a newer program's events may have had other consequences
            yield from self._status_damage(connection, row)
            yield from self._approval_damage(connection, keys, row.number, cipher)

    def _status_damage(self, connection: SqlConnection, row: "RunRow") -> Iterator[str]:
        created = self._created
        if row.status != self._status:
            yield f"the store says that the run is {row.status}, but its log ends as {self._status.value}"
        if row.wake_at != self._wake_at:
            yield (
                f"the table of runs has another time at which it goes on ({row.wake_at}) than its log ({self._wake_at})"
            )
        if self._created_at is not None and not abs(row.created_at - self._created_at) <= CREATION_S:
            yield f"the table of runs has another time of its beginning ({row.created_at}) than its log"
        if created is not None and (row.owner, row.visibility) != (created.owner, created.visibility):
            yield f"the table of runs has another owner or visibility ({row.owner}, {row.visibility}) than its log"
        recorded = created.parent.run_id if created is not None and created.parent else None
        if row.parent != recorded:
            yield f"the table of runs says that it works for {row.parent}, and its log for {recorded}"
        if row.continues != _number_of(connection, None if created is None else created.continues):
            yield "the table of runs names another run that it follows up than its log"
        if created is None:
            return
        if row.trial_of != created.trial_of:
            yield "the table of runs names another evaluation that it is a trial of than its log"
        if row.pool != (created.pool or DEFAULT_POOL):
            yield f"the table of runs has another pool ({row.pool}) than its log"
        if row.session_id != created.session:
            yield "the table of runs names another session that it is a turn of than its log"

    def _is_late_answer(self, card: ApprovalCard) -> bool:
        """Tell whether 0.5 may have left an answer there when the run was cancelled without having read it."""
        by_0_5 = self._created is not None and not self._created.owner
        return by_0_5 and card.status in _ANSWERED and card.decided_by != "" and card.decided_at is not None

    def _approval_damage(
        self, connection: SqlConnection, keys: RunKeys, number: int, cipher: Cipher | None
    ) -> Iterator[str]:
        try:
            found = {card.approval_id: card for card in cards_of(connection, keys, number)}
        except (ValueError, KeyError, TypeError, zlib.error) as problem:
            yield f"its approvals cannot be read: {problem}"
            return
        waits = any(card.status is ApprovalStatus.PENDING for card in self._cards.values())
        answers = _answers(connection, number, cipher) if waits else {}
        for approval_id in sorted(found.keys() | self._cards.keys()):
            card, recorded = found.get(approval_id), self._cards.get(approval_id)
            if card is None:
                yield f"approval {approval_id} is missing from the table"
            elif recorded is None:
                yield f"approval {approval_id} is in the table, and not in its log"
            else:
                expected = answers.get(approval_id, {}) if recorded.status is ApprovalStatus.PENDING else {}
                wanted = {name: plain_field(recorded, name) for name in _FIELDS} | expected
                if recorded.status is ApprovalStatus.CANCELLED and self._is_late_answer(card):
                    wanted = {name: value for name, value in wanted.items() if name not in _DECISION}
                if approval_id in self._cut:
                    del wanted["args"]
                differs = [name for name, value in wanted.items() if plain_field(card, name) != value]
                if differs:
                    yield f"approval {approval_id} is not what its log says: {', '.join(differs)}"


_FIELDS = [field.name for field in fields(ApprovalCard) if field.name not in {"owner", "binding", "changed", "damage"}]
"""The owner is the run's, and compared there; two are only in the log; damage is what this looks for."""

_ANSWERED = (ApprovalStatus.APPROVED, ApprovalStatus.DENIED, ApprovalStatus.DONE)
_DECISION = ("status", "decided_by", "decided_at", "decided_because")


def _answers(connection: SqlConnection, number: int, cipher: Cipher | None) -> dict[str, dict[str, Any]]:
    """Return what unread answers in the run's inbox make of its cards, by approval."""
    found: dict[str, dict[str, Any]] = {}
    query = "SELECT payload, created_at FROM inbox WHERE run = ? AND kind = ?"
    for payload, at in connection.execute(query, (number, APPROVAL)):
        try:
            row = load_json(unsealed_payload(cipher, APPROVAL, payload))
            found[str(row["approval_id"])] = {
                "status": ApprovalStatus.after(Decision(row["decision"])).value,
                "decided_by": row["by"],
                "decided_because": row["reason"],
                "decided_at": at,
            }
        except (ValueError, KeyError, TypeError):
            continue  # no answer of ours, so it accounts for nothing
    return found


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
    run = run_row(connection, run_id)
    number = run.number
    try:
        bodies: _Bodies | None = _Bodies(connection, keys.cipher(run_id, run.key))
    except RunKeyMissing:
        bodies = None
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
                plain = bodies.plain(seq, kind, payload)
                if is_known(kind, version) and not has_consequences(kind):
                    restore(plain, bodies.blob)  # whether it can be read is all there is to know
                else:
                    body = decode(kind, version, plain, bodies.blob)
                    event = Event(seq, ts, LaneId(lane) if lane is not None else None, step, body)
                    projection.follow(event, whole=not bodies.large)
            except RunKeyMissing:
                bodies, readable = None, False
            except DAMAGE as problem:
                damage.add(f"event {seq} ({kind}) cannot be read: {problem}")
                readable = False
        head, expected = digest, seq + 1
    if bodies is not None and readable:
        for sentence in projection.damage(connection, keys, run, bodies.cipher):
            damage.add(sentence)
    return LogCondition(events=expected, head=head.hex(), status=str(run.status), damage=damage.sentences())


class RunRow(NamedTuple):
    """What the store says of a run beside its log."""

    number: int
    key: bytes | None
    status: str
    wake_at: float | None
    created_at: float
    owner: str
    visibility: str
    parent: str | None
    """The id of the run that it works for."""
    continues: int | None
    trial_of: str
    pool: str
    session_id: str


def run_row(connection: SqlConnection, run_id: RunId) -> RunRow:
    """Look a run up.

    Raises:
        RunNotFound: there is none with this id.
    """
    row = connection.execute(_RUN, (run_id,)).fetchone()
    if row is None:
        raise no_such_run(run_id)
    return RunRow(*row)


_RUN = (
    "SELECT runs.number, key, runs.status, runs.wake_at, runs.created_at, runs.owner, runs.visibility,"
    " CASE WHEN runs.parent IS NOT NULL THEN"
    " coalesce(parents.run_id, (SELECT run_id FROM audit_chain WHERE run = runs.parent LIMIT 1), '?') END,"
    " runs.continues, runs.trial_of, runs.pool, runs.session_id"
    " FROM runs LEFT JOIN run_keys ON run_keys.run = runs.number LEFT JOIN runs AS parents"
    " ON parents.number = runs.parent WHERE runs.run_id = ?"
)


def _number_of(connection: SqlConnection, run_id: RunId | None) -> int | None:
    """Return the number of a run; None: it is not there, or none is named."""
    if run_id is None:
        return None
    row = connection.execute("SELECT number FROM runs WHERE run_id = ?", (run_id,)).fetchone()
    return None if row is None else int(row[0])


def _rows(connection: SqlConnection, number: int) -> Iterator[Row]:
    """Return the rows of a log, page by page: not every database reads them one at a time."""
    last: int | None = -1
    while last is not None:
        rows, last = connection.execute(_PAGE, (SHORT_BYTES, number, last, PAGE)).fetchall(), None
        yield from rows
        if len(rows) == PAGE:
            last = rows[-1][1]


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

    def sentences(self) -> tuple[str, ...]:
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
