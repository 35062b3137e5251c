"""Whether what was recorded is still what is there."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from agent_fabric.domain.audit.acts import Act
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.ids import RunId


@dataclass(frozen=True, slots=True, kw_only=True)
class LogCondition:
    """What the rows behind a run's log say about themselves."""

    events: int
    head: str
    """Hash of the last event, which covers all before it. Kept elsewhere, it reveals any later change."""
    status: str
    """How the run stands, as the store has it beside the log."""
    damage: tuple[str, ...] = ()
    """What is not as it was recorded, one sentence each."""


class LogInspector(Protocol):
    """Checks the integrity of logs, not their content."""

    async def inspect(self, run_id: RunId) -> LogCondition:
        """Recompute every hash of a run's log.

        Raises:
            RunNotFound: there is none with this id.
        """
        ...


class ChainHead(NamedTuple):
    """The newest entry of the chain."""

    position: int
    """How many entries there are."""
    hash: bytes
    """Covers all entries before it. Empty: there are none."""


class HeadDamaged(Exception):
    """The head that is kept outside of the database cannot be read, or is not what was written."""


class HeadKeeper(Protocol):
    """Keeps the newest head of the chain outside of the database."""

    def read(self) -> ChainHead | None:
        """Return the head that was kept last; None if none was.

        Raises:
            HeadDamaged: it cannot be read, or is not what was written.
        """
        ...

    def advance(self, head: ChainHead, continues: Callable[[ChainHead], bool], *, patient: bool = False) -> bool:
        """Keep a head that was committed, unless the one kept before is gone from the chain.

        Args:
            head: The new one. An older one than that kept before changes nothing.
            continues: Tells whether the chain still has the head kept before.
            patient: Whether to wait for other processes.

        Returns:
            Whether that is settled; False: another process writes, try again later.
        """
        ...

    def replace(self, head: ChainHead) -> None:
        """Keep a head whatever was kept before.

        Raises:
            OSError: it cannot be written.
        """
        ...


class HeadPlace(Protocol):
    """A place that heads are sent to, so that they cannot be taken back from here."""

    @property
    def name(self) -> str:
        """How the configuration calls it."""
        ...

    async def send(self, message: Mapping[str, Any]) -> None:
        """Deliver a head.

        Raises:
            OSError, ValueError, FabricError: it did not arrive.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainReport:
    """What the chain over all runs says."""

    entries: int
    runs: int
    """Runs that are there."""
    removed: int
    """Runs that were taken away on purpose, with a tombstone."""
    head: str
    """Hash of the last entry, which covers all before it. Kept elsewhere, it also shows a chain that was cut or made
    anew as a whole."""
    damage: tuple[str, ...]
    """What is not as it was recorded, one sentence each."""
    unknown_key: int = 0
    """Entries that were made with another key, and could not be checked."""
    untied: int = 0
    """Newest entries that processes have written of late, and that the head does not cover yet."""
    kept_head: str = ""
    """The head that was kept outside of the database before this check. Empty: none was, so that newest runs may have
    been removed before."""

    @property
    def holds(self) -> bool:
        """Whether nothing is damaged."""
        return not self.damage


class AuditChain(Protocol):
    """Ties the heads of all runs together, so that a run cannot vanish, be cut or be changed unnoticed."""

    async def verify(self) -> ChainReport:
        """Recompute the chain, and every log that it covers."""
        ...

    async def holds(self, head: str) -> bool:
        """Tell whether the chain has an entry with this hash, which was noted down earlier."""
        ...

    async def head(self) -> ChainHead:
        """Return the newest entry."""
        ...

    async def accept(self) -> str:
        """Expect the present head from now on, whatever was kept before; return what that was, empty if nothing.

        Raises:
            StoreUnavailable: it cannot be kept.
        """
        ...


class ActLog(Protocol):
    """What people did to the fabric folder itself; each act is an entry of the chain."""

    async def record(self, act: Act) -> None:
        """Record an act, after it was done.

        Raises:
            StoreFull, StoreUnavailable: it cannot be recorded.
        """
        ...

    async def recent(self, *, limit: int) -> Sequence[Act]:
        """Return the newest acts, the newest first, as they stand in the record; see `AuditChain.verify`."""
        ...


class RetentionStore(Protocol):
    """Deletes old runs."""

    async def settled_before(self, at: float) -> "list[RunId]":
        """Return the runs that settled before this time and have no driver, oldest first."""
        ...

    async def remove(self, run_id: RunId, *, by: str, reason: str) -> int:
        """Delete a run with its folder, and leave a tombstone; return how many bytes that freed.

        Raises:
            RunNotFound: there is none with this id.
            RunHeld: a process drives it.
            FolderLinked: its folder has become a link; nothing was removed.
        """
        ...

    async def sweep(self) -> int:
        """Delete blobs that no run refers to; return how many bytes that freed."""
        ...
