"""Where workspaces are saved, so that another machine can go on with a run."""

from typing import NamedTuple, Protocol

from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.state import RunState


class SavedWorkspace(NamedTuple):
    """A saved state of a run's files."""

    manifest: str
    """Hash of the list of all files with their hashes, which is kept beside them."""
    files: int
    size: int
    """Bytes of all files."""


class WorkspaceArchive(Protocol):
    """Saves and restores the files of runs that may be driven on any machine."""

    def covers(self, state: RunState) -> bool:
        """Tell whether a run's files are saved: those in a workspace of its own, unless it is encrypted."""
        ...

    async def save(self, run_id: RunId) -> SavedWorkspace:
        """Save the files of a run as they are; what is saved already is not sent again.

        Raises:
            StoreUnavailable: they cannot be saved now.
        """
        ...

    async def restore(self, run_id: RunId, manifest: str) -> str:
        """Make the files of a run as they were saved, unless they were last saved or restored here; return the path.

        Without a manifest nothing was saved yet, and the workspace is as this machine has it: empty, if it is new here.

        Raises:
            StoreUnavailable: they cannot be restored now.
        """
        ...

    def forget(self, run_id: RunId) -> None:
        """Keep nothing about a run in memory any more: it is driven elsewhere, or by no one."""
        ...


class ObjectStore(Protocol):
    """Bytes under names, for all machines. A name is `RUN/HASH`, and what it stands for never changes."""

    @property
    def place(self) -> str:
        """The store for people, without a password."""
        ...

    async def put(self, name: str, data: bytes) -> None:
        """Store an object.

        Raises:
            StoreUnavailable: it cannot be stored now.
        """
        ...

    async def get(self, name: str) -> bytes:
        """Return an object.

        Raises:
            StoreUnavailable: it cannot be read now, or there is none.
        """
        ...

    async def remove(self, prefix: str) -> int:
        """Delete all objects whose name begins so; return how many that were.

        Raises:
            StoreUnavailable: it is not possible now.
        """
        ...

    async def aclose(self) -> None:
        """Close every connection."""
        ...
