"""Small files that only their owner may read: tokens, keys, sealed secrets. Each is written whole or not at all."""

import errno
import fcntl
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from agent_fabric.domain.errors import ConfigError, StoreUnavailable
from agent_fabric.infrastructure.atomic_files import sync_folder, write_atomically, write_new

LARGEST: Final = 4096
"""No token or key is longer; whatever else lies there is not read into memory."""
MAX_BYTES: Final = 16 * 1024 * 1024
"""No file of sealed secrets is longer."""
LOCK_TIMEOUT_S: Final = 10.0
"""How long to wait for other writers, each of whom takes a few milliseconds."""
_LOOK_AGAIN_S: Final = 0.005

_NO_LINKS: Final = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS})
"""How file systems say that they know no second name for a file."""


class NotPrivate(Exception):
    """What lies there may be known to others, or was put there by others: it must not be trusted."""


def read_private(path: Path) -> bytes | None:
    """Return what a file holds that only its owner can read; None if there is none.

    Raises:
        NotPrivate: others may read or change it, it is someone else's, or it is no plain file but, say, a link.
        ConfigError: it is ours, but cannot be read.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as problem:
        if path.is_symlink():
            raise NotPrivate(f"{path} is a link") from None
        raise ConfigError(
            f"{path} cannot be read: {problem.strerror or problem}",
            hint="Change its owner to you: it may have been made with sudo.",
        ) from None
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise NotPrivate(f"{path} is not a file")
        if _is_open_to_others(found):
            raise NotPrivate(f"{path} can be read by others")
        if found.st_uid not in {os.geteuid(), path.parent.stat().st_uid}:
            raise NotPrivate(f"{path} belongs to another user")
        return os.read(descriptor, LARGEST + 1)
    finally:
        os.close(descriptor)


def write_private(path: Path, content: bytes, *, replace: bool) -> None:
    """Write a file that only its owner can read: whole or not at all, even if another process writes at the same time.

    Args:
        path: Where; the folder must exist.
        content: What.
        replace: Whether a file that is there gives way; otherwise it stays as it is.

    Raises:
        ConfigError: it cannot be written.
    """
    try:
        if replace:
            write_atomically(path, content)
        else:
            _put_if_absent(path, content)
        sync_folder(path.parent)
    except OSError as problem:
        raise ConfigError(
            f"{path} cannot be written: {problem.strerror or problem}",
            hint="Check that there is space, and that you may write in that folder.",
        ) from None


class PrivateFile:
    """A file of secrets that several processes read, and change one at a time.

    A process that is killed while it writes leaves the file as it was before.
    """

    def __init__(self, path: Path, *, lock_timeout_s: float = LOCK_TIMEOUT_S) -> None:
        self.path = path
        self._lock_timeout_s = lock_timeout_s

    def read(self) -> bytes | None:
        """Return what it holds; None if there is no such file.

        Raises:
            StoreUnavailable: it cannot be read, others may read it, or it is far too large to be ours.
        """
        try:
            with self.path.open("rb") as file:
                state = os.fstat(file.fileno())
                data = file.read(MAX_BYTES + 1)
        except FileNotFoundError:
            return None
        except OSError as problem:
            raise self._unusable("read", problem) from None
        if _is_open_to_others(state):
            raise StoreUnavailable(
                f"{self.path} holds secrets, and others on this machine may read or write it",
                hint=f"Close it with: chmod 600 {self.path}",
            )
        if len(data) > MAX_BYTES:
            raise StoreUnavailable(
                f"{self.path} is larger than {MAX_BYTES} bytes, so it is not ours", hint="Restore it from a backup."
            )
        return data

    def stamp(self) -> tuple[int, int, int] | None:
        """Return what changes whenever the content does; None if there is no such file, or no one may look."""
        try:
            state = self.path.stat()
        except OSError:
            return None
        return state.st_ino, state.st_mtime_ns, state.st_size

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Keep other writers away; the kernel lets them in again even if this process is killed.

        Raises:
            StoreUnavailable: the lock cannot be made, or another process does not let go of it.
        """
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock = os.open(self.path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as problem:
            raise self._unusable("written", problem) from None
        try:
            self._wait_for(lock)
            yield
        finally:
            os.close(lock)

    def replace(self, content: bytes) -> None:
        """Put new content in place of the old; call it only while it is locked (`hold`).

        Raises:
            StoreUnavailable: it cannot be written; the old content is still there.
        """
        # One name for all writers, who come one at a time: what a killed one left is overwritten by the next.
        fresh = self.path.with_name(f".{self.path.name}.new")
        try:
            fresh.unlink(missing_ok=True)
            write_new(fresh, content)
            fresh.replace(self.path)
            sync_folder(self.path.parent)
        except OSError as problem:
            raise self._unusable("written", problem) from None

    def _wait_for(self, lock: int) -> None:
        until = time.monotonic() + self._lock_timeout_s
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > until:
                    raise StoreUnavailable(
                        f"another process has been changing {self.path} for {self._lock_timeout_s:g} seconds",
                        hint="Is one of them stopped? Try again when it has ended.",
                    ) from None
                time.sleep(_LOOK_AGAIN_S)
            else:
                return

    def _unusable(self, how: str, problem: OSError) -> StoreUnavailable:
        return StoreUnavailable(
            f"{self.path} cannot be {how}: {problem.strerror or problem}",
            hint="Check that it and its folder are yours (it may have been made with sudo), and that there is space.",
        )


def _is_open_to_others(state: os.stat_result) -> bool:
    return bool(state.st_mode & (stat.S_IRWXG | stat.S_IRWXO))


def _put_if_absent(path: Path, content: bytes) -> None:
    fresh = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}")
    try:
        write_new(fresh, content)
        os.link(fresh, path)
    except FileExistsError:
        pass  # another process was faster: its file counts
    except OSError as problem:
        if problem.errno not in _NO_LINKS:
            raise
        if not path.exists():
            fresh.replace(path)
    finally:
        fresh.unlink(missing_ok=True)
