"""Reads the answers of models, no more of each than is allowed, and without keeping others waiting.

A model may not stop, and a server may send faster than anything here can look at. So an answer is taken in small parts,
with a turn for everyone else between them; at its limit the connection is closed, and what has come is the answer.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Final
from weakref import WeakKeyDictionary

from agent_fabric.application.ports.llm import OnDelta
from agent_fabric.domain.models.messages import LLMResponse, cut_answer
from agent_fabric.infrastructure.models.http_answer import HttpAnswer
from agent_fabric.infrastructure.models.model_http import MAX_ANSWER_BYTES
from agent_fabric.infrastructure.models.ollama.chat_wire import StreamedChat
from agent_fabric.infrastructure.models.openai_wire import StreamedAnswer

LINES_AT_ONCE: Final = 32
"""Lines of a stream that are looked at before others get their turn: about a third of a millisecond."""
BYTES_PER_CHAR: Final = 6
"""The most that JSON takes for a character, as an escape."""
ROOM: Final = 65_536
"""Bytes around the text of an answer: names, ids, counts."""


_turns: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()


def _turn() -> asyncio.Lock:
    """Return what is held while a full batch is looked at: one in each round of the event loop, of whichever answer."""
    return _turns.setdefault(asyncio.get_running_loop(), asyncio.Lock())


class _TooLong(Exception):
    """No more of an answer is wanted."""


async def read_stream(
    response: HttpAnswer, reader: StreamedAnswer | StreamedChat, on_delta: OnDelta, most: int
) -> LLMResponse:
    """Read an answer of at most `most` characters as it comes; `on_delta` gets its text."""
    shown = 0
    try:
        async for lines in _batches(response, _bytes_for(most)):
            async with _turn() if len(lines) == LINES_AT_ONCE else nullcontext():
                for text in _feed(reader, lines, most):
                    if shown < most:
                        on_delta(text[: most - shown])
                        shown += len(text)
            if reader.size > most:
                raise _TooLong
            if reader.done:
                break
            if len(lines) == LINES_AT_ONCE:
                await asyncio.sleep(0)
    except _TooLong:
        return cut_answer(replace(reader.beginning(), cut=most), most)
    return reader.answer()


async def read_whole(response: HttpAnswer, parse: Callable[[bytes], LLMResponse], most: int) -> LLMResponse:
    """Read an answer that comes in one piece; of one that is too long by far, nothing can be read."""
    data = await response.read(_bytes_for(most))
    return cut_answer(LLMResponse(content="", cut=most) if data is None else parse(data), most)


def _bytes_for(most: int) -> int:
    return BYTES_PER_CHAR * most + ROOM


def _feed(reader: StreamedAnswer | StreamedChat, lines: Sequence[bytes], most: int) -> list[str]:
    """Take in lines until the answer is complete or too long; return the pieces of text that they added.

    Where a server sends faster than it is read, they are one piece: a viewer cannot follow them anyway.
    """
    said = []
    for line in lines:
        if text := reader.feed(line):
            said.append(text)
        if reader.done or reader.size > most:
            break
    return ["".join(said)] if len(lines) == LINES_AT_ONCE and said else said


async def _batches(response: HttpAnswer, longest: int) -> AsyncIterator[list[bytes]]:
    """Give the lines of an answer as they come, some at a time, and what follows the last of them.

    Raises:
        _TooLong: a line is longer than `longest`, or all of them are too large.
    """
    rest: list[bytes] = []
    size = held = 0
    async for piece in response.pieces():
        size += len(piece)
        held += len(piece)
        if size > MAX_ANSWER_BYTES:
            raise _TooLong
        if b"\n" not in piece:
            rest.append(piece)
            if held > longest:
                raise _TooLong
            continue
        *lines, begun = b"".join((*rest, piece)).split(b"\n")
        rest, held = [begun], len(begun)
        for at in range(0, len(lines), LINES_AT_ONCE):
            yield lines[at : at + LINES_AT_ONCE]
    yield [b"".join(rest)]
