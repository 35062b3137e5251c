"""One kernel lock for each project folder; kill -9 releases it.

A run takes an exclusive lock on its folder and a shared lock on every folder above, so that runs in nested folders
exclude each other.
"""

import fcntl
import hashlib
import os
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from agent_fabric.domain.errors import FolderHeld, StoreUnavailable

_MAX_NAME_BYTES = 200


class FolderHold:
    """A folder that is locked until it is released."""

    def __init__(self, descriptors: list[int]) -> None:
        self._descriptors = descriptors

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.release()

    def release(self) -> None:
        """Let others in."""
        descriptors, self._descriptors = self._descriptors, []
        for descriptor in descriptors:
            os.close(descriptor)


class FolderLocks:
    """The locks of one fabric folder."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def hold(self, folder: Path, who: str) -> FolderHold:
        """Take a folder for a run; `who` is told to those who come too late.

        Raises:
            FolderHeld: a living process works there; the message names it.
            StoreUnavailable: the lock cannot be made.
        """
        descriptors: list[int] = []
        try:
            self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
            for above in reversed(folder.parents):
                descriptors.append(self._lock(above, fcntl.LOCK_SH, folder))  # noqa: PERF401 - closed below, one by one
            descriptors.append(self._lock(folder, fcntl.LOCK_EX, folder))
            for descriptor in descriptors:
                os.ftruncate(descriptor, 0)
                os.pwrite(descriptor, who.encode(errors="replace")[:_MAX_NAME_BYTES], 0)
        except BaseException as problem:
            for descriptor in descriptors:
                os.close(descriptor)
            if isinstance(problem, OSError):
                raise StoreUnavailable(
                    f"The lock of {folder} cannot be made: {problem.strerror or problem}",
                    hint="Check that there is space, and that you may write there.",
                ) from None
            raise
        return FolderHold(descriptors)

    def _lock(self, folder: Path, how: int, wanted: Path) -> int:
        name = hashlib.sha256(os.fsencode(folder)).hexdigest()[:32]
        descriptor = os.open(self._root / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(descriptor, how | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = b""
            with suppress(OSError):
                holder = os.pread(descriptor, _MAX_NAME_BYTES, 0)
            os.close(descriptor)
            held = FolderHeld(
                f"{holder.decode(errors='replace') or 'another run'} works in {wanted}, or in a folder around it",
                hint="Wait until it has ended, or end it with `fabric cancel`. One run at a time works in a project.",
            )
            held.holder = holder.decode(errors="replace").removeprefix("Run ")
            raise held from None
        except OSError:
            os.close(descriptor)
            raise
        return descriptor
