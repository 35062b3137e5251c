"""Verifies the chain over all runs: each entry holds the head of a run's log and the hash of the entry before.

An entry is written in the transaction of the event that it covers: when a run begins, and whenever it stops, waits or
settles. What people do to the folder itself stands among them, in entries that belong to no run. The hash is keyed, so
that write access to the database alone, without the user's own files, is not enough to forge the chain. Entries that
are missing at its end are noticed by the head that is kept outside of the database. Where many processes write, the
entries about runs are in strands that the chain ties together.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

from agent_fabric.application.ports.audit import ChainHead, ChainReport, HeadDamaged
from agent_fabric.domain.audit.key import AuditKey
from agent_fabric.domain.errors import StoreUnavailable
from agent_fabric.domain.ids import RunId
from agent_fabric.infrastructure.persistence.audit.chain_check import ChainCheck, Entry
from agent_fabric.infrastructure.persistence.audit.chain_writer import (
    REMOVED,
    ChainWriter,
    Sealed,
    has_entry,
    newest_entry,
)
from agent_fabric.infrastructure.persistence.runs.log_inspector import MAX_SENTENCES, inspect_run
from agent_fabric.infrastructure.persistence.secrets.sealing import RunKeys
from agent_fabric.infrastructure.persistence.sql import Database, SqlConnection

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
        query = "SELECT 1 FROM audit_chain WHERE hash = ?"
        return await self._database.read(lambda connection: connection.execute(query, (digest,)).fetchone() is not None)

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
    query = "SELECT hash FROM events JOIN runs ON runs.number = events.run WHERE run_id = ? AND seq = ?"
    row = connection.execute(query, (run_id, entry.events - 1)).fetchone()
    if row is None or bytes(row[0]) != entry.head:
        yield f"run {run_id}: its log is not the one that was recorded"
