"""JSON-RPC over standard input and output, one message a line: answers requests of the editor and makes some of it."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, Final, Protocol

from agent_fabric.domain.errors import FabricError
from agent_fabric.wire.json_codec import dump_json, load_json

MAX_FRAME_BYTES: Final = 16 * 1024 * 1024
"""A longer line is refused, and not kept in memory."""
MAX_REQUESTS: Final = 64
"""Requests of the editor that are under way at once."""
_CHUNK_BYTES: Final = 65_536

PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND = -32700, -32600, -32601
INVALID_PARAMS, INTERNAL_ERROR, RESOURCE_NOT_FOUND = -32602, -32603, -32002

_log = logging.getLogger(__name__)


class RpcError(Exception):
    """What is wrong with a request, as its answer says it."""

    def __init__(self, code: int, message: str, data: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.code, self.message, self.data = code, message, data

    def as_object(self) -> dict[str, Any]:
        """Return the error as it is sent."""
        data = {} if self.data is None else {"data": dict(self.data)}
        return {"code": self.code, "message": self.message, **data}


class Methods(Protocol):
    """What the editor may call."""

    async def call(self, method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        """Carry out a request.

        Raises:
            RpcError, FabricError: it failed.
        """
        ...

    def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Take in a notification; one that is unknown or malformed is ignored."""
        ...


class Peer:
    """One end of a connection. What arrives is never trusted to be well-formed."""

    def __init__(self, reader: asyncio.StreamReader, write: Callable[[bytes], Awaitable[None]]) -> None:
        self._reader = reader
        self._write = write
        self._asked: dict[int, asyncio.Future[Any]] = {}
        self._running = 0
        self._line = asyncio.Lock()

    async def serve(self, methods: Methods) -> None:
        """Answer requests until the editor closes its end; what is under way then is cancelled."""
        async with asyncio.TaskGroup() as group:
            tasks: set[asyncio.Task[None]] = set()
            try:
                while (line := await self._next()) is not None:
                    if (work := await self._take(line, methods)) is not None:
                        task = group.create_task(work)
                        tasks.add(task)
                        task.add_done_callback(tasks.discard)
            finally:
                for future in self._asked.values():
                    future.cancel()
                for task in tasks:
                    task.cancel()

    async def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Tell the editor something."""
        await self._send({"jsonrpc": "2.0", "method": method, "params": params})

    async def ask(self, method: str, params: Mapping[str, Any]) -> Any:
        """Make a request of the editor and return its result.

        Raises:
            RpcError: the editor answered with an error.
        """
        number = max(self._asked, default=0) + 1
        self._asked[number] = asyncio.get_running_loop().create_future()
        try:
            await self._send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
            return await self._asked[number]
        finally:
            del self._asked[number]

    _rest = b""

    async def _next(self) -> bytes | None:
        """Return the next line; an empty one stands for one that was too long, None for the end."""
        parts: list[bytes] = []
        size, dropped = 0, False
        while True:
            chunk = self._rest or await self._reader.read(_CHUNK_BYTES)
            if not chunk:
                return None
            head, end, self._rest = chunk.partition(b"\n")
            size += len(head)
            if size > MAX_FRAME_BYTES:
                parts, dropped = [], True
            else:
                parts.append(head)
            if end:
                return b"" if dropped else b"".join(parts) or b" "

    async def _take(self, line: bytes, methods: Methods) -> "Coroutine[Any, Any, None] | None":
        """Take in a line; return what answers it, if that takes its time."""
        if not line:
            await self._fail(None, RpcError(INVALID_REQUEST, f"A message is longer than {MAX_FRAME_BYTES:,} bytes"))
            return None
        if not line.strip():
            return None
        try:
            message = load_json(line.strip())
        except ValueError:
            await self._fail(None, RpcError(PARSE_ERROR, "A line is not JSON"))
            return None
        if not isinstance(message, dict):
            await self._fail(None, RpcError(INVALID_REQUEST, "A message is one JSON object"))
            return None
        method, number, params = message.get("method"), message.get("id"), message.get("params", {})
        if method is None:
            self._take_answer(message)
            return None
        if params is None:
            params = {}
        usable = isinstance(method, str) and isinstance(params, dict)
        if "id" not in message:
            if usable:
                methods.notify(method, params)
            return None
        if not usable or isinstance(number, bool) or not isinstance(number, str | int | None):
            shown = number if isinstance(number, str | int) else None
            await self._fail(shown, RpcError(INVALID_REQUEST, "A request has a method, an id and named parameters"))
            return None
        if self._running >= MAX_REQUESTS:
            await self._fail(number, RpcError(INTERNAL_ERROR, f"{MAX_REQUESTS} requests are under way already"))
            return None
        self._running += 1
        return self._answer(methods, str(method), number, params)

    async def _answer(self, methods: Methods, method: str, number: str | int | None, params: dict[str, Any]) -> None:
        try:
            result = await methods.call(method, params)
        except RpcError as problem:
            await self._fail(number, problem)
        except FabricError as problem:
            data = {"code": problem.code, "hint": problem.hint}
            await self._fail(number, RpcError(INTERNAL_ERROR, _with_hint(problem), data))
        except Exception as problem:  # noqa: BLE001 - one request that fails must not end the others
            _log.exception("%s failed", method)
            await self._fail(number, RpcError(INTERNAL_ERROR, f"agent-fabric itself failed: {type(problem).__name__}"))
        else:
            await self._send({"jsonrpc": "2.0", "id": number, "result": result})
        finally:
            self._running -= 1

    def _take_answer(self, message: Mapping[str, Any]) -> None:
        number = message.get("id")
        future = self._asked.get(number) if isinstance(number, int) and not isinstance(number, bool) else None
        if future is None or future.done():
            return
        problem = message.get("error")
        if problem is None:
            future.set_result(message.get("result"))
        else:
            text = str(problem.get("message", "")) if isinstance(problem, dict) else ""
            future.set_exception(RpcError(INTERNAL_ERROR, text or "The editor answered with an error"))

    async def _fail(self, number: str | int | None, problem: RpcError) -> None:
        await self._send({"jsonrpc": "2.0", "id": number, "error": problem.as_object()})

    async def _send(self, message: Mapping[str, Any]) -> None:
        async with self._line:
            await self._write(dump_json(message).strip() + b"\n")


def _with_hint(problem: FabricError) -> str:
    return " ".join(filter(None, (problem.message, problem.hint)))
