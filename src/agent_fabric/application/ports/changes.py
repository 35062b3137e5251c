"""What runs did to folders: pictures of before and after, and the way back."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.changes import Entry, FolderSnapshot
from agent_fabric.domain.runs.undo import UndoStep


class RecordedDrive(NamedTuple):
    """How a folder stood before and after one drive of a run."""

    before: FolderSnapshot
    after: FolderSnapshot | None
    """None: the driver was killed, or is still at it."""


class ChangeHistory(Protocol):
    """Looks at what runs did. Every method may block."""

    def drives(self, run_id: RunId) -> Sequence[RecordedDrive]:
        """Return the drives of a run that worked in a project folder, oldest first; none for any other run.

        Raises:
            StoreUnavailable: a picture is damaged.
        """
        ...

    def start_of(self, run_id: RunId) -> FolderSnapshot:
        """Return what a run found in a workspace of its own: files of a case or of an earlier run; else nothing.

        Raises:
            StoreUnavailable: the picture is damaged.
        """
        ...

    def take_snapshot(self, folder: str) -> FolderSnapshot:
        """Return how a folder stands now; an empty picture if it is gone.

        Raises:
            StoreUnavailable: it cannot be read.
        """
        ...

    def content(self, folder: str, path: str, entry: Entry) -> bytes | None:
        """Return what a file held when an entry was made; None if that is not known any more."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoRecord:
    """One time that changes were taken back, or put back again."""

    number: int
    at: float
    by: str
    steps: Sequence[UndoStep] = ()
    """What was there, and what took its place."""
    redo: bool = False
    forced: bool = False
    finished: bool = False


class Undoing(Protocol):
    """Puts files back, and remembers that it did. Every method may block."""

    def records(self, run_id: RunId) -> Sequence[UndoRecord]:
        """Return all that was taken back of a run, oldest first."""
        ...

    def carry_out(self, run_id: RunId, folder: str, steps: Sequence[UndoStep], record: UndoRecord) -> Sequence[str]:
        """Keep what the steps will overwrite, record, then put every file back, each one whole or not at all.

        The record may tell more than the steps: what an earlier attempt, which was killed, has done already. Return the
        paths at which there was something else by now; they are left alone. No one else works in the folder meanwhile.

        Raises:
            FolderHeld: a run works there.
            StoreFull, StoreUnavailable: something cannot be kept or written. It can be tried again: what is done is
                done, and the rest is as it was.
        """
        ...
