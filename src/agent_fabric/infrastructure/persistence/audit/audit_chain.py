"""Verifies the chain over all runs: each entry holds the head of a run's log and the hash of the entry before.

An entry is written in the transaction of the event that it covers: when a run begins, and whenever it stops, waits or
settles. What people do to the folder itself stands among them, in entries that belong to no run. The hash is keyed, so
that write access to the database alone, without the user's own files, is not enough to forge the chain. Entries that
are missing at its end are noticed by the head that is kept outside of the database. Where many processes write, the
entries about runs are in strands that the chain ties together.
"""

import hmac
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

from agent_fabric.application.ports.audit import ChainHead, ChainReport, HeadDamaged
from agent_fabric.domain.audit.key import AuditKey
from agent_fabric.domain.errors import StoreUnavailable
from agent_fabric.domain.ids import RunId
from agent_fabric.infrastructure.persistence.audit.chain_writer import (
    CLOSED,
    HEAD,
    REMOVED,
    START,
    TIE,
    ChainWriter,
    Sealed,
    entry_hash,
    has_entry,
    newest_entry,
)
from agent_fabric.infrastructure.persistence.audit.strands import read_tie, start_of
from agent_fabric.infrastructure.persistence.runs.log_inspector import MAX_SENTENCES, inspect_run
from agent_fabric.infrastructure.persistence.secrets.sealing import RunKeys
from agent_fabric.infrastructure.persistence.sql import Database, SqlConnection
from agent_fabric.infrastructure.persistence.table import fetch

SHOWN: Final = 8
"""Characters of a strand's name in a sentence."""


class Entry(NamedTuple):
    """An entry as it is stored."""

    position: int
    sealed: Sealed
    key: str
    hash: bytes


class _Tied(NamedTuple):
    number: int
    hash: bytes
    position: int
    """The entry of the main chain that says so."""


class ChainCheck:
    """Goes through the main chain first, and then through the strands."""

    def __init__(self, key: AuditKey) -> None:
        self._key = key
        self.damage: list[str] = []
        self.unknown_key = 0
        """Entries that were made with another key, and could not be checked."""
        self.newest: dict[int, Sealed] = {}
        """How far each run has come, by its number."""
        self.main_entries = 0
        self.strand_entries = 0
        self.untied = 0
        """Entries of strands that the main chain does not cover yet."""
        self.head = START
        """Hash of the last entry of the main chain."""
        self._tied: dict[str, _Tied] = {}

    def check_main(self, entries: Iterable[Entry]) -> None:
        """Check the main chain, and note which heads of strands it ties."""
        before, expected = START, 1
        for entry in entries:
            if entry.position != expected:
                self.damage.append(f"entry {expected} of the chain is missing")
            if not self._is_right(before, entry):
                self.damage.append(f"entry {entry.position} of the chain is not what was recorded, or does not follow")
            before, expected = entry.hash, entry.position + 1
            if entry.sealed.kind == TIE:
                self._note_ties(entry.position, read_tie(entry.sealed.note))
            self._note(entry.sealed)
        self.head, self.main_entries = before, expected - 1

    def check_strands(self, entries: Iterable[tuple[str, Entry]]) -> None:
        """Check all strands, each with its entries in their order and not between those of another one."""
        strand, before, expected, closed = "", START, 1, False
        for name, entry in entries:
            if name != strand:
                self._end_strand(strand, expected - 1)
                strand, before, expected, closed = name, start_of(name), 1, False
            tied, shown = self._tied.get(name), name[:SHOWN]
            if entry.position != expected:
                self.damage.append(f"entry {expected} of strand {shown} is missing")
            if closed:
                self.damage.append(f"entry {entry.position} of strand {shown} was added after it was closed")
            right = self._is_right(before, entry)
            if right and tied is not None and tied.number == entry.position:
                right = hmac.compare_digest(tied.hash, entry.hash)
            if not right:
                self.damage.append(f"entry {entry.position} of strand {shown} is not what was recorded")
            before, expected, closed = entry.hash, entry.position + 1, entry.sealed.kind == CLOSED
            self.strand_entries += 1
            self.untied += tied is None or entry.position > tied.number
            self._note(entry.sealed)
        self._end_strand(strand, expected - 1)
        for name in sorted(self._tied):
            self._end_strand(name, 0)

    def _is_right(self, before: bytes, entry: Entry) -> bool:
        if entry.key != self._key.name:
            self.unknown_key += 1
            return True
        return hmac.compare_digest(entry_hash(self._key, before, entry.sealed), entry.hash)

    def _note_ties(self, position: int, heads: Mapping[str, tuple[int, bytes]]) -> None:
        for strand, (number, digest) in heads.items():
            earlier = self._tied.get(strand)
            if earlier is not None and number <= earlier.number:
                self.damage.append(
                    f"entry {position} of the chain ties entry {number} of strand {strand[:SHOWN]}, although entry "
                    f"{earlier.position} has tied entry {earlier.number}: newer entries of it were removed in between"
                )
            self._tied[strand] = _Tied(number, digest, position)

    def _end_strand(self, strand: str, last: int) -> None:
        """Say what is missing at the end of a strand that went up to `last`."""
        tied = self._tied.pop(strand, None)
        if tied is not None and last < tied.number:
            missing = f"entries {last + 1} to {tied.number}" if last + 1 < tied.number else f"entry {tied.number}"
            self.damage.append(
                f"{missing} of strand {strand[:SHOWN]} {'are' if last + 1 < tied.number else 'is'} missing: entry "
                f"{tied.position} of the chain has tied them"
            )

    def _note(self, sealed: Sealed) -> None:
        """Remember the newest state of a run. Strands are not in the order of time, but a log only grows."""
        if sealed.kind not in (HEAD, REMOVED):
            return
        known = self.newest.get(sealed.run)
        if known is None or (sealed.kind == REMOVED, sealed.events) >= (known.kind == REMOVED, known.events):
            self.newest[sealed.run] = sealed


PAGE: Final = 2_000
"""Entries that are read at a time."""
MIN_POSITION: Final = -(2**63)
"""Before every entry, whatever someone has put there."""
_FIELDS: Final = "at, kind, run, run_id, events, head, note, key, hash"


class SqlAuditChain:
    """AuditChain over the store."""

    def __init__(self, database: Database, chain: ChainWriter) -> None:
        self._database = database
        self._key = chain.key
        self._heads = chain.heads

    async def verify(self) -> ChainReport:
        kept, damage = self._kept_head()  # before the database is read: it must not be ahead of what is read then

        def read(connection: SqlConnection) -> ChainReport:
            connection.execute(self._database.dialect.begin_snapshot)  # runs that go on meanwhile are no damage
            try:
                return verify_chain(connection, self._key, self._database.keys, kept, damage)
            finally:
                connection.execute("COMMIT")

        report = await self._database.read(read)
        heads = self._heads
        if heads is not None and not damage:
            await self._database.read(
                lambda connection: heads.advance(newest_entry(connection), partial(has_entry, connection))
            )
        return report

    def _kept_head(self) -> tuple[ChainHead | None, list[str]]:
        try:
            return (None if self._heads is None else self._heads.read()), []
        except HeadDamaged as problem:
            return None, [f"the head that is kept outside of the database is damaged: {problem}"]

    async def holds(self, head: str) -> bool:
        try:
            digest = bytes.fromhex(head)
        except ValueError:
            return False
        return bool(await fetch(self._database, "SELECT 1 FROM audit_chain WHERE hash = ?", digest))

    async def head(self) -> ChainHead:
        return await self._database.read(newest_entry)

    async def accept(self) -> str:
        if self._heads is None:
            return ""
        kept, _ = self._kept_head()
        try:
            self._heads.replace(await self.head())
        except OSError as problem:
            raise StoreUnavailable(
                f"The head of the audit chain cannot be kept: {problem.strerror or problem}",
                hint="Check that your data folder can be written.",
            ) from None
        return "" if kept is None else kept.hash.hex()


def verify_chain(
    connection: SqlConnection,
    key: AuditKey,
    keys: RunKeys,
    kept: ChainHead | None = None,
    damage: Sequence[str] = (),
) -> ChainReport:
    """Recompute the chain and the log of every run, in a transaction that sees one moment.

    `kept` is the head that is known from outside of the database; `damage` is what was found before.
    """
    check = ChainCheck(key)
    check.damage += damage
    check.check_main(_main_entries(connection))
    check.check_strands(_strand_entries(connection))
    damage, newest = check.damage, check.newest
    if kept is not None and not has_entry(connection, kept):
        damage.append(_removed_entries(kept, check.main_entries))
    first, runs = min(newest, default=0), 0
    for number, run_id in connection.execute("SELECT number, run_id FROM runs ORDER BY number"):
        runs += 1
        damage += _damage_of(connection, keys, str(run_id), newest.pop(number, None), chained=number >= first)
        if len(damage) > MAX_SENTENCES:
            damage[MAX_SENTENCES:] = ["there is more damage than is told here"]
    removed = sum(entry.kind == REMOVED for entry in newest.values())
    damage += [
        f"run {entry.run_id} is missing, and no removal is recorded"
        for entry in newest.values()
        if entry.kind != REMOVED
    ]
    query = "SELECT id FROM pending_approvals WHERE run NOT IN (SELECT number FROM runs) ORDER BY id LIMIT 20"
    damage += [f"approval {approval_id} belongs to no run" for (approval_id,) in connection.execute(query)]
    return ChainReport(
        entries=check.main_entries + check.strand_entries,
        runs=runs,
        removed=removed,
        head=check.head.hex(),
        damage=tuple(damage),
        unknown_key=check.unknown_key,
        untied=check.untied,
        kept_head="" if kept is None else kept.hash.hex(),
    )


def _removed_entries(kept: ChainHead, entries: int) -> str:
    if entries < kept.position:
        return (
            f"the chain was cut behind entry {entries}: entry {kept.position} was recorded outside of the database, so "
            f"{kept.position - entries} entries are gone, with the runs and acts that they stand for; if you removed "
            "them yourself: fabric audit verify --accept"
        )
    return (
        f"entry {kept.position} of the chain is not the one that was recorded outside of the database: the newest "
        "entries were removed, and others written in their place; if you did so yourself: fabric audit verify --accept"
    )


def _main_entries(connection: SqlConnection) -> Iterator[Entry]:
    query = f"SELECT position, {_FIELDS} FROM audit_chain WHERE position > ? ORDER BY position LIMIT ?"  # noqa: S608 - ours
    last: int | None = MIN_POSITION
    while last is not None:
        rows, last = connection.execute(query, (last, PAGE)).fetchall(), None
        for position, *sealed, key, digest in rows:
            yield Entry(position, Sealed(*sealed), key, bytes(digest))
            last = position


def _strand_entries(connection: SqlConnection) -> Iterator[tuple[str, Entry]]:
    query = (
        f"SELECT strand, number, {_FIELDS} FROM audit_strands"  # noqa: S608 - ours
        " WHERE (strand, number) > (?, ?) ORDER BY strand, number LIMIT ?"
    )
    last: tuple[str, int] | None = ("", MIN_POSITION)
    while last is not None:
        rows, last = connection.execute(query, (*last, PAGE)).fetchall(), None
        for strand, number, *sealed, key, digest in rows:
            yield strand, Entry(number, Sealed(*sealed), key, bytes(digest))
            last = strand, number


def _damage_of(
    connection: SqlConnection, keys: RunKeys, run_id: str, entry: Sealed | None, *, chained: bool
) -> Iterator[str]:
    """Say what is wrong with a run that is there; one that is older than the chain has no entry."""
    if entry is None:
        if chained:
            yield f"run {run_id} is in no entry of the chain"
    elif entry.kind == REMOVED:
        yield f"run {entry.run_id} was removed, but there is one with its number"
    condition = inspect_run(connection, keys, RunId(run_id))
    yield from (f"run {run_id}: {sentence}" for sentence in condition.damage)
    if entry is None or entry.kind == REMOVED:
        return
    if condition.events < entry.events:
        yield f"run {run_id}: {entry.events - condition.events} events at its end are missing"
        return
    if condition.events == entry.events and condition.head == entry.head.hex():
        return
    query = "SELECT hash FROM events JOIN runs ON runs.number = events.run WHERE run_id = ? AND seq = ?"
    row = connection.execute(query, (run_id, entry.events - 1)).fetchone()
    if row is None or bytes(row[0]) != entry.head:
        yield f"run {run_id}: its log is not the one that was recorded"
