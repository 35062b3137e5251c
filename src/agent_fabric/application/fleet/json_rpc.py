"""JSON-RPC 2.0 between two ends that both call and answer, over anything that carries texts."""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from itertools import count
from typing import Any

from agent_fabric.domain.fleet.protocol import RpcCode

MAX_HANDLING = 64
"""Calls of the other end that are answered at the same time."""

_log = logging.getLogger(__name__)

Handle = Callable[[str, Mapping[str, Any]], Awaitable[Any]]
"""Answers a call: takes its method and parameters, returns the result."""


class RpcFailed(Exception):
    """The other end answered with an error, or shall be answered with one."""

    def __init__(self, code: int, message: str, data: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = dict(data or {})


class LinkLost(Exception):
    """The connection ended before there was an answer."""


class RpcPeer:
    """One end of a connection."""

    def __init__(self, send: Callable[[str], Awaitable[None]], handle: Handle) -> None:
        self._send = send
        self._handle = handle
        self._ids = count(1)
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._handling: set[asyncio.Task[None]] = set()
        self._problem: Exception | None = None

    async def call(self, method: str, params: Mapping[str, Any], *, timeout_s: float | None) -> Any:
        """Call the other end and return the result.

        Raises:
            RpcFailed: it answers with an error.
            LinkLost: the connection ends first.
            TimeoutError: there is no answer in time.
        """
        if self._problem is not None:
            raise LinkLost(str(self._problem))
        number = next(self._ids)
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        try:
            await self._send(_text({"jsonrpc": "2.0", "id": number, "method": method, "params": dict(params)}))
            async with asyncio.timeout(timeout_s):
                return await answer
        finally:
            self._waiting.pop(number, None)

    async def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Tell the other end something that it does not answer."""
        await self._send(_text({"jsonrpc": "2.0", "method": method, "params": dict(params)}))

    async def receive(self, text: str) -> None:
        """Take a message from the other end: an answer, or a call, which is answered beside others.

        Raises:
            RpcFailed: it is no message; the connection is of no use.
        """
        try:
            message = json.loads(text)
        except (ValueError, RecursionError):
            raise RpcFailed(RpcCode.PARSE, "a message is no JSON") from None
        if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
            raise RpcFailed(RpcCode.INVALID, "a message is no JSON-RPC 2.0")
        method = message.get("method")
        if method is None:
            self._take_answer(message)
            return
        params = message.get("params", {})
        if not isinstance(method, str) or not isinstance(params, dict):
            raise RpcFailed(RpcCode.INVALID, "a call has a method and parameters by name")
        if not isinstance(message.get("id"), str | int | float | None) or isinstance(message.get("id"), bool):
            await self._fail(None, RpcFailed(RpcCode.INVALID, "the id of a call is a text or a number"))
            return
        if len(self._handling) >= MAX_HANDLING:
            if "id" in message:
                await self._fail(message["id"], RpcFailed(RpcCode.BUSY, "too many calls are under way"))
            return
        task = asyncio.create_task(self._answer(message.get("id"), method, params, silent="id" not in message))
        self._handling.add(task)
        task.add_done_callback(self._handling.discard)

    def close(self, problem: Exception) -> None:
        """Let everyone who waits for an answer know that there is none; what is being answered ends."""
        self._problem = problem
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(LinkLost(str(problem)))
        for task in self._handling:
            task.cancel()

    def _take_answer(self, message: Mapping[str, Any]) -> None:
        number = message.get("id")
        answer = self._waiting.get(number) if isinstance(number, int) else None
        if answer is None or answer.done():
            return
        error = message.get("error")
        if error is None:
            answer.set_result(message.get("result"))
            return
        given = error if isinstance(error, Mapping) else {}
        code, data = given.get("code"), given.get("data")
        answer.set_exception(
            RpcFailed(
                code if isinstance(code, int) else RpcCode.INTERNAL,
                str(given.get("message", "")),
                data if isinstance(data, Mapping) else None,
            )
        )

    async def _answer(self, number: Any, method: str, params: Mapping[str, Any], *, silent: bool) -> None:
        try:
            result = await self._handle(method, params)
        except RpcFailed as problem:
            if not silent:
                await self._fail(number, problem)
            return
        except asyncio.CancelledError:
            raise
        except Exception:  # noqa: BLE001 - whatever an end does wrong, the other is answered
            _log.exception("%s failed", method)
            if not silent:
                await self._fail(number, RpcFailed(RpcCode.INTERNAL, "it failed; the log of this end has the details"))
            return
        if not silent:
            await self._quietly({"jsonrpc": "2.0", "id": number, "result": result})

    async def _fail(self, number: Any, problem: RpcFailed) -> None:
        error = {"code": int(problem.code), "message": problem.message, "data": problem.data}
        await self._quietly({"jsonrpc": "2.0", "id": number, "error": error})

    async def _quietly(self, message: Mapping[str, Any]) -> None:
        """Send an answer; the caller may have left."""
        try:
            await self._send(_text(message))
        except Exception as problem:  # noqa: BLE001 - whatever the transport raises when no one is there
            _log.debug("An answer could not be sent: %s", problem)


def _text(message: Mapping[str, Any]) -> str:
    return json.dumps(message, ensure_ascii=False, separators=(",", ":"))
