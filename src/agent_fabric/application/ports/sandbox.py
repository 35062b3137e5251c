"""The box in which a run's files live and its commands run."""

from collections.abc import Mapping
from typing import Protocol

from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.ids import RunId


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandOutcome:
    """How a command ended, and what it printed as far as it was kept."""

    exit_code: int
    """As the shell reports it; negative: ended by that signal."""
    stdout: bytes
    stderr: bytes
    stdout_dropped: int = 0
    """Bytes printed beyond the limit and not kept."""
    stderr_dropped: int = 0
    timed_out: bool = False


class Sandbox(Protocol):
    """Where a run may read, write and execute.

    Paths are relative to the workspace. Whatever a path says and whatever links lie on its way, nothing outside the
    workspace is ever opened: such an attempt raises PermissionError. Every method may be called concurrently.
    """

    level: str
    """How strong the box is, as said aloud to people: `A`, `A+`, `B` or `C`."""

    async def run_command(
        self, command: str, *, timeout_s: float, environment: Mapping[str, str] | None = None
    ) -> CommandOutcome:
        """Run one bash command line with the workspace as its current folder.

        `environment` is what it sees beside the usual variables. It stands in no one's list of processes.

        When this returns, or is cancelled, no process of the command is left. The processes also end when the process
        that called this dies.
        """
        ...

    async def read_file(self, path: str, *, max_bytes: int) -> tuple[bytes, int]:
        """Return at most `max_bytes` from the start of a file, and the size of the whole.

        Raises:
            FileNotFoundError, IsADirectoryError: as the system says.
            PermissionError: the path leads out of the workspace.
        """
        ...

    async def write_file(self, path: str, data: bytes) -> bool:
        """Write a file whole or not at all, making its folders; tell whether it is new."""
        ...

    async def list_files(self, path: str, *, max_entries: int) -> tuple[list[str], bool]:
        """Return the files below `path`, sorted, folders with a trailing slash, and whether there were more."""
        ...

    async def end_leftovers(self) -> int:
        """End processes that an earlier driver of this run left behind; return how many there were."""
        ...


class Sandboxes(Protocol):
    """Makes the boxes of runs, all of one level, which was found out at the start by really trying it."""

    @property
    def level(self) -> str:
        """How strong the boxes are: `A`, `A+`, `B` or `C`."""
        ...

    def for_run(self, run_id: RunId, workspace: str, *, network_allowed: bool) -> Sandbox:
        """Return the run's box: the same one for all its packs, made when it is first used. Never blocks.

        Its commands reach the network only if that is allowed, and only as far as the configuration says.
        """
        ...

    async def close(self, run_id: RunId) -> None:
        """End the run's box."""
        ...

    async def end_leftovers(self, run_id: RunId, workspace: str) -> int:
        """End processes that an earlier driver of the run left behind; return how many there were."""
        ...


class OpenBuffers(Protocol):
    """The files of a run's project in an editor. It answers soon or not at all, and never raises."""

    async def read(self, run_id: RunId, path: str) -> str | None:
        """Return the text of a file as the editor has it; None: as it lies on the disk."""
        ...

    async def write(self, run_id: RunId, path: str, text: str) -> None:
        """Show a file with this text, which lies on the disk already."""
        ...
