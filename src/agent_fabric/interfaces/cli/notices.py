"""Shows what takes so long: a bar that moves on a terminal, elsewhere a line now and then."""

import re
import shutil
import sys
import time
from typing import Self, TextIO

from agent_fabric.interfaces.cli.output import capable, plain, shorten

_WIDTH = 120
_BAR = 24
_SHORTEST = 8
_EVERY_S = 5.0
_PERCENT = re.compile(r"(\d{1,3}) %")


class Notices:
    """Notice that writes to standard error for as long as its context is open."""

    def __init__(self, stream: TextIO | None = None, *, shown: bool = True) -> None:
        self._stream = stream or sys.stderr
        self._terminal = capable(self._stream)
        self._shown = shown
        self._told_at = float("-inf")
        self._passing = False

    def __call__(self, text: str) -> None:
        if not self._shown:
            return
        if self._terminal:
            self._clear()
            self._write(progress_line(text, min(_WIDTH, shutil.get_terminal_size().columns - 1)))
            self._passing = True
        elif time.monotonic() - self._told_at > _EVERY_S:
            self._told_at = time.monotonic()
            self._write(f"{plain(text)}\n")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._clear()

    def _clear(self) -> None:
        if self._passing:
            self._passing = False
            self._write("\r\x1b[2K")

    def _write(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except OSError:
            self._shown = False  # the terminal is gone


def progress_line(text: str, width: int) -> str:
    """Return one line, with a bar before a text that tells a percentage."""
    found = _PERCENT.search(text)
    if found is None:
        return shorten(text, width)
    full = min(100, int(found[1])) * _BAR // 100
    bar = f"[{'█' * full}{'·' * (_BAR - full)}]"
    about, _, amount = text.rpartition(": ")
    room = width - len(bar) - len(amount) - 3
    if room < _SHORTEST:  # how far it is matters more than what it is called
        return shorten(f"{bar} {amount}", width)
    return shorten(f"{bar} {shorten(about, room)}: {amount}", width)
