"""A model that answers at once, so that what is left is the caller's own cost.

It speaks just enough HTTP for keep-alive clients on loopback. A conversation whose task says `[steps=N]` gets N calls
of the tool `add`, one a turn, then a plain answer; one that says `[note=N]` gets one file written, then the end of the
task; `[wait=MS]` delays every answer.
"""

import asyncio
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import orjson

DONE = "All steps are done."
_TAG = re.compile(rb"\[(steps|wait|note)=(\d+)\]")


class Model(asyncio.Protocol):
    """One connection."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.buffer = b""

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        head, found, rest = self.buffer.partition(b"\r\n\r\n")
        if not found:
            return
        match = re.search(rb"content-length: *(\d+)", head, re.IGNORECASE)
        length = int(match.group(1)) if match else 0
        if len(rest) >= length:
            self.buffer = rest[length:]
            self.answer(rest[:length])

    def answer(self, body: bytes) -> None:
        tags = {name: int(value) for name, value in _TAG.findall(body)}
        turn = body.count(b'"role":"assistant"') + body.count(b'"role": "assistant"')
        call: dict[str, str] | None = None
        if b"note" in tags:
            call = note_call(tags[b"note"], turn)
        elif turn < tags.get(b"steps", 0):
            call = {"name": "add", "arguments": f'{{"a": {turn}, "b": 1}}'}
        message: dict[str, object] = {"role": "assistant", "content": DONE}
        if call is not None:
            calls = [{"id": f"call_{turn}", "type": "function", "function": call}]
            message = {"role": "assistant", "content": None, "tool_calls": calls}
        reply = orjson.dumps(
            {
                "id": "mock",
                "object": "chat.completion",
                "created": 0,
                "model": "mock",
                "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
                "usage": {"prompt_tokens": len(body) // 4, "completion_tokens": 12},
            }
        )
        head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(reply)
        wait_s = tags.get(b"wait", 0) / 1000
        if wait_s:
            asyncio.get_running_loop().call_later(wait_s, self.transport.write, head + reply)
        else:
            self.transport.write(head + reply)


def note_call(number: int, turn: int) -> dict[str, str]:
    """Return the call that writes a file, and once it is written, the one that ends the task."""
    if turn == 0:
        note = {"path": "note.txt", "content": f"Ticket {number}: the disk of host-{number % 97} was full.\n"}
        return {"name": "write_file", "arguments": orjson.dumps(note).decode()}
    finish = {"summary": f"The note about ticket {number} is in note.txt.", "artifacts": ["note.txt"]}
    return {"name": "finish_task", "arguments": orjson.dumps(finish).decode()}


@contextmanager
def serving() -> Iterator[str]:
    """Serve the model in a process of its own; give its address."""
    model = subprocess.Popen([sys.executable, __file__], stdout=subprocess.PIPE, text=True)
    assert model.stdout is not None
    try:
        yield model.stdout.readline().strip()
    finally:
        model.terminate()
        model.wait()


async def main() -> None:
    server = await asyncio.get_running_loop().create_server(Model, "127.0.0.1", 0, backlog=4096)
    sys.stdout.write(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1\n")
    sys.stdout.flush()
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
