"""Locks that the kernel frees when their holder dies, however it dies."""

import fcntl
import os
from pathlib import Path
from typing import Self


class FileLock:
    """A lock on a file, held until it is released or every process that has it is gone.

    A process that is started with its descriptor holds it too, even after we let go: so a server's lock says whether
    the server lives.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    @classmethod
    def take(cls, path: Path, *, shared: bool = False) -> Self | None:
        """Take the lock if no one is in the way."""
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        except BaseException:
            os.close(descriptor)
            raise
        return cls(descriptor)

    def fileno(self) -> int:
        return self._descriptor

    def is_on(self, path: Path) -> bool:
        """Whether the locked file is still the one with this name; a folder may be cleaned up while we look away."""
        try:
            return os.path.samestat(os.fstat(self._descriptor), path.stat())
        except OSError:
            return False

    def write(self, text: str) -> None:
        """Replace what the locked file says."""
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, text.encode(), 0)

    def release(self) -> None:
        """Let go; a process that shares the descriptor keeps the lock."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def is_free(path: Path) -> bool:
    """Whether no process holds the lock, not even shared."""
    lock = FileLock.take(path)
    if lock is None:
        return False
    lock.release()
    return True


def is_held(path: Path) -> bool:
    """Whether a process holds the lock exclusively."""
    if not path.exists():
        return False
    lock = FileLock.take(path, shared=True)
    if lock is None:
        return True
    lock.release()
    return False
