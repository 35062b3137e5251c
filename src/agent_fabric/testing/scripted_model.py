"""A model server that says what a script tells it to: real HTTP on loopback, in OpenAI's format, with faults on demand.

In a test:

    async with ScriptedModel([Call("list_files", {"path": "."}), Status(503), Finish(summary="done")]) as model:
        ...  # let the client talk to model.base_url
        assert model.requests[0].body["tools"]

As a process that outlives its clients, with the script in the form of `Script.to_json`:

    python -m agent_fabric.testing.scripted_model --script script.json [--port N] [--port-file FILE]

`GET /_requests` then tells what was asked; with `?wait_for=N` it answers when there were N requests.
"""

import argparse
import asyncio
import contextlib
import signal
import socket
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self, assert_never
from urllib.parse import parse_qs

from agent_fabric.domain.dataclass import dataclass
from agent_fabric.testing.scripted_answers import (
    Answer,
    Call,
    Calls,
    ContextExceeded,
    Cut,
    Empty,
    Entry,
    Fault,
    Finish,
    Hang,
    Raw,
    Reply,
    Reset,
    Responder,
    Say,
    Script,
    Slow,
    Status,
    Turn,
    Usage,
    conversation_of,
    fingerprint,
    turn_of,
)
from agent_fabric.testing.scripted_wire import (
    JSON_TYPE,
    MAX_HEAD_BYTES,
    BadRequest,
    ChatCompletion,
    Connection,
    HttpRequest,
    chat_request,
    context_exceeded_body,
    error_body,
    read_request,
    to_bytes,
)

__all__ = [
    "Answer",
    "Call",
    "Calls",
    "ContextExceeded",
    "Cut",
    "Empty",
    "Entry",
    "Fault",
    "Finish",
    "Hang",
    "Raw",
    "Recorded",
    "Reply",
    "Reset",
    "Responder",
    "Say",
    "Script",
    "ScriptedModel",
    "Slow",
    "Status",
    "Turn",
    "Usage",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """One chat request as it arrived."""

    body: dict[str, Any]
    headers: dict[str, str]
    """Names in lower case."""
    path: str
    at: float
    """On the monotonic clock."""


class ScriptedModel:
    """A model server for the time of an `async with`.

    The script is a list of entries, a `Script`, or a function of request and attempt. Leaving the block closes every
    connection, also one that hangs. What the function raises closes the connection, and is raised again on leaving.
    """

    def __init__(self, script: Sequence[Entry] | Responder, *, name: str = "scripted", port: int = 0) -> None:
        self.name = name
        """What `/v1/models` lists; answers name the model that was asked for."""
        self.requests: list[Recorded] = []
        """Every well-formed chat request, in order of arrival, recorded before it is answered."""
        self._respond: Responder = Script(tuple(script)) if isinstance(script, Sequence) else script
        self._port = port
        self._attempts: Counter[tuple[str, int]] = Counter()
        self._arrived = asyncio.Event()
        self._listener: socket.socket | None = None
        # Not a TaskGroup: fixtures may leave the block in another task than the one that entered it.
        self._connections: dict[asyncio.Task[None], socket.socket] = {}
        self._failures: list[BaseException] = []

    @property
    def port(self) -> int:
        """The TCP port on 127.0.0.1; entering the block again listens there again."""
        if self._port == 0:
            raise RuntimeError("the scripted model has no port before its `async with` block")
        return self._port

    @property
    def base_url(self) -> str:
        """What a client takes as its base URL."""
        return f"http://127.0.0.1:{self.port}/v1"

    async def wait_for_requests(self, count: int, *, timeout_s: float = 10.0) -> list[Recorded]:
        """Wait until `count` chat requests have arrived, and return them all.

        Raises:
            TimeoutError: fewer came in time.
        """
        async with asyncio.timeout(timeout_s):
            while len(self.requests) < count:
                self._arrived.clear()
                await self._arrived.wait()
        return list(self.requests)

    async def __aenter__(self) -> Self:
        # Not asyncio.start_server: it loses connections that are accepted in the moment in which it is closed.
        self._listener = socket.create_server(("127.0.0.1", self._port), backlog=1024)
        self._listener.setblocking(False)
        self._port = int(self._listener.getsockname()[1])
        asyncio.get_running_loop().add_reader(self._listener, self._accept, self._listener)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._listener is not None:
            asyncio.get_running_loop().remove_reader(self._listener)
            self._listener.close()
            self._listener = None
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        if self._failures and (error is None or isinstance(error, Exception)):
            raise self._failures.pop(0)

    def _accept(self, listener: socket.socket) -> None:
        with contextlib.suppress(BlockingIOError, ConnectionAbortedError):
            while True:
                client, _ = listener.accept()
                client.setblocking(False)
                task = asyncio.create_task(self._serve(client))
                self._connections[task] = client
                task.add_done_callback(self._forget)

    def _forget(self, task: asyncio.Task[None]) -> None:
        self._connections.pop(task).close()
        if not task.cancelled() and (failure := task.exception()) is not None:
            self._failures.append(failure)

    async def _serve(self, client: socket.socket) -> None:
        reader, writer = await asyncio.open_connection(sock=client, limit=MAX_HEAD_BYTES)
        connection = Connection(reader, writer)
        try:
            with contextlib.suppress(ConnectionError):
                while await self._answer_next(connection):
                    pass
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()
        finally:
            writer.transport.abort()  # does nothing unless it was interrupted

    async def _answer_next(self, connection: Connection) -> bool:
        """Answer one request; tell whether the connection can go on."""
        try:
            request = await read_request(connection.reader, connection.writer)
            if request is None:
                return False
            match request.method, request.path:
                case "POST", "/v1/chat/completions":
                    return await self._answer_chat(connection, request)
                case "GET", "/v1/models":
                    model = {"id": self.name, "object": "model", "created": 0, "owned_by": "agent-fabric"}
                    body = to_bytes({"object": "list", "data": [model]})
                    return await connection.send(request, 200, body)
                case "GET", "/_requests":
                    return await connection.send(request, 200, await self._tell_requests(request))
                case method, path:
                    return await connection.send(request, 404, error_body(404, f"there is no {method} {path}"))
        except BadRequest as error:
            return await connection.send(None, error.status, error_body(error.status, str(error)))

    async def _tell_requests(self, request: HttpRequest) -> bytes:
        count = parse_qs(request.query).get("wait_for", ["0"])[0]
        if not count.isdecimal():
            raise BadRequest("'wait_for' must be a number")
        with contextlib.suppress(TimeoutError):
            await self.wait_for_requests(int(count), timeout_s=30.0)
        return to_bytes({"count": len(self.requests), "bodies": [recorded.body for recorded in self.requests]})

    async def _answer_chat(self, connection: Connection, request: HttpRequest) -> bool:
        chat = chat_request(request.body)
        self.requests.append(Recorded(body=chat, headers=request.headers, path=request.path, at=time.monotonic()))
        self._arrived.set()
        turn = conversation_of(chat), turn_of(chat)
        attempt = self._attempts[turn]
        self._attempts[turn] += 1
        return await self._give(connection, request, chat, self._respond(chat, attempt))

    async def _give(self, connection: Connection, request: HttpRequest, chat: dict[str, Any], answer: Answer) -> bool:
        match answer:
            case Say() | Call() | Calls() | Empty():
                return await connection.complete(request, self._completion(request, chat, answer))
            case Cut(answer=reply, after_bytes=limit):
                return await connection.complete(request, self._completion(request, chat, reply), cut_after=limit)
            case Slow(answer=later, delay_s=delay_s):
                await asyncio.sleep(delay_s)
                return await self._give(connection, request, chat, later)
            case Hang(seconds=seconds):
                return await connection.hang(seconds)
            case Reset():
                return connection.reset()
            case Raw(body=body, content_type=content_type):
                data = body.encode() if isinstance(body, str) else body
                return await connection.send(request, 200, data, content_type=content_type)
            case Status(code=code, body=text, retry_after=wait):
                data = text.encode() or error_body(code, f"scripted status {code}")
                content_type = JSON_TYPE if data.startswith(b"{") else "text/plain; charset=utf-8"
                more = "" if wait is None else f"Retry-After: {wait}\r\n"
                return await connection.send(request, code, data, content_type=content_type, more=more)
            case ContextExceeded(n_prompt_tokens=prompt, n_ctx=room):
                return await connection.send(request, 400, context_exceeded_body(prompt, room))
            case unknown:
                assert_never(unknown)

    def _completion(self, request: HttpRequest, chat: dict[str, Any], reply: Reply) -> ChatCompletion:
        return ChatCompletion(
            reply=reply,
            request=chat,
            name=fingerprint(chat["messages"]),
            model=str(chat.get("model") or self.name),
            prompt_size=len(request.body),
            created=int(time.time()),
        )


async def _serve_until_told(script: Script, port: int, port_file: Path | None) -> None:
    told = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, told.set)
    async with ScriptedModel(script, port=port) as model:
        _announce(model, port_file)
        await told.wait()


def _announce(model: ScriptedModel, port_file: Path | None) -> None:
    if port_file is not None:
        half = port_file.with_name(f"{port_file.name}.new")
        half.write_text(f"{model.port}\n")
        half.replace(port_file)  # a waiter never sees half of the file
    sys.stdout.write(f"{model.base_url}\n")
    sys.stdout.flush()


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve a script from a file until SIGTERM or SIGINT; print the base URL when ready."""
    parser = argparse.ArgumentParser(prog="scripted_model", description="A model server that follows a script.")
    parser.add_argument("--script", type=Path, required=True, help="JSON file: a list of entries, or a whole script")
    parser.add_argument("--port", type=int, default=0, help="port on 127.0.0.1; 0 chooses a free one")
    parser.add_argument("--port-file", type=Path, help="file to write the port into when ready")
    options = parser.parse_args(arguments)
    try:
        script = Script.from_json(options.script.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        parser.error(f"{options.script}: {error}")
    asyncio.run(_serve_until_told(script, options.port, options.port_file))


if __name__ == "__main__":
    main()
