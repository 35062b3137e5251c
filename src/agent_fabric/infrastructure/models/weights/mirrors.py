"""What every kind of mirror has in common, and short texts that tell how far a download is."""

import asyncio
import hashlib
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Final, Protocol, TypeVar

from agent_fabric.application.ports.llm import Notice, ProgressText
from agent_fabric.domain.dataclass import dataclass
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


_PAUSE_S: Final = 0.25
"""Time between two texts: fast enough to look alive, slow enough to be read."""
_WINDOW_S: Final = 4.0
"""The speed shown is that of these last seconds."""
_MB: Final = 1_000_000


class Progress:
    """Tells a person how much of one file is done, and how fast it goes; `about` says what is done with which."""

    def __init__(self, notice: Notice, *, about: str, total: int, now: Callable[[], float] = time.monotonic) -> None:
        self._notice = notice
        self._about = about
        self._total = total
        self._now = now
        self._said_at = float("-inf")
        self._seen: deque[tuple[float, int]] = deque()

    def say(self, text: str) -> None:
        """Show what is going on, now."""
        self._notice(ProgressText(f"{self._about}: {text}"))

    def report(self, done: int) -> None:
        """Show how many bytes there are, unless something was shown a moment ago."""
        now = self._now()
        if now - self._said_at < _PAUSE_S:
            return
        self._said_at = now
        if self._seen and done < self._seen[-1][1]:
            self._seen.clear()  # it began again: what came before says nothing about the speed
        self._seen.append((now, done))
        while len(self._seen) > 2 and now - self._seen[0][0] > _WINDOW_S:
            self._seen.popleft()
        self.say(f"{amount(done, self._total)}{self._speed()}")

    def _speed(self) -> str:
        (begun, first), (now, last) = self._seen[0], self._seen[-1]
        if now <= begun or last <= first:
            return ""
        return f", {(last - first) / (now - begun) / _MB:.1f} MB/s"


def amount(done: int, total: int) -> str:
    """Return "45 %, 503 of 1117 MB"."""
    percent = min(100, done * 100 // total) if total else 0
    return f"{percent} %, {done / _MB:.0f} of {total / _MB:.0f} MB"


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
