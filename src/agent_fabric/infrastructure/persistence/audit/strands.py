"""Strands of the audit chain: where many processes write at once, each has a gapless chain of its own.

One chain with many writers would fork, or make all of them wait for each other. So the entries about runs go into the
strand of the process that drives them, and an entry of the main chain ties the newest heads of all strands from time
to time. A strand begins with its name. It ends with an entry that its process writes when it leaves, or another one
when that process has died. Numbers are counted, not given out by the database, and the primary key refuses a second
entry with the same number: so nothing can be added to a strand that someone has closed.
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from agent_fabric.domain.audit.key import AuditKey
from agent_fabric.domain.errors import LeaseLost, StoreUnavailable
from agent_fabric.infrastructure.persistence.audit.chain_writer import CLOSED, TIE, ChainWriter, Sealed, entry_hash
from agent_fabric.infrastructure.persistence.sql import SqlConnection

ATTEMPTS: Final = 3
"""A commit whose answer was lost may still add an entry while the next one is written."""

_ADD: Final = (
    "INSERT INTO audit_strands (strand, number, at, kind, run, run_id, events, head, note, key, hash)"
    " {rows} ON CONFLICT DO NOTHING RETURNING number"
)
_ONE: Final = _ADD.format(rows="VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)")
_MANY: Final = _ADD.format(
    rows="SELECT ?, number, at, kind, run, run_id, events, head, note, ?, hash FROM unnest(CAST(? AS bigint[]),"
    " CAST(? AS float8[]), CAST(? AS text[]), CAST(? AS bigint[]), CAST(? AS text[]), CAST(? AS bigint[]),"
    " CAST(? AS bytea[]), CAST(? AS text[]), CAST(? AS bytea[]))"
    " AS new (number, at, kind, run, run_id, events, head, note, hash)"
)
_NEWEST: Final = "SELECT number, kind, hash FROM audit_strands WHERE strand = ? ORDER BY number DESC LIMIT 1"
_OPEN: Final = (
    "SELECT strand, tied, EXISTS (SELECT 1 FROM workers WHERE id = strand AND state <> 'gone')"
    " FROM open_strands ORDER BY strand"
)


class _Tip(NamedTuple):
    strand: str
    number: int
    hash: bytes
    closed: bool = False


class Strand:
    """The strand of this process. Used where the store is written."""

    def __init__(self, name: Callable[[], str]) -> None:
        """`name` returns the id of this process; another one begins another strand."""
        self._name = name
        self._tip: _Tip | None = None
        """Newest entry of ours; None: it has to be looked up."""

    def add(self, connection: SqlConnection, key: AuditKey, sealed: Sequence[Sealed]) -> None:
        """Add entries, in the caller's transaction.

        Raises:
            LeaseLost: another process has closed the strand, because this one seemed to be dead.
            StoreUnavailable: the strand is not as this process has left it, and there are several entries.
        """
        name = self._name()
        tip = self._tip if self._tip is not None and self._tip.strand == name else _tip(connection, name)
        for _ in range(ATTEMPTS):
            if tip.closed:
                break
            added = _add(connection, key, tip, sealed)
            if added is not None:
                if tip.number == 0:
                    connection.execute("INSERT INTO open_strands (strand, tied) VALUES (?, 0)", (name,))
                self._tip = added
                return
            tip = _tip(connection, name)
        raise LeaseLost(
            "Another process has closed the audit record of this one, whose lease has lapsed",
            hint="Its runs are driven by another process, or can be resumed: fabric resume.",
        )

    def rolled_back(self) -> None:
        """Forget what is known: the last transaction has failed, or may have."""
        self._tip = None


def tie_strands(connection: SqlConnection, chain: ChainWriter, *, now: float, leaving: str = "") -> bool:
    """Tie the heads of all strands into the main chain, in the caller's transaction; False: there was nothing new.

    Strands of processes that are gone are closed, and that of the process that is `leaving`.
    """
    chain.lock(connection)  # now: others tie the same heads
    heads: dict[str, _Tip] = {}
    for strand, tied, alive in connection.execute(_OPEN).fetchall():
        tip = _tip(connection, str(strand))
        if not tip.closed and (strand == leaving or not alive):
            # None: that process has just added an entry all the same. It is closed the next time.
            tip = _add(connection, chain.key, tip, (Sealed(now, CLOSED, 0, "", 0, b""),)) or tip
        if tip.number > tied:
            heads[tip.strand] = tip
    if not heads:
        return False
    chain.seal(connection, Sealed(now, TIE, 0, "", 0, b"", _tie(heads)))
    for tip in heads.values():
        if tip.closed:
            connection.execute("DELETE FROM open_strands WHERE strand = ?", (tip.strand,))
        else:
            connection.execute("UPDATE open_strands SET tied = ? WHERE strand = ?", (tip.number, tip.strand))
    return True


def start_of(strand: str) -> bytes:
    """Return what the first entry of a strand follows."""
    return hashlib.sha256(f"strand\0{strand}".encode()).digest()


def read_tie(note: str) -> Mapping[str, tuple[int, bytes]]:
    """Return the heads that an entry ties. What cannot be read was not written here, as its hash tells."""
    try:
        found: dict[str, Any] = json.loads(note)
        return {strand: (int(number), bytes.fromhex(digest)) for strand, (number, digest) in found.items()}
    except (ValueError, TypeError, AttributeError, RecursionError):
        return {}


def _tie(heads: Mapping[str, _Tip]) -> str:
    return json.dumps({strand: [tip.number, tip.hash.hex()] for strand, tip in sorted(heads.items())})


def _tip(connection: SqlConnection, strand: str) -> _Tip:
    row = connection.execute(_NEWEST, (strand,)).fetchone()
    return _Tip(strand, 0, start_of(strand)) if row is None else _Tip(strand, row[0], bytes(row[2]), row[1] == CLOSED)


def _add(connection: SqlConnection, key: AuditKey, tip: _Tip, sealed: Sequence[Sealed]) -> _Tip | None:
    """Add entries behind another one; None if there is one by now."""
    rows: list[tuple[Any, ...]] = []
    for number, each in enumerate(sealed, tip.number + 1):
        tip = _Tip(tip.strand, number, entry_hash(key, tip.hash, each), each.kind == CLOSED)
        rows.append((number, *each, tip.hash))
    if len(rows) == 1:
        *values, digest = rows[0]
        return tip if connection.execute(_ONE, (tip.strand, *values, key.name, digest)).fetchone() else None
    columns = [list(column) for column in zip(*rows, strict=True)]
    added = connection.execute(_MANY, (tip.strand, key.name, *columns)).fetchall()
    if added and len(added) < len(rows):  # each again on its own, after this transaction
        raise StoreUnavailable("The audit record of this process is not as it has left it; nothing was written")
    return tip if added else None
