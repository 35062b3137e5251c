"""Streams of events, cut anywhere."""

import asyncio

import aiohttp
import pytest
from aiohttp.base_protocol import BaseProtocol

from agent_fabric.client.following import Frame, frames

STREAM = (
    b": ping\n\nid: 1\ndata: one\n\nevent: delta\ndata: tw\xc3\xb6\r\n\r\ndata: a\ndata: b\n\n"
    b"id: 2\n\nretry: 5\ndata\n\ndata: cut off"
)
FRAMES = [Frame("", "1", "one"), Frame("delta", None, "twö"), Frame("", None, "a\nb"), Frame("", None, "")]


async def read(*pieces: bytes) -> list[Frame]:
    loop = asyncio.get_running_loop()
    reader = aiohttp.StreamReader(BaseProtocol(loop), 2**16, loop=loop)
    for piece in pieces:
        reader.feed_data(piece)
    reader.feed_eof()
    return [frame async for frame in frames(reader)]


async def test_frames_are_found_and_what_was_cut_off_is_dropped() -> None:
    assert await read(STREAM) == FRAMES


@pytest.mark.parametrize("size", [1, 2, 3, 7])
async def test_it_does_not_matter_where_pieces_end(size: int) -> None:
    assert await read(*(STREAM[start : start + size] for start in range(0, len(STREAM), size))) == FRAMES


async def test_nothing_and_garbage_are_no_frames() -> None:
    assert await read() == []
    assert await read(b"\n\n\n\r\n:\n\n", b"\xff\xfe\n\n") == []
