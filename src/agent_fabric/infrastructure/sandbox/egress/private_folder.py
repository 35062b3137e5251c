"""Private folders of a process; a folder whose process was killed is removed later."""

import contextlib
import fcntl
import os
import tempfile
from pathlib import Path
from typing import Final

from agent_fabric.domain.dataclass import dataclass
from agent_fabric.infrastructure.tree_walk import remove_tree

_ALIVE: Final = "alive"
"""A file that is locked as long as someone uses the folder."""


@dataclass(frozen=True, slots=True)
class PrivateFolder:
    """A private folder, fresh and empty but for its lock."""

    path: Path
    _lock: int

    @classmethod
    def make(cls, prefix: str, parent: str | None = None) -> "PrivateFolder":
        """Make a folder, and remove those of the same prefix whose processes have died."""
        parent = tempfile.gettempdir() if parent is None else parent
        for old in Path(parent).glob(f"{prefix}*"):
            _remove_if_left(old)
        path = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
        lock = os.open(path / _ALIVE, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return cls(path, lock)

    def remove(self) -> None:
        """Remove the folder and all that is in it."""
        remove_tree(self.path)
        with contextlib.suppress(OSError):
            os.close(self._lock)


def _remove_if_left(folder: Path) -> None:
    """Remove a folder of ours that no one holds; one that is only being made has no lock yet, and stays."""
    try:
        lock = os.open(folder / _ALIVE, os.O_RDWR | os.O_NOFOLLOW)
    except OSError:
        return
    try:
        if os.fstat(lock).st_uid == os.geteuid():
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            remove_tree(folder)
    except OSError:
        pass  # someone holds it
    finally:
        os.close(lock)
