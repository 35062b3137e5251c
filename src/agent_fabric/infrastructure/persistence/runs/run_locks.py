"""One kernel lock for each run that a process drives; kill -9 frees it.

All runs share one file, a run's lock being the byte at its number, so that thousands of runs in flight cost one file
descriptor. POSIX record locks belong to the process and fall when any descriptor of the file is closed: so a process
opens each file exactly once, and never closes it.
"""

import fcntl
import os
import struct
import sys
from pathlib import Path
from threading import Lock

SERVER = 0
"""No run has this number: its lock says that a server looks after the runs here."""

if sys.platform == "darwin":  # struct flock begins with the range
    _FLOCK, _TYPE = "qqihh", 3

    def _in_order(kind: int, whence: int, start: int, length: int, pid: int) -> tuple[int, ...]:
        return start, length, pid, kind, whence
else:  # and here with the type
    _FLOCK, _TYPE = "hhqqi", 0

    def _in_order(kind: int, whence: int, start: int, length: int, pid: int) -> tuple[int, ...]:
        return kind, whence, start, length, pid


_guard = Lock()
_files: dict[Path, tuple[int, set[int]]] = {}
"""Descriptor and held numbers of each lock file that this process has opened."""


class RunLocks:
    """The locks of one store."""

    def __init__(self, path: Path) -> None:
        self._path = path.absolute()

    def exist(self) -> bool:
        """Tell whether any process has used locks here."""
        return self._path.exists()

    def acquire(self, number: int) -> bool:
        """Take the lock of a run; tell whether it worked. A lock that this very process holds cannot be taken again."""
        with _guard:
            descriptor, held = self._file()
            if number in held:
                return False
            try:
                fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, number)
            except (BlockingIOError, PermissionError):
                return False
            held.add(number)
            return True

    def release(self, number: int) -> None:
        """Give the lock back."""
        with _guard:
            descriptor, held = self._file()
            if number in held:
                held.discard(number)
                fcntl.lockf(descriptor, fcntl.LOCK_UN, 1, number)

    def is_free(self, number: int) -> bool:
        """Tell whether no process drives the run at this moment. The lock is not taken in order to look."""
        with _guard:
            descriptor, held = self._file()
            if number in held:
                return False
            asked = struct.pack(_FLOCK, *_in_order(fcntl.F_WRLCK, os.SEEK_SET, number, 1, 0))
            found = struct.unpack(_FLOCK, fcntl.fcntl(descriptor, fcntl.F_GETLK, asked))
            return int(found[_TYPE]) == fcntl.F_UNLCK

    def acquire_all(self) -> bool:
        """Acquire the locks of all present and future runs, and the server's; False if another process holds any.

        This process must not hold any either. `let_go` gives them back.
        """
        with _guard:
            descriptor, held = self._file()
            if held:
                return False
            try:
                fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 0, SERVER)
            except (BlockingIOError, PermissionError):
                return False
            return True

    def let_go(self) -> None:
        """Release all locks and close the file, which is about to be replaced or has been moved."""
        with _guard:
            known = _files.pop(self._path, None)
            if known is not None:
                os.close(known[0])

    def _file(self) -> tuple[int, set[int]]:
        known = _files.get(self._path)
        if known is None:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            known = _files[self._path] = (descriptor, set())
        return known
