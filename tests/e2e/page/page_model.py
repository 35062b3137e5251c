"""A model server for the page: it writes its answers slowly, as real ones do, and decides by the last question."""

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from agent_fabric.testing.scripted_wire import BadRequest, HttpRequest, read_request

PIECE_CHARS = 12


@dataclass(frozen=True)
class Written:
    """An answer, and how fast it is written."""

    text: str = ""
    calls: tuple[tuple[str, dict[str, Any]], ...] = ()
    pause_s: float = 0.005
    piece: int = PIECE_CHARS


Answers = Callable[[str, int, list[dict[str, Any]]], Written]
"""Chooses an answer: the last question, how many tool results came after it, and all messages."""


def question_in(messages: list[dict[str, Any]]) -> tuple[str, int]:
    """Return what a person asked last, and how many tool results came since."""
    last = max(index for index, each in enumerate(messages) if each["role"] == "user")
    content = messages[last]["content"]
    text = content if isinstance(content, str) else "".join(part.get("text", "") for part in content)
    return text, sum(each["role"] == "tool" for each in messages[last:])


class PageModel:
    """Speaks OpenAI's protocol on a free port of loopback."""

    def __init__(self, answers: Answers) -> None:
        self.answers = answers
        self.asked: list[list[dict[str, Any]]] = []
        self.port = 0

    @property
    def base_url(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self.port}/v1"

    async def serve(self, ready: Callable[[], None], over: asyncio.Event) -> None:
        """Answer until it is over."""
        server = await asyncio.start_server(self._talk, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        ready()
        async with server:
            await over.wait()
            server.close()

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                request = await read_request(reader, writer)
                if request is None or not await self._answer(request, writer):
                    break
        except (BadRequest, ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _answer(self, request: HttpRequest, writer: asyncio.StreamWriter) -> bool:
        if not request.path.endswith("/chat/completions"):
            _write(writer, json.dumps({"object": "list", "data": [{"id": "paper", "object": "model"}]}).encode())
            await writer.drain()
            return True
        body = json.loads(request.body)
        self.asked.append(body["messages"])
        written = self.answers(*question_in(body["messages"]), body["messages"])
        calls = [
            {"index": nth, "id": f"call_{len(self.asked)}_{nth}", "type": "function",
             "function": {"name": name, "arguments": json.dumps(arguments)}}
            for nth, (name, arguments) in enumerate(written.calls)
        ]  # fmt: skip
        if not body.get("stream"):
            said = {"role": "assistant", "content": written.text, **({"tool_calls": calls} if calls else {})}
            whole = {"choices": [{"index": 0, "message": said, "finish_reason": "stop"}]}
            _write(writer, json.dumps({"id": "1", "object": "chat.completion", "model": "paper", **whole}).encode())
            await writer.drain()
            return True
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n")
        for start in range(0, len(written.text), written.piece):
            _chunk(writer, {"content": written.text[start : start + written.piece]})
            await writer.drain()
            await asyncio.sleep(written.pause_s)
        if calls:
            _chunk(writer, {"tool_calls": calls})
        _chunk(writer, {}, finish="tool_calls" if calls else "stop")
        writer.write(b"data: [DONE]\n\n")
        await writer.drain()
        return False


def _write(writer: asyncio.StreamWriter, body: bytes) -> None:
    writer.write(
        b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)
    )


def _chunk(writer: asyncio.StreamWriter, delta: dict[str, Any], finish: str | None = None) -> None:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    data = json.dumps({"id": "1", "object": "chat.completion.chunk", "model": "paper", "choices": [choice]})
    writer.write(f"data: {data}\n\n".encode())


@contextmanager
def page_model(answers: Answers) -> Iterator[PageModel]:
    """Serve on a thread of its own, because browsers are driven by code that blocks."""
    model = PageModel(answers)
    ready = threading.Event()
    loop = asyncio.new_event_loop()
    over = asyncio.Event()

    def run() -> None:
        asyncio.set_event_loop(loop)
        loop.run_until_complete(model.serve(ready.set, over))
        pending = asyncio.all_tasks(loop)
        for task in pending:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*pending, return_exceptions=True))
        loop.close()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    assert ready.wait(60)
    try:
        yield model
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join(10)
