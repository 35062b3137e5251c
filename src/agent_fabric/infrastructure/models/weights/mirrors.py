"""What every kind of mirror has in common."""

from typing import Protocol

from agent_fabric.infrastructure.models.weights.part_file import PartFile
from agent_fabric.infrastructure.models.weights.progress import Progress


class MirrorFailed(Exception):
    """This mirror cannot give the file; the message says why, and another mirror may do better."""


class Mirror(Protocol):
    """One place that a file can be had from."""

    @property
    def label(self) -> str:
        """What to call it in front of a person."""
        ...

    @property
    def key(self) -> str:
        """Part of the names of its unfinished files: what one mirror began, another does not go on with."""
        ...

    @property
    def working_bytes(self) -> int:
        """Space that it needs besides the file itself."""
        ...

    async def fetch(self, part: PartFile, progress: Progress) -> None:
        """Complete the file, going on where an earlier call ended. When cancelled, what it has stays usable.

        Raises:
            MirrorFailed: the file is not to be had from here.
            OSError: it cannot be written here.
        """
        ...
