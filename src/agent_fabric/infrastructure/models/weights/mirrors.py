"""What every kind of mirror has in common, and short texts that tell how far a download is."""

import time
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

from agent_fabric.application.ports.llm import Notice, ProgressText
from agent_fabric.infrastructure.models.weights.part_file import PartFile

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

    def reached(self, done: int) -> None:
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
