"""Server-Sent Events, taken apart as they come."""

from collections.abc import AsyncIterator
from typing import NamedTuple

import aiohttp


class Frame(NamedTuple):
    """One event of a stream."""

    name: str
    """What kind it is; empty: not said."""
    last_id: str | None
    data: str


async def frames(content: aiohttp.StreamReader) -> AsyncIterator[Frame]:
    """Yield each whole frame; one that was cut off by the end of the stream is dropped, as the standard has it."""
    name, last_id, data = "", None, list[str]()
    begun: list[bytes] = []
    """Pieces of a line whose end has not come yet."""
    async for piece in content.iter_any():
        begun.append(piece)
        if b"\n" not in piece:
            continue
        *lines, rest = b"".join(begun).split(b"\n")
        begun = [rest]
        for raw in lines:
            line = raw.removesuffix(b"\r").decode("utf-8", "replace")
            if not line:
                if data:
                    yield Frame(name, last_id, "\n".join(data))
                name, last_id, data = "", None, []
                continue
            field, _, value = line.partition(":")
            value = value.removeprefix(" ")
            match field:
                case "data":
                    data.append(value)
                case "event":
                    name = value
                case "id":
                    last_id = value
                case _:
                    pass  # a comment, such as a sign of life
