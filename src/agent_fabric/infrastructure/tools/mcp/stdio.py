"""Talks to a server's program over its stdin and stdout, one JSON message a line.

The SDK has such a transport too. Ours starts exactly the environment it is given, holds a message and a flood to a
limit, keeps the end of what the program writes to stderr, and tells why the connection ended.
"""

import asyncio
import os
import re
import signal
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Final

import anyio
import mcp_types
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage

from agent_fabric.application.ports.mcp import SYSCALL_FILTER, ServerLaunch
from agent_fabric.domain.errors import ToolServerUnavailable
from agent_fabric.infrastructure.sandbox.run_processes import mark_process

MAX_MESSAGE_BYTES: Final = 16 * 1024 * 1024
MAX_GARBAGE_LINES: Final = 1_000
MAX_MESSAGES_PER_WINDOW: Final = 5_000
MAX_BYTES_PER_WINDOW: Final = 8 * MAX_MESSAGE_BYTES
_WINDOW_S: Final = 10.0
_STDERR_BYTES: Final = 8 * 1024
_CHUNK_BYTES: Final = 64 * 1024
_LEAVE_S: Final = 2.0
"""How long a server may take to end after its stdin is closed."""
_TERM_S: Final = 1.0
_KILL_S: Final = 2.0
_POLL_S: Final = 0.01

_ANSWERED: Final = re.compile(rb'\s*\{(?:\s*"jsonrpc"\s*:\s*"2\.0"\s*,)?\s*"id"\s*:\s*(\d{1,12})\s*,')
"""The beginning of an answer, of which the rest may be too odd to be read."""

Streams = tuple[MemoryObjectReceiveStream[SessionMessage | Exception], MemoryObjectSendStream[SessionMessage]]


class ProgramTransport:
    """Transport of the SDK over a program that we start; entered once."""

    def __init__(self, launch: ServerLaunch, *, secrets: Sequence[str] = ()) -> None:
        """Take how to start it, and what must not appear in errors."""
        self._launch = launch
        self._secrets = secrets
        self._process: asyncio.subprocess.Process | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._stderr = bytearray()
        self._garbage = 0
        self._window = Window()
        self.ended = ""
        """Why the server no longer answers; empty while it does."""

    @property
    def last_words(self) -> str:
        """The end of what the program wrote to stderr, as far as it can be shown."""
        text = self._stderr.decode(errors="replace")
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return "\n".join(line for raw in text.splitlines()[-20:] if (line := _printable(raw)))

    async def __aenter__(self) -> Streams:
        try:
            with _open_filter(self._launch.syscall_filter) as number:
                self._process = process = await asyncio.create_subprocess_exec(
                    *(str(number) if word == SYSCALL_FILTER else word for word in self._launch.argv),
                    stdin=asyncio.subprocess.PIPE,
                    stdout=asyncio.subprocess.PIPE,
                    stderr=asyncio.subprocess.PIPE,
                    env=dict(self._launch.env),
                    cwd=self._launch.cwd,
                    start_new_session=True,
                    pass_fds=() if number is None else (number,),
                )
                mark_process(process.pid)
        except (OSError, ValueError) as problem:
            raise ToolServerUnavailable(
                f"{self._launch.argv[0]} cannot be started: {problem}", hint="Check `command` in its configuration."
            ) from None
        incoming, to_session = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        from_session, outgoing = anyio.create_memory_object_stream[SessionMessage](0)
        self._tasks = [
            asyncio.create_task(self._read(process, incoming)),
            asyncio.create_task(self._write(process, outgoing, incoming)),
            asyncio.create_task(self._listen(process)),
        ]
        self._streams = (incoming, to_session, from_session, outgoing)
        return to_session, from_session

    async def __aexit__(self, *_: object) -> None:
        with anyio.CancelScope(shield=True):
            try:
                await self._end()
            finally:
                for task in self._tasks:
                    task.cancel()
                await asyncio.gather(*self._tasks, return_exceptions=True)
                for stream in self._streams:
                    stream.close()

    async def _read(
        self, process: asyncio.subprocess.Process, incoming: MemoryObjectSendStream[SessionMessage | Exception]
    ) -> None:
        assert process.stdout is not None
        pending = bytearray()
        try:
            while not self.ended and (chunk := await process.stdout.read(_CHUNK_BYTES)):
                pending += chunk
                if b"\n" in chunk:
                    *lines, rest = bytes(pending).split(b"\n")
                    pending = bytearray(rest)
                    for line in lines:
                        await self._deliver(line, incoming)
                self._require_sane(len(chunk), len(pending))
        except (anyio.ClosedResourceError, anyio.BrokenResourceError):
            return
        finally:
            if not self.ended:
                await self._on_exit(process)
            incoming.close()  # the session tells everyone who waits
        while await process.stdout.read(_CHUNK_BYTES):
            pass  # so that it does not hang on a full pipe, and can end

    async def _deliver(self, line: bytes, incoming: MemoryObjectSendStream[SessionMessage | Exception]) -> None:
        if self.ended or not line.strip():
            return
        try:
            message = mcp_types.jsonrpc_message_adapter.validate_json(line, by_name=False)
        except ValueError:
            self._garbage += 1
            if self._garbage > MAX_GARBAGE_LINES:
                self.ended = "it writes something other than messages to its standard output"
            elif answered := _ANSWERED.match(line):  # the caller of this answer need not wait on
                await incoming.send(SessionMessage(_unreadable(int(answered[1]))))
            return
        self._window.messages += 1
        await incoming.send(SessionMessage(message))

    def _require_sane(self, size: int, pending: int) -> None:
        if pending > MAX_MESSAGE_BYTES:
            self.ended = f"it sent a message of more than {MAX_MESSAGE_BYTES // 2**20} MiB"
        elif self._window.flooded(size):
            self.ended = "it floods us with messages"

    async def _on_exit(self, process: asyncio.subprocess.Process) -> None:
        await _gone(process, _TERM_S)
        code = process.returncode
        self.ended = "it closed its standard output" if code is None else f"it ended with exit code {code}"

    async def _write(
        self,
        process: asyncio.subprocess.Process,
        outgoing: MemoryObjectReceiveStream[SessionMessage],
        incoming: MemoryObjectSendStream[SessionMessage | Exception],
    ) -> None:
        assert process.stdin is not None
        try:
            async for each in outgoing:
                text = each.message.model_dump_json(by_alias=True, exclude_unset=True)
                process.stdin.write(text.encode(errors="replace") + b"\n")
                await process.stdin.drain()
        except (OSError, RuntimeError, anyio.ClosedResourceError):
            incoming.close()

    async def _listen(self, process: asyncio.subprocess.Process) -> None:
        assert process.stderr is not None
        while chunk := await process.stderr.read(_CHUNK_BYTES):
            self._stderr += chunk
            del self._stderr[:-_STDERR_BYTES]

    async def _end(self) -> None:
        """Ask the program to leave by closing its stdin, then end it and all it started."""
        process = self._process
        if process is None:
            return
        assert process.stdin is not None
        try:
            process.stdin.close()
            if not await _gone(process, _LEAVE_S if not self.ended else 0.0):
                _signal(process, signal.SIGTERM)
                await _gone(process, _TERM_S)
        finally:
            _signal(process, signal.SIGKILL)  # also what it left behind
            await _gone(process, _KILL_S)
            transport = getattr(process, "_transport", None)  # nothing public closes the pipes of a stray child
            if transport is not None:
                with suppress(PermissionError, RuntimeError):
                    transport.close()


def _unreadable(request: int) -> mcp_types.JSONRPCError:
    error = mcp_types.ErrorData(code=mcp_types.PARSE_ERROR, message="(an answer that cannot be read)")
    return mcp_types.JSONRPCError(jsonrpc="2.0", id=request, error=error)


class Window:
    """Counts what comes in, and forgets it every few seconds."""

    def __init__(self) -> None:
        self.messages = 0
        self._bytes = 0
        self._since = time.monotonic()

    def flooded(self, size: int) -> bool:
        """Count this many bytes more, and tell whether it is too much by now."""
        now = time.monotonic()
        if now - self._since > _WINDOW_S:
            self.messages, self._bytes, self._since = 0, 0, now
        self._bytes += size
        return self.messages > MAX_MESSAGES_PER_WINDOW or self._bytes > MAX_BYTES_PER_WINDOW


@contextmanager
def _open_filter(content: bytes) -> Iterator[int | None]:
    """Give the number of an open file that holds a filter, for as long as the program is being started."""
    if not content:
        yield None
        return
    with tempfile.TemporaryFile() as file:
        file.write(content)
        file.seek(0)
        yield file.fileno()


async def _gone(process: asyncio.subprocess.Process, timeout_s: float) -> bool:
    # Not process.wait(): that also waits for processes that inherited the pipes.
    deadline = time.monotonic() + timeout_s
    while process.returncode is None:
        if time.monotonic() >= deadline:
            return False
        await asyncio.sleep(_POLL_S)
    return True


def _signal(process: asyncio.subprocess.Process, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


def _printable(line: str) -> str:
    return "".join(char if char.isprintable() else " " for char in line[:500]).rstrip()
