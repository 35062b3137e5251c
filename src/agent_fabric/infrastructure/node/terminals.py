"""Shells at terminals: one approved call each, typed into from afar, recorded, and gone with the connection.

A call of `shell` lasts until the shell ends. Meanwhile `pty.write` types and `pty.read` reads. Whatever it prints goes
to a file first, from which readers are served: a slow one slows the shell down, and costs no memory.
"""

import asyncio
import fcntl
import os
import struct
import termios
import time
from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import field
from pathlib import Path
from typing import Any, Final

from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.fleet.binding import timeout_of
from agent_fabric.domain.fleet.protocol import CHUNK_BYTES, MAX_TYPED_BYTES, SHELL_IDLE_S, SHELL_READ_S
from agent_fabric.infrastructure.node.processes import HALF, MAX_SPOOLED_BYTES, Commands, shorten

MAX_SHELLS: Final = 4
"""At the same time; commands need room, too."""
MAX_UNREAD_BYTES: Final = CHUNK_BYTES
"""A shell that prints faster than it is read waits."""
MAX_PENDING_BYTES: Final = 2 * MAX_TYPED_BYTES
"""Of what was typed and the shell has not taken yet."""
OPENING_S: Final = 5.0
"""How long what is typed waits for a shell that was agreed to and is just being opened."""
DEFAULT_COLUMNS, DEFAULT_ROWS = 80, 24


class TerminalProblem(Exception):
    """Nothing can be typed or read; the message says why."""


class _Terminal:
    """One shell's terminal: the end that the person holds."""

    def __init__(self, record: Path) -> None:
        self._loop = asyncio.get_running_loop()
        self.master, self.slave = os.openpty()
        self._record = os.open(record, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        os.set_blocking(self.master, False)
        self._pending = bytearray()
        self._reading = False
        self.size = 0
        self._read_until = 0
        self.typed_at = time.monotonic()
        self.moved = asyncio.Event()
        """Set when there is something new: output, or the end."""
        self.ending: asyncio.Future[str] = self._loop.create_future()
        """Done when the session has to end; holds why."""
        self._watch()

    def resize(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, data: bytes) -> None:
        if len(self._pending) + len(data) > MAX_PENDING_BYTES:
            raise TerminalProblem("the shell does not take what is typed: wait")
        self.typed_at = time.monotonic()
        if not self._pending and data:
            self._loop.add_writer(self.master, self._write)
        self._pending += data

    def output(self, offset: int) -> bytes:
        """Return what was printed from an offset on; the reader has read all that lies before."""
        self._read_until = max(self._read_until, min(offset, self.size))
        self._watch()
        return os.pread(self._record, CHUNK_BYTES, offset)

    def end(self, why: str) -> None:
        if not self.ending.done():
            self.ending.set_result(why)

    def transcript(self) -> tuple[str, bool]:
        """Return beginning and end of all that was printed, and whether something lies between them."""
        if self.size <= 2 * HALF:
            return shorten(os.pread(self._record, 2 * HALF, 0), b"", 0), False
        first, last = os.pread(self._record, HALF, 0), os.pread(self._record, HALF, self.size - HALF)
        return shorten(first, last, self.size - 2 * HALF), True

    def close(self) -> None:
        self.drain()
        self._unwatch()
        for descriptor in (self.master, self.slave, self._record):
            os.close(descriptor)
        self.moved.set()

    def _watch(self) -> None:
        if not self._reading and self.size - self._read_until < MAX_UNREAD_BYTES:
            self._reading = True
            self._loop.add_reader(self.master, self._take)

    def _unwatch(self) -> None:
        self._reading = False
        self._loop.remove_reader(self.master)
        self._loop.remove_writer(self.master)

    def _take(self) -> None:
        if self._take_once() and self.size - self._read_until >= MAX_UNREAD_BYTES:
            self._reading = False
            self._loop.remove_reader(self.master)

    def _take_once(self) -> bool:
        """Record what the shell has printed; tell whether there was something."""
        try:
            data = os.read(self.master, 65_536)
        except BlockingIOError:
            return False
        except OSError:  # no one holds the other end any more
            data = b""
        if not data:
            self._unwatch()
            return False
        try:
            os.write(self._record, data)
        except OSError as problem:
            self.end(f"what it prints cannot be recorded: {problem}")
            return False
        self.size += len(data)
        if self.size > MAX_SPOOLED_BYTES:
            self.end(f"it has printed more than {MAX_SPOOLED_BYTES:,} bytes")
        self.moved.set()
        return True

    def drain(self) -> None:
        """Take what a shell that has ended has left, within reason."""
        while self.size <= MAX_SPOOLED_BYTES and self._take_once():
            pass

    def _write(self) -> None:
        try:
            written = os.write(self.master, self._pending)
        except BlockingIOError:
            return
        except OSError:
            written = len(self._pending)
        del self._pending[:written]
        if not self._pending:
            self._loop.remove_writer(self.master)


@dataclass(frozen=True, slots=True)
class Terminals:
    """The shells of a node."""

    commands: Commands
    records: Path
    """Folder for what they print."""
    _open: dict[str, _Terminal] = field(default_factory=dict)
    _opened: asyncio.Condition = field(default_factory=asyncio.Condition)
    """Notified when a shell has been opened."""

    async def run(self, execution_id: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Open a shell and return when it has ended, with what it printed; cancelling ends it."""
        if len(self._open) >= MAX_SHELLS:
            return {"status": "error", "error": f"{MAX_SHELLS} shells are open on this node already"}
        started = time.monotonic()
        terminal = _Terminal(self.records / f"{execution_id}.out")
        self._open[execution_id] = terminal
        try:
            async with self._opened:
                self._opened.notify_all()
            return {
                **await self._run(terminal, execution_id, arguments),
                "duration_ms": round((time.monotonic() - started) * 1000, 3),
            }
        finally:
            del self._open[execution_id]
            terminal.close()

    async def _run(self, terminal: _Terminal, execution_id: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        terminal.resize(int(arguments.get("columns", DEFAULT_COLUMNS)), int(arguments.get("rows", DEFAULT_ROWS)))
        if self.commands.user.drops:
            os.fchown(terminal.slave, self.commands.user.uid, -1)
        try:
            process = await self.commands.start_at_terminal(
                execution_id,
                os.ttyname(terminal.slave),
                cwd=str(arguments.get("cwd", "")),
                term=str(arguments.get("term", "xterm-256color")),
            )
        except OSError as problem:
            return {"status": "error", "error": f"no shell could be started: {problem}"}
        idle_s = float(arguments.get("idle_s", SHELL_IDLE_S))
        watching = asyncio.create_task(_watch_over(terminal, idle_s, timeout_of(arguments)))
        waiting = asyncio.create_task(process.wait())
        try:
            await asyncio.wait((waiting, terminal.ending), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (watching, waiting):
                task.cancel()
            await self.commands.end(process, execution_id)
        terminal.drain()
        text, cut = terminal.transcript()
        why = terminal.ending.result() if terminal.ending.done() else ""
        code = process.returncode if process.returncode is not None and not why else None
        return {
            "status": "cancelled" if why else "success",
            "exit_code": code if code is not None and code >= 0 else None,
            "stdout": text,
            "stderr": "",
            "truncated": cut,
            "bytes": {"stdout": terminal.size, "stderr": 0},
            **({"error": why} if why else {}),
        }

    async def write(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Type into a shell, or change the size of its terminal; wait a moment for one that is just being opened.

        Raises:
            TerminalProblem: there is no such shell, or it does not take any more now.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(OPENING_S), self._opened:
                await self._opened.wait_for(lambda: params.get("execution_id") in self._open)
        terminal = self._find(params)
        columns, rows = params.get("columns"), params.get("rows")
        if isinstance(columns, int) and isinstance(rows, int):
            if not (0 < columns <= 1_000 and 0 < rows <= 1_000):
                raise TerminalProblem("a terminal has 1 to 1,000 columns and rows")
            terminal.resize(columns, rows)
        terminal.type(_typed_bytes(params))
        if params.get("end") is True:
            terminal.end("the person has left")
        return {}

    async def read(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return what a shell has printed from an offset on; wait for it if there is nothing yet.

        Raises:
            TerminalProblem: there is no such shell.
        """
        terminal, offset = self._find(params), params.get("offset", 0)
        if not isinstance(offset, int) or isinstance(offset, bool) or not 0 <= offset <= terminal.size:
            raise TerminalProblem("offset is a number from 0 to what has been printed")
        if offset == terminal.size:
            terminal.moved.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(_patience(params)):
                    await terminal.moved.wait()
        data = terminal.output(offset) if self._open.get(str(params.get("execution_id"))) is terminal else b""
        return {"data": b64encode(data).decode(), "offset": offset, "size": terminal.size}

    def end_all(self, why: str) -> None:
        """End all shells; their processes are gone when their calls have ended."""
        for terminal in list(self._open.values()):
            terminal.end(why)

    def _find(self, params: Mapping[str, Any]) -> _Terminal:
        found = self._open.get(str(params.get("execution_id", "")))
        if found is None:
            raise TerminalProblem("no such shell is open: it has ended, or was never approved")
        return found


async def _watch_over(terminal: _Terminal, idle_s: float, timeout_s: float) -> None:
    """End a shell that no one uses, or that has lasted long enough."""
    until = time.monotonic() + timeout_s
    while True:
        now = time.monotonic()
        left = min(terminal.typed_at + idle_s, until) - now
        if left <= 0:
            terminal.end(
                f"it lasted longer than {timeout_s:g} s" if now >= until else f"nobody typed anything for {idle_s:g} s"
            )
            return
        await asyncio.sleep(left)


def _typed_bytes(params: Mapping[str, Any]) -> bytes:
    try:
        data = b64decode(str(params.get("data", "")), validate=True)
    except NotBase64:
        raise TerminalProblem("data is base64") from None
    if len(data) > MAX_TYPED_BYTES:
        raise TerminalProblem(f"at most {MAX_TYPED_BYTES:,} bytes are typed at once")
    return data


def _patience(params: Mapping[str, Any]) -> float:
    given = params.get("wait_s", SHELL_READ_S)
    usable = isinstance(given, int | float) and not isinstance(given, bool)
    return min(max(float(given), 0.0), SHELL_READ_S) if usable else SHELL_READ_S
