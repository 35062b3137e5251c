"""The bytes of a scripted model: HTTP requests coming in, chat completions as OpenAI sends them going out."""

import asyncio
import contextlib
import json
import re
import socket
import struct
from http import HTTPStatus
from typing import Any, assert_never

from agent_fabric.domain.dataclass import dataclass
from agent_fabric.testing.scripted_answers import Call, Calls, Empty, Reply, Say

MAX_HEAD_BYTES = 256 * 1024
MAX_BODY_BYTES = 64 * 1024 * 1024
JSON_TYPE = "application/json"
_LINGER_NOTHING = struct.pack("ii", 1, 0)
"""SO_LINGER that makes closing a socket send a reset."""
_PIECES = 6
"""In how many deltas a text, or the arguments of one call, are streamed at most."""


class BadRequest(Exception):
    """The client sent something that cannot be answered."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequest:
    """One request, read to its end."""

    method: str
    path: str
    query: str
    headers: dict[str, str]
    """Names in lower case."""
    body: bytes
    keep_alive: bool
    can_chunk: bool
    """Whether the client understands a body that is sent in chunks (HTTP/1.1)."""


async def read_request(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> HttpRequest | None:
    """Read the next request of a connection; None when the client has left.

    Raises:
        BadRequest: it is malformed or too large; nothing more can be read from this connection.
    """
    try:
        head = await reader.readuntil(b"\r\n\r\n")
        method, target, version, headers = _parse_head(head)
        if headers.get("expect", "").lower() == "100-continue":
            writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        body = await _read_body(reader, headers)
    except asyncio.IncompleteReadError:
        return None
    except asyncio.LimitOverrunError as error:
        raise BadRequest("a line or the head of the request is too long", 431) from error
    path, _, query = target.partition("?")
    connection = headers.get("connection", "").lower()
    return HttpRequest(
        method=method,
        path=path,
        query=query,
        headers=headers,
        body=body,
        keep_alive="close" not in connection if version == "1.1" else "keep-alive" in connection,
        can_chunk=version == "1.1",
    )


def _parse_head(head: bytes) -> tuple[str, str, str, dict[str, str]]:
    first, *lines = head.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
    found = re.fullmatch(r"([A-Z]+) (\S+) HTTP/(1\.[01])", first)
    if found is None:
        raise BadRequest("this is not an HTTP/1.1 request")
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not name or name != name.strip():
            raise BadRequest(f"malformed header {line!r}")
        name = name.lower()
        headers[name] = f"{headers[name]}, {value.strip()}" if name in headers else value.strip()
    return found[1], found[2], found[3], headers


async def _read_body(reader: asyncio.StreamReader, headers: dict[str, str]) -> bytes:
    coding, length = headers.get("transfer-encoding", "").lower(), headers.get("content-length", "0")
    if coding == "chunked":
        return await _read_chunks(reader)
    if coding:
        raise BadRequest(f"transfer encoding {coding!r} is not understood")
    if not re.fullmatch(r"[0-9]{1,18}", length):
        raise BadRequest(f"malformed Content-Length {length!r}")
    _require_room(int(length))
    return await reader.readexactly(int(length))


async def _read_chunks(reader: asyncio.StreamReader) -> bytes:
    body = bytearray()
    while True:
        found = re.fullmatch(rb"([0-9a-fA-F]{1,15})[ \t]*(;.*)?\r\n", await reader.readuntil(b"\r\n"))
        if found is None:
            raise BadRequest("malformed chunk size")
        size = int(found[1], 16)
        if size == 0:
            break
        _require_room(len(body) + size)
        body += await reader.readexactly(size)
        if await reader.readexactly(2) != b"\r\n":
            raise BadRequest("malformed chunk")
    while await reader.readuntil(b"\r\n") != b"\r\n":
        pass  # trailers
    return bytes(body)


def _require_room(size: int) -> None:
    if size > MAX_BODY_BYTES:
        raise BadRequest(f"a body may have at most {MAX_BODY_BYTES} bytes", 413)


def response_head(status: int, content_type: str, *, length: int | None, keep_alive: bool, more: str = "") -> bytes:
    """Return status line and headers; without a length the body is sent in chunks, or ends with the connection."""
    reason = next((known.phrase for known in HTTPStatus if known == status), "Scripted")
    size = f"Content-Length: {length}\r\n" if length is not None else ""
    connection = "keep-alive" if keep_alive else "close"
    head = f"HTTP/1.1 {status} {reason}\r\nContent-Type: {content_type}\r\n{size}Connection: {connection}\r\n{more}\r\n"
    return head.encode("latin-1")


def chat_request(body: bytes) -> dict[str, Any]:
    """Parse the body of a chat request.

    Raises:
        BadRequest: it is not one.
    """
    try:
        data = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise BadRequest(f"the body is not JSON: {error}") from error
    messages = data.get("messages") if isinstance(data, dict) else None
    if not isinstance(data, dict) or not isinstance(messages, list) or not messages:
        raise BadRequest("'messages' must be a list with at least one message")
    if not all(isinstance(message, dict) and isinstance(message.get("role"), str) for message in messages):
        raise BadRequest("every message must be an object with a 'role'")
    if not isinstance(data.get("stream_options") or {}, dict):
        raise BadRequest("'stream_options' must be an object")
    return data


def error_body(status: int, message: str, **more: int | str) -> bytes:
    """Return an error as OpenAI words it, with `more` fields of its own."""
    kind = "invalid_request_error" if status < 500 else "server_error"
    return to_bytes({"error": {"message": message, "type": kind, "param": None, "code": None} | more})


def context_exceeded_body(prompt: int, room: int) -> bytes:
    """Return the error of llama.cpp for a prompt that does not fit."""
    message = f"request ({prompt} tokens) exceeds the available context size ({room} tokens), try increasing it"
    kind = "exceed_context_size_error"
    error = {"code": 400, "message": message, "type": kind, "n_prompt_tokens": prompt, "n_ctx": room}
    return to_bytes({"error": error})


def to_bytes(data: Any) -> bytes:
    """Return compact JSON; half a surrogate pair, which has no UTF-8, as the escape that JSON has for it."""
    return json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode(errors="backslashreplace")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatCompletion:
    """A reply in the two forms in which it can be sent: one object, or a stream of chunks."""

    reply: Reply
    request: dict[str, Any]
    name: str
    """From which the ids of the completion and its calls are made."""
    model: str
    prompt_size: int
    """Bytes of the request, from which the usage is estimated."""
    created: int

    @property
    def pause_s(self) -> float:
        """How long to pause behind each event."""
        return self.reply.pause_s if isinstance(self.reply, Say) else 0.0

    def whole(self) -> bytes:
        """Return the one `chat.completion` object."""
        calls = self._tool_calls()
        message: dict[str, Any] = {"role": "assistant", "content": self._text()}
        if calls:
            message["tool_calls"] = calls
        choice = {"index": 0, "message": message, "finish_reason": self._finish_reason()}
        return to_bytes(self._envelope("chat.completion") | {"choices": [choice], "usage": self._usage()})

    def events(self) -> list[bytes]:
        """Return the server-sent events, `[DONE]` included."""
        text = self._text()
        deltas: list[dict[str, Any]] = [{"role": "assistant", "content": None if text is None else ""}]
        deltas += [{"content": piece} for piece in _pieces(text or "")]
        for index, call in enumerate(self._tool_calls()):
            function = call["function"]
            deltas.append({"tool_calls": [call | {"index": index, "function": function | {"arguments": ""}}]})
            for piece in _pieces(function["arguments"]):
                deltas.append({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
        choices: list[dict[str, Any]] = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
        choices.append({"index": 0, "delta": {}, "finish_reason": self._finish_reason()})

        with_usage = bool((self.request.get("stream_options") or {}).get("include_usage"))
        envelope = self._envelope("chat.completion.chunk")
        chunks = [envelope | {"choices": [choice]} | ({"usage": None} if with_usage else {}) for choice in choices]
        if with_usage:
            chunks.append(envelope | {"choices": [], "usage": self._usage()})
        return [b"data: " + data + b"\n\n" for data in (*map(to_bytes, chunks), b"[DONE]")]

    def _envelope(self, kind: str) -> dict[str, Any]:
        return {"id": f"chatcmpl-{self.name}", "object": kind, "created": self.created, "model": self.model}

    def _text(self) -> str | None:
        match self.reply:
            case Say(text=text):
                return text
            case Calls(text=text):
                return text or None
            case Call() | Empty():
                return None
            case unknown:
                assert_never(unknown)

    def _calls(self) -> tuple[Call, ...]:
        match self.reply:
            case Call():
                return (self.reply,)
            case Calls(calls=calls):
                return calls
            case Say() | Empty():
                return ()
            case unknown:
                assert_never(unknown)

    def _tool_calls(self) -> list[dict[str, Any]]:
        return [
            {
                "id": call.call_id or f"call_{self.name}_{index}",
                "type": "function",
                "function": {"name": call.tool, "arguments": _arguments(call)},
            }
            for index, call in enumerate(self._calls())
        ]

    def _finish_reason(self) -> str:
        return "tool_calls" if self._calls() else "stop"

    def _usage(self) -> dict[str, int]:
        said = len(self._text() or "") + sum(len(_arguments(call)) for call in self._calls())
        prompt, completion = self.reply.usage or (max(1, self.prompt_size // 4), max(1, said // 4))
        return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}


def _arguments(call: Call) -> str:
    return call.arguments if isinstance(call.arguments, str) else json.dumps(call.arguments, ensure_ascii=False)


def _pieces(text: str) -> list[str]:
    size = max(1, -(-len(text) // _PIECES))
    return [text[start : start + size] for start in range(0, len(text), size)]


@dataclass(frozen=True, slots=True)
class Connection:
    """One client; each method gives one answer, and tells whether another request may follow."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def send(
        self, request: HttpRequest | None, status: int, body: bytes, *, content_type: str = JSON_TYPE, more: str = ""
    ) -> bool:
        keep_alive = request is not None and request.keep_alive
        body = b"" if status in {204, 304} else body
        head = response_head(status, content_type, length=len(body), keep_alive=keep_alive, more=more)
        self.writer.write(head + body)
        await self.writer.drain()
        return keep_alive

    async def complete(self, request: HttpRequest, completion: ChatCompletion, *, cut_after: int | None = None) -> bool:
        if completion.request.get("stream"):
            return await self._stream(request, completion.events(), cut_after, completion.pause_s)
        body = completion.whole()
        if cut_after is None:
            return await self.send(request, 200, body)
        head = response_head(200, JSON_TYPE, length=len(body), keep_alive=request.keep_alive)
        self.writer.write(head + body[: min(cut_after, len(body) - 1)])
        await self.writer.drain()
        return False

    async def _stream(
        self, request: HttpRequest, events: list[bytes], cut_after: int | None, pause_s: float = 0.0
    ) -> bool:
        keep_alive = request.keep_alive and request.can_chunk
        chunked = "Transfer-Encoding: chunked\r\n" if request.can_chunk else ""
        more = f"Cache-Control: no-cache\r\n{chunked}"
        self.writer.write(response_head(200, "text/event-stream", length=None, keep_alive=keep_alive, more=more))
        total = sum(map(len, events))
        left = total if cut_after is None else min(cut_after, total - 1)
        for event in events:
            piece, left = event[:left], left - min(left, len(event))
            if piece:
                self.writer.write(b"%x\r\n%b\r\n" % (len(piece), piece) if chunked else piece)
                await self.writer.drain()
                if pause_s:
                    await asyncio.sleep(pause_s)
        if cut_after is not None:
            return False
        if chunked:
            self.writer.write(b"0\r\n\r\n")
            await self.writer.drain()
        return keep_alive

    async def hang(self, seconds: float | None) -> bool:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while await self.reader.read(65536):
                    pass
        return False

    def reset(self) -> bool:
        self.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_NOTHING)
        self.writer.transport.abort()
        return False
