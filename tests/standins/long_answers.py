"""A model that does not stop: answers of many megabytes, over OpenAI's chat format and over Ollama's.

A request says in its task how much it gets and in which form: `[long=KB]` `[as=text|arguments|reasoning|word]`; a word
has no spaces. Streams come in pieces as a model writes them, as fast as the reader takes them. When the model was told
something after the task, or has been asked nothing of the kind, its answer is short. As a process:

    python tests/standins/long_answers.py
"""

import asyncio
import re
import sys
from collections.abc import Callable
from contextlib import suppress

import orjson

_TAG = re.compile(rb"\[(long|as)=(\w+)\]")
_SHORT = "All of it is done."
PROSE = (
    'The build of Tuesday took 413 seconds, "longer than ever before", and src/agent/core.py has 1,204 lines. '
    "It was not run again. See https://example.com/builds/41 for `make test` and what it said about token_rate=0.7.\n"
)
PIECE = 48
"""Characters of one piece of a stream."""
BLOCK = 48_000
"""Characters that are encoded once and sent again and again: the model must not be the slow part."""


def _text(kind: str, size: int) -> str:
    base = "x" if kind == "word" else PROSE
    return (base * (size // len(base) + 1))[:size]


def _block(kind: str, size: int) -> list[str]:
    text = _text(kind, size)
    if kind == "arguments":
        text = text.replace('"', "'").replace("\n", " ")  # inside of one JSON string
    return [text[at : at + PIECE] for at in range(0, len(text), PIECE)]


def _openai(kind: str, piece: str, end: bool) -> bytes:
    delta: dict[str, object] = {"content": piece}
    if kind == "arguments":
        delta = {"tool_calls": [{"index": 0, "id": "c", "function": {"name": "finish_task", "arguments": piece}}]}
    elif kind == "reasoning":
        delta = {"reasoning_content": piece}
    choice = {"index": 0, "delta": delta, "finish_reason": "stop" if end else None}
    chunk = {"id": "m", "object": "chat.completion.chunk", "created": 0, "model": "long", "choices": [choice]}
    return b"data: " + orjson.dumps(chunk) + (b"\n\ndata: [DONE]\n\n" if end else b"\n\n")


def _ollama(kind: str, piece: str, end: bool) -> bytes:
    message = {"role": "assistant", "content": piece}
    if kind == "reasoning":
        message = {"role": "assistant", "content": "", "thinking": piece}
    part = {"model": "long", "created_at": "2026-11-18T00:00:00Z", "message": message, "done": end}
    return orjson.dumps(part | ({"done_reason": "stop"} if end else {})) + b"\n"


def _whole(kind: str, text: str, *, native: bool) -> bytes:
    message: dict[str, object] = {"role": "assistant", "content": text}
    if kind == "arguments":
        given = {"summary": text}
        call = {"id": "c", "function": {"name": "finish_task", "arguments": given if native else _json(given)}}
        message = {"role": "assistant", "content": "", "tool_calls": [call]}
    if native:
        return orjson.dumps({"model": "long", "message": message, "done": True, "done_reason": "stop"}) + b"\n"
    return orjson.dumps({"model": "long", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]})


def _json(value: object) -> str:
    return orjson.dumps(value).decode()


class LongAnswers:
    """The server, and what it has sent."""

    def __init__(self) -> None:
        self.port = 0
        self.sent = 0
        self.cut = 0
        """Answers whose reader closed the connection before their end."""
        self._under_way = 0
        self._idle = asyncio.Event()

    async def idle(self) -> None:
        """Wait until no answer is under way."""
        async with asyncio.timeout(30):
            await self._idle.wait()

    async def serve(self) -> asyncio.Server:
        """Listen on a free port of loopback."""
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0, backlog=1024)
        self.port = server.sockets[0].getsockname()[1]
        return server

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                match = re.search(rb"content-length: *(\d+)", head, re.IGNORECASE)
                body = await reader.readexactly(int(match[1]) if match else 0)
                self._under_way += 1
                self._idle.clear()
                try:
                    await self._answer(head, body, writer)
                except ConnectionError:
                    self.cut += 1
                    raise
                finally:
                    self._under_way -= 1
                    if not self._under_way:
                        self._idle.set()
        writer.close()

    async def _answer(self, head: bytes, body: bytes, writer: asyncio.StreamWriter) -> None:
        native = b"/api/chat" in head.split(b"\r\n", 1)[0]
        tags = dict(_TAG.findall(body))
        kind, size = tags.get(b"as", b"text").decode(), int(tags.get(b"long", b"0")) * 1000
        if body.count(b'"role":"user"') > 1 or not size:
            kind, size = "text", 0
        encode, form = (_ollama, b"application/x-ndjson") if native else (_openai, b"text/event-stream")
        if b'"stream":true' not in body:
            await self._send(writer, b"application/json", _whole(kind, _text(kind, size) or _SHORT, native=native))
        elif not size:
            await self._send(writer, form, encode(kind, _SHORT, True))
        elif native and kind == "arguments":  # Ollama sends a call whole
            await self._send(writer, form, _whole(kind, _text(kind, size), native=True))
        else:
            await self._stream(writer, form, encode, kind, size)

    async def _send(self, writer: asyncio.StreamWriter, form: bytes, data: bytes) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: %s\r\ncontent-length: %d\r\n\r\n" % (form, len(data)))
        for at in range(0, len(data), 65_536):
            await self._write(writer, data[at : at + 65_536])

    async def _stream(
        self,
        writer: asyncio.StreamWriter,
        form: bytes,
        encode: Callable[[str, str, bool], bytes],
        kind: str,
        size: int,
    ) -> None:
        begin, end = ('{"summary": "', '"}') if kind == "arguments" else ("", ".")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: %s\r\ntransfer-encoding: chunked\r\n\r\n" % form)
        await self._chunk(writer, encode(kind, begin, False))
        block = b"".join(encode(kind, piece, False) for piece in _block(kind, min(BLOCK, size)))
        for _ in range(max(size // BLOCK, 1)):
            await self._chunk(writer, block)
        await self._chunk(writer, encode(kind, end, True))
        writer.write(b"0\r\n\r\n")

    async def _chunk(self, writer: asyncio.StreamWriter, data: bytes) -> None:
        await self._write(writer, b"%x\r\n%s\r\n" % (len(data), data))

    async def _write(self, writer: asyncio.StreamWriter, data: bytes) -> None:
        writer.write(data)
        self.sent += len(data)
        await writer.drain()


async def main() -> None:
    """Serve, and say where."""
    model = LongAnswers()
    server = await model.serve()
    sys.stdout.write(f"http://127.0.0.1:{model.port}\n")
    sys.stdout.flush()
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
