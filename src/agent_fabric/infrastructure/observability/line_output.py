"""Lines on their way to a file or a stream, written by a thread of their own.

A logging thread is never held up by a full pipe, a slow disk or a rotated file, and never sees an error.
"""

import os
import select
import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Final, Protocol, TextIO

MAX_WAITING: Final = 10_000
"""Lines that wait to be written; more are dropped, and counted."""
_MAX_AT_ONCE: Final = 500
_PAUSE_S: Final = 0.02
"""Behind what was written. The first line goes out at once, a stream of lines in parts: to wake a thread for each costs
more than to make it."""


class Target(Protocol):
    """Where lines end up."""

    def write(self, text: str) -> None:
        """Write whole lines.

        Raises:
            OSError, ValueError: that is not possible now.
        """
        ...

    def close(self) -> None:
        """Let go of it."""
        ...


class LineOutput:
    """Takes lines at once and writes them as soon as possible."""

    def __init__(
        self, target: Target, *, lost_line: Callable[[int], str], on_problem: Callable[[Exception], None]
    ) -> None:
        self._target = target
        self._lost_line = lost_line
        self._on_problem = on_problem
        """Learns the first problem, and no other."""
        self._reported = False
        self._lost = 0
        self._counting = threading.Lock()
        self._waiting: deque[str] = deque()
        self._called = threading.Event()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._work, name="operations-log", daemon=True)
        self._thread.start()

    def write(self, line: str) -> None:
        """Take a line; it is written soon."""
        if len(self._waiting) >= MAX_WAITING:
            self._lose(1)
            return
        self._waiting.append(line)
        if not self._called.is_set():
            self._called.set()

    debug = info = warning = error = critical = write
    """What structlog calls, by the line's level."""

    def close(self, timeout_s: float = 1.0) -> None:
        """Write what is waiting, as far as that is possible in this time."""
        self._closing.set()
        self._called.set()
        self._thread.join(timeout_s)

    def _work(self) -> None:
        while not self._closing.is_set():
            self._called.wait()
            self._called.clear()
            while self._waiting:
                self._try_to_write([self._waiting.popleft() for _ in range(min(len(self._waiting), _MAX_AT_ONCE))])
            self._closing.wait(_PAUSE_S)
        if self._lost or self._waiting:
            self._try_to_write(list(self._waiting))
        self._target.close()

    def _try_to_write(self, lines: list[str]) -> None:
        with self._counting:
            lost, self._lost = self._lost, 0
        told = [self._lost_line(lost), *lines] if lost else lines
        try:
            self._target.write("".join(f"{line}\n" for line in told))
        except (OSError, ValueError) as problem:
            self._lose(lost + len(lines))
            if not self._reported:
                self._reported = True
                self._on_problem(problem)

    def _lose(self, count: int) -> None:
        with self._counting:
            self._lost += count


class FileTarget:
    """A file that others may move, remove or cut at any time, as log rotation does."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None
        self._torn = False
        """The last line could only be written in part."""

    def write(self, text: str) -> None:
        descriptor = self._current()
        if self._torn:
            text = f"\n{text}"
        self._torn = True
        _write_all(descriptor, text.encode("utf-8", "backslashreplace"))
        self._torn = False

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _current(self) -> int:
        """Return the open file, if it is still the one that has this name, and otherwise that one."""
        if self._descriptor is not None:
            try:
                if os.path.samestat(os.fstat(self._descriptor), self._path.stat()):
                    return self._descriptor
            except FileNotFoundError:
                pass  # moved away, and nothing has taken its place yet
            self.close()
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        self._descriptor = os.open(self._path, flags, 0o640)
        self._torn = False
        return self._descriptor


class StreamTarget:
    """A stream that is someone else's to close."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        try:
            self._descriptor = stream.fileno()
        except (OSError, ValueError):
            self._descriptor = -1  # not a real one

    def write(self, text: str) -> None:
        encoding = self._stream.encoding or "utf-8"
        data = text.encode(encoding, "backslashreplace")
        if self._descriptor < 0:
            self._stream.write(data.decode(encoding))
        else:
            # Not through the stream: a thread that waits inside it for a full pipe crashes Python at its end.
            _write_all(self._descriptor, data)

    def close(self) -> None:
        """Leave it open."""


def _write_all(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        try:
            rest = rest[os.write(descriptor, rest) :]
        except BlockingIOError:  # someone who shares the terminal or pipe with us made it so
            select.select((), (descriptor,), ())
