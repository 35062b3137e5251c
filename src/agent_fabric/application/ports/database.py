"""What is done to a database server, as opposed to the runs in it: tables, checks, moving a folder into it."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, Protocol

from agent_fabric.domain.dataclass import dataclass


class Migrated(NamedTuple):
    """From which format to which one a database was lifted."""

    before: int
    """0: it had no tables."""
    after: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseFacts:
    """What a database server says about itself."""

    place: str
    """The database for people, without a password."""
    version: str
    encoding: str
    format: int
    """Of its tables; 0: there are none."""
    min_writer: int
    """What a program has to know at least to use them."""
    known_format: int
    """What this program needs."""
    is_standby: bool
    synchronous_commit: str
    """`off` or `local` acknowledge a commit before it is safe everywhere it has to be."""
    fsync: bool
    asynchronous_standbys: int
    """Servers that follow without being waited for."""
    max_connections: int
    """Of which others than administrators may have so many."""
    has_vectors: bool = True
    """Whether it can compare the vectors of runs itself."""
    has_passage_vectors: bool = True
    """Whether it can compare those of documents."""
    offers_vectors: bool = True
    """Whether its machine has what that needs."""
    pgvector: str = ""
    """The version of what compares vectors; empty: there is none in this database."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiedStore:
    """What was copied into a database, and checked there."""

    runs: int
    events: int
    blobs: int
    tables: int
    rows: int
    chain_entries: int
    """Entries of the audit chain, recomputed where they are now."""
    unknown_key: int
    """Of these, those that another key made and that could not be recomputed here."""
    damage: tuple[str, ...] = ()
    """What was wrong in the folder already."""


Tell = Callable[[str], None]
"""Is told what happens, with a percentage."""


class DatabaseUpkeep(Protocol):
    """Looks after a database server. Everything here blocks."""

    @property
    def place(self) -> str:
        """The database for people, without a password."""
        ...

    def migrate(self) -> Migrated:
        """Make all tables, or lift them to the newest format.

        Raises:
            StoreUnavailable: it cannot be reached, does not store UTF-8, or was written by a newer program.
        """
        ...

    def examine(self) -> DatabaseFacts:
        """Return what it says about itself.

        Raises:
            StoreUnavailable: it cannot be reached.
        """
        ...

    def copy_from(self, folder: Path, *, damaged: bool, tell: Tell) -> CopiedStore:
        """Copy the store of a fabric folder into an empty database and recompute every hash there.

        All of it happens in one transaction: whenever it ends before its time, nothing has happened. The folder is not
        changed, apart from being lifted to the newest format. `damaged` copies what is damaged as it is.

        Raises:
            RunNotFound: the folder has no store.
            RunHeld: a server or a run uses the folder.
            ConfigError: the database is not empty.
            StoreUnavailable: the copy is not what the folder holds, or one of the two cannot be used.
        """
        ...
