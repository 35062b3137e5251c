"""Consistent copies of a store, for backups."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol


class StoreCopies(Protocol):
    """Copies a store into a file and back. Everything here blocks."""

    def require_own(self) -> None:
        """Refuse if copies of this store are made by other programs.

        Raises:
            ConfigError: they are; its hint says by which.
        """
        ...

    def copy_to(self, target: Path, on_progress: Callable[[float], None]) -> None:
        """Copy the store as it is at this moment into one file; writers are not held up.

        Raises:
            StoreFull, StoreUnavailable: it cannot be read, or the copy cannot be written.
        """
        ...

    def check(self, copy: Path) -> int:
        """Read a copy from beginning to end; return its format.

        Raises:
            StoreUnavailable: it is damaged, is not ours, or was written by a newer program.
        """
        ...

    def sealed_keys(self, copy: Path | None = None) -> list[bytes]:
        """Return the sealed key of each encrypted run, of the store or of a copy. Writes and migrates nothing.

        None if there is no such file, or it is older than encryption.

        Raises:
            StoreUnavailable: it cannot be read.
        """
        ...

    def exclusive(self) -> AbstractContextManager[None]:
        """Keep every other process from driving runs.

        Raises:
            RunHeld: a server or a run uses the store.
        """
        ...
