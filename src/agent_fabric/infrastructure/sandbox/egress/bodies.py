"""Passes on the body of a request, exactly as long as it said: what comes after it is not for the server."""

import asyncio
import re
from collections.abc import AsyncIterator
from typing import Final

from agent_fabric.infrastructure.sandbox.egress.hosts import Malformed

PIECE_BYTES: Final = 64 * 1024
_CHUNK: Final = re.compile(rb"([0-9A-Fa-f]{1,8})[ \t]*(?:;[\t\x20-\x7e\x80-\xff]*)?\r\n")
_MAX_TRAILERS: Final = 20


async def body_of(reader: asyncio.StreamReader, length: int | None) -> AsyncIterator[bytes]:
    """Yield a body piece by piece, as the server gets it; None: in chunks, which are written anew.

    Raises:
        Malformed: the chunks are not written as HTTP/1.1 has them.
        asyncio.IncompleteReadError: the client left in the middle.
    """
    if length is not None:
        async for piece in _exactly(reader, length):
            yield piece
        return
    while size := await _chunk_size(reader):
        yield f"{size:x}\r\n".encode()
        async for piece in _exactly(reader, size):
            yield piece
        if await reader.readexactly(2) != b"\r\n":
            raise Malformed("a chunk is longer than it says")
        yield b"\r\n"
    for _ in range(_MAX_TRAILERS):
        if await reader.readuntil(b"\r\n") == b"\r\n":
            break
    else:
        raise Malformed("there are too many lines after the last chunk")
    yield b"0\r\n\r\n"


async def _exactly(reader: asyncio.StreamReader, length: int) -> AsyncIterator[bytes]:
    while length:
        piece = await reader.read(min(length, PIECE_BYTES))
        if not piece:
            raise asyncio.IncompleteReadError(b"", length)
        length -= len(piece)
        yield piece


async def _chunk_size(reader: asyncio.StreamReader) -> int:
    found = _CHUNK.fullmatch(await reader.readuntil(b"\r\n"))
    if found is None:
        raise Malformed("the size of a chunk is no number")
    return int(found[1], 16)
