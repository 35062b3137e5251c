"""What a request to a model server comes to, whichever way it was sent."""

from collections.abc import AsyncIterator, Mapping
from typing import Protocol


class HttpAnswer(Protocol):
    """An answer whose head has come."""

    @property
    def status(self) -> int: ...

    @property
    def headers(self) -> Mapping[str, str]:
        """Names are in lower case, or found in any case."""
        ...

    @property
    def size(self) -> int | None:
        """Bytes of the body as it is sent; None: not known, or it is packed."""
        ...

    def pieces(self) -> AsyncIterator[bytes]:
        """Give the body as it comes, unpacked.

        Raises:
            HttpFailure: it breaks off, or cannot be unpacked.
        """
        ...

    async def read(self, most_bytes: int) -> bytes | None:
        """Return the whole body, unpacked; None: it has more than `most_bytes`.

        Raises:
            HttpFailure: as above.
        """
        ...

    def release(self) -> None:
        """Keep the connection for the next request if the answer has been read to its end, else close it."""
        ...


class Requests(Protocol):
    """Sends requests to one server."""

    async def ask(
        self, method: str, url: str, data: bytes | None, headers: Mapping[str, str], *, silent_s: float | None
    ) -> HttpAnswer:
        """Send a request and wait for the head of its answer; who gets one has to release it.

        A server that says nothing for `silent_s` is given up; None: it may take its time.

        Raises:
            HttpFailure: there is none.
        """
        ...


async def join_pieces(pieces: AsyncIterator[bytes], most_bytes: int) -> bytes | None:
    """Return a body whose pieces are these; None: it has more than `most_bytes`."""
    data = bytearray()
    async for piece in pieces:
        data += piece
        if len(data) > most_bytes:
            return None
    return bytes(data)


class HttpFailure(Exception):
    """A request that came to nothing; the text is the reason, in a few words."""


class NoConnection(HttpFailure):
    """No one answers at the address."""


class NoTls(HttpFailure):
    """The other side speaks no TLS that could be used; the text is a sentence."""


class Untrusted(HttpFailure):
    """The certificate of the server is not trusted."""


class Silence(HttpFailure):
    """The server said nothing for too long."""


class BrokenOff(HttpFailure):
    """The answer ended in the middle."""


class Unusable(HttpFailure):
    """The address, the settings or the answer are not what HTTP knows."""
