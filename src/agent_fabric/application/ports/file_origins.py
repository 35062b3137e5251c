"""Whose text the files of project folders are."""

from collections.abc import Sequence
from typing import Protocol

from agent_fabric.domain.ids import RunId


class FileOrigins(Protocol):
    """Remembers which files were written by runs that had read untrusted text."""

    def may_write(self, workspace: str, run_id: RunId, root: RunId) -> None:
        """Note that such a run is about to change files of a project folder. Durable when it returns.

        `root` is the run above all others that it works for, or itself.

        Raises:
            StoreUnavailable: it cannot be noted.
        """
        ...

    def exposing(self, workspace: str, paths: Sequence[str], *, reader: RunId) -> str:
        """Say why reading these files, or all below these folders, is reading untrusted text; empty: it is not.

        Raises:
            StoreUnavailable: it cannot be told.
        """
        ...
