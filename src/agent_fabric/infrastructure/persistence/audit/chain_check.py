"""Checks the entries of the audit chain: the main chain, and the strands that it ties together.

Pure: it is given entries in their order and says what is not as it was recorded.
"""

import hmac
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from agent_fabric.domain.audit.key import AuditKey
from agent_fabric.infrastructure.persistence.audit.chain_writer import (
    CLOSED,
    HEAD,
    REMOVED,
    START,
    TIE,
    Sealed,
    entry_hash,
)
from agent_fabric.infrastructure.persistence.audit.strands import read_tie, start_of

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
