"""A stream that is read once and in pieces, whatever is in it."""

import tarfile
from typing import Final, Protocol

PIECE: Final = 1024 * 1024
MAX_ABOUT: Final = 256 * 1024
"""How much an archive may say about one member before its content begins; names are never that long."""


class _Stream(Protocol):
    def read(self, size: int, /) -> bytes: ...


class Forward:
    """A stream that is read once, in its order, and never more of it at once than was allowed.

    tarfile believes what an archive says about itself, and would take gigabytes into memory for a name.
    """

    def __init__(self, stream: _Stream) -> None:
        self._stream = stream
        self._at = 0
        self._last = b""
        self._again = False
        """Whether the last byte is to be read once more."""
        self._allowed = MAX_ABOUT

    def allow(self, size: int) -> None:
        """Let so much be read before the next time."""
        self._allowed = size

    def tell(self) -> int:
        return self._at

    def seek(self, position: int, whence: int = 0) -> int:
        if whence != 0 or position < self._at - (not self._again):
            raise tarfile.ReadError("its parts are not in their order")
        if position < self._at:
            self._again, self._at = True, position
        while self._at < position:
            if not self.read(min(PIECE, position - self._at)):
                break
        return self._at

    def read(self, size: int = -1) -> bytes:
        if size < 0 or size > self._allowed:
            raise tarfile.ReadError("it says too much about itself")
        self._allowed -= size
        if not size:
            return b""
        head = self._last if self._again else b""
        self._again = False
        data = head + self._stream.read(size - len(head))
        if data:
            self._at += len(data)
            self._last = data[-1:]
        return data

    def require_end(self) -> None:
        """Read on to the end, where a checksum stands; nothing but padding may come before.

        Raises:
            tarfile.ReadError: there is more.
        """
        self.allow(MAX_ABOUT)
        while piece := self.read(4096):
            if piece.strip(b"\0"):
                raise tarfile.ReadError("it goes on behind its end")
