"""A file that is not complete yet, and blocking work on it that ends when its caller is cancelled."""

import asyncio
import hashlib
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from agent_fabric.infrastructure.threads import on_own_thread

T = TypeVar("T")

CHUNK_BYTES: Final = 2**20
"""Written or hashed at once: small enough that a cancelled download ends at once."""
_SETTLE_S: Final = 1.5
"""How long a cancelled caller waits for the chunk that is being written."""


class Stopped(Exception):
    """The work was told to stop; no one waits for its result."""


async def until_cancelled(work: Callable[[threading.Event], T]) -> T:
    """Run blocking work on a thread; when the caller is cancelled, tell the work to stop and let it settle.

    Without the settling, a chunk could be written after the lock on the file was given away.
    """
    stop = threading.Event()
    task = asyncio.ensure_future(on_own_thread(lambda: work(stop)))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        stop.set()
        await asyncio.wait({task}, timeout=_SETTLE_S)
        if not task.done():
            task.cancel()
        elif not task.cancelled():
            task.exception()  # looked at, so that no one complains about it
        raise


@dataclass(frozen=True, slots=True)
class PartFile:
    """What has arrived of a file so far. All methods block."""

    path: Path
    total: int
    """Bytes that the complete file has."""

    @property
    def size(self) -> int:
        """Return how many bytes there are."""
        try:
            return self.path.stat().st_size
        except FileNotFoundError:
            return 0

    @property
    def tag_path(self) -> Path:
        """Return the file that holds what a server called the version of the bytes."""
        return self.path.with_name(self.path.name + ".tag")

    def append(self, data: bytes | bytearray | memoryview) -> None:
        """Write at the end."""
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            left = memoryview(data)
            while left:
                left = left[os.write(descriptor, left) :]
        finally:
            os.close(descriptor)

    def cut_to(self, size: int) -> None:
        """Forget everything behind the first `size` bytes."""
        if self.size > size:
            os.truncate(self.path, size)

    def discard(self) -> None:
        """Forget it all."""
        self.path.unlink(missing_ok=True)
        self.tag_path.unlink(missing_ok=True)

    def sync(self) -> None:
        """Bring it to the disk, so that not even a power cut leaves a file that only looks complete."""
        with self.path.open("rb") as file:
            os.fsync(file.fileno())


def sha256_of(path: Path, stop: threading.Event, seen: Callable[[int], None] = lambda _: None) -> str:
    """Return the hash of a file; `seen` is told from time to time how many bytes were read.

    Raises:
        Stopped: `stop` was set.
    """
    digest = hashlib.sha256()
    buffer = memoryview(bytearray(CHUNK_BYTES))
    done = 0
    with path.open("rb", buffering=0) as file:
        while count := file.readinto(buffer):
            if stop.is_set():
                raise Stopped
            digest.update(buffer[:count])
            done += count
            seen(done)
    return digest.hexdigest()
