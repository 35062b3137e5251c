"""One working box, seen from outside: its processes, and the commands that its worker runs for us."""

import asyncio
import os
import signal
import socket
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple, Self

from agent_fabric.infrastructure.sandbox.bubblewrap_build import Built
from agent_fabric.infrastructure.sandbox.command_line import assignments, memory_file
from agent_fabric.infrastructure.sandbox.draining import Output, ended_within, wait_for_end
from agent_fabric.infrastructure.sandbox.process_environments import SETTLE_S
from agent_fabric.infrastructure.sandbox.worker import ENDED, NOT_STARTED, READY, REPORT

_START_S = 20.0
"""How long a box may take to be ready; only a machine in trouble needs more than a tenth of a second."""
_SHOWN_BYTES = 500
_EXIT_CODES = range(-64, 256)


class Ending(NamedTuple):
    """How a command ended."""

    exit_code: int
    timed_out: bool = False
    is_known: bool = True
    """False: the box ended under it."""


class WorkerLink:
    """A box that is ready for commands. Whatever its worker says is taken as a number and not believed to be true."""

    def __init__(self, process: subprocess.Popen[bytes], control: socket.socket, top: int) -> None:
        self.top = top
        """The first process in the box: when it ends, the kernel ends all others."""
        self.why_ended = ""
        """Why we ended the box; empty: we did not."""
        self._process = process
        self._control = control
        self._gone = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._first = os.pidfd_open(top)
        self._loop.add_reader(self._first, self._note_end)

    @classmethod
    async def start(cls, built: Built, put_under_limit: Callable[[int], None] | None) -> Self:
        """Start a box and wait for its worker; before any command can run, its first process is put under a limit.

        Raises:
            OSError: it did not become ready; with bubblewrap's own words.
        """
        ours, theirs = built.control
        errors = os.memfd_create("errors", os.MFD_CLOEXEC)
        try:
            # Not on a thread: the box ends with the thread that started it.
            process = subprocess.Popen(  # noqa: ASYNC220 - it takes a millisecond
                built.command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                pass_fds=(theirs.fileno(), *built.files),
                env=built.environment,
                cwd="/",
                start_new_session=True,
            )
            theirs.close()
            limiting = None
            if put_under_limit is not None:
                limiting = asyncio.create_task(_put_under_limit(built, process.pid, put_under_limit))
            try:
                async with asyncio.timeout(_START_S):
                    return cls(process, ours, await _first_process(built, errors, limiting))
            except BaseException:
                process.kill()
                process.wait()
                raise
            finally:
                if limiting is not None:
                    limiting.cancel()
                    await asyncio.gather(limiting, return_exceptions=True)
        except BaseException:
            ours.close()
            theirs.close()
            raise
        finally:
            os.close(errors)

    @property
    def is_alive(self) -> bool:
        return not self._gone.is_set() and not self.why_ended

    async def run(
        self,
        arguments: Sequence[bytes],
        output: Output,
        timeout_s: float,
        environment: Mapping[str, str],
    ) -> Ending:
        """Run one program, with these variables beside those of the box, and wait until nothing of it is left.

        Raises:
            OSError: it could not be started.
        """
        try:
            line = self._send([*assignments(environment), b"", *arguments], output)
        except (BrokenPipeError, ConnectionResetError):
            self.end("its worker had ended")
            return Ending(-signal.SIGKILL, is_known=False)
        try:
            timed_out = await wait_for_end(line.reported, output, timeout_s, line.ask_to_end)
        finally:
            await self._end(line)
        await ended_within(SETTLE_S, output)
        match line.report:
            case kind, number if kind == NOT_STARTED:
                raise OSError(number, f"the command cannot be started: {os.strerror(number)}")
            case kind, number if kind == ENDED and number in _EXIT_CODES:
                return Ending(number, timed_out)
            case _:
                return Ending(-signal.SIGKILL, timed_out, is_known=timed_out and self.is_alive)

    def end(self, why: str) -> None:
        """Kill everything in the box."""
        self.why_ended = self.why_ended or why
        with suppress(ProcessLookupError, PermissionError):
            if not self._gone.is_set():
                signal.pidfd_send_signal(self._first, signal.SIGKILL)

    async def wait(self) -> None:
        """Wait until no process of the box is left, and tidy up after it."""
        await self._gone.wait()
        await asyncio.to_thread(_reap, self._process)
        self._control.close()

    def _send(self, words: Sequence[bytes], output: Output) -> "_Line":
        text = memory_file(b"\0".join(words))
        ours, theirs = socket.socketpair()
        try:
            socket.send_fds(self._control, [b"c"], [theirs.fileno(), output.out.writer, output.err.writer, text])
        except OSError:
            ours.close()
            raise
        finally:
            theirs.close()
            os.close(text)
            output.close_writers()
        return _Line(ours)

    async def _end(self, line: "_Line") -> None:
        """End whatever is left of a command; if its keeper does not manage, the box."""
        line.hang_up()
        try:
            await ended_within(SETTLE_S, line.gone)
            if not line.gone.is_set():
                self.end("a command of this run could not be ended otherwise")
            elif line.was_cut_off:  # what the keeper kept is no one's now
                self.end("something killed the processes that watch over its commands")
            if self.why_ended:
                await ended_within(SETTLE_S, self._gone)
        finally:
            line.close()

    def _note_end(self) -> None:
        self._loop.remove_reader(self._first)
        os.close(self._first)
        self._gone.set()


class _Line:
    """What is said between us and the keeper of one command."""

    def __init__(self, ours: socket.socket) -> None:
        self.reported, self.gone = asyncio.Event(), asyncio.Event()
        self.was_cut_off = False
        """The keeper ended without a word, before we asked it to."""
        self._ours = ours
        self._said = b""
        self._hung_up = False
        self._loop = asyncio.get_running_loop()
        ours.setblocking(False)
        self._loop.add_reader(ours, self._take)

    def ask_to_end(self) -> None:
        with suppress(OSError):
            self._ours.send(b"t")

    def hang_up(self) -> None:
        self._hung_up = True
        with suppress(OSError):
            self._ours.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self._loop.remove_reader(self._ours)
        self._ours.close()

    @property
    def report(self) -> tuple[bytes, int] | None:
        """What the keeper said first; None: nothing."""
        if len(self._said) < REPORT.size:
            return None
        kind, number = REPORT.unpack_from(self._said)
        return kind, number

    def _take(self) -> None:
        try:
            data = self._ours.recv(REPORT.size)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if len(self._said) < REPORT.size:
            self._said += data
        if not data:
            self._loop.remove_reader(self._ours)
            self.was_cut_off = not self._hung_up and len(self._said) < REPORT.size
            self.gone.set()
        if not data or len(self._said) >= REPORT.size:
            self.reported.set()


def _reap(process: subprocess.Popen[bytes]) -> None:
    """Let bubblewrap clear away the box's first process, whose parent it is, and end by itself."""
    with suppress(subprocess.TimeoutExpired):
        process.wait(SETTLE_S)
    process.kill()
    process.wait()


async def _first_process(built: Built, errors: int, limiting: "asyncio.Task[int] | None") -> int:
    """Wait for the worker's word; return the number of the box's first process."""
    loop = asyncio.get_running_loop()
    built.control[0].setblocking(False)
    ready = loop.create_task(loop.sock_recv(built.control[0], len(READY)))
    try:
        if limiting is not None:
            await asyncio.wait((limiting, ready), return_when=asyncio.FIRST_COMPLETED)
            if limiting.done():
                limiting.result()  # an error here is the reason of all others
        if await ready != READY:
            raise OSError(_last_words(errors))
        return await limiting if limiting is not None else _number_in(built.info)
    finally:
        ready.cancel()


async def _put_under_limit(built: Built, started: int, add: Callable[[int], None]) -> int:
    """Put the box's first process under a limit, then let it go on; return its number."""
    assert built.go is not None
    if built.command[0] != built.bubblewrap:
        # What comes before bubblewrap takes longer than this, so all that follows is under the limit by then.
        await asyncio.to_thread(add, started)
    loop, made = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(built.info, made.set)
    try:
        await made.wait()
    finally:
        loop.remove_reader(built.info)
    number = _number_in(built.info)
    await asyncio.to_thread(add, number)
    os.write(built.go, b"g")
    return number


def _number_in(info: int) -> int:
    text = os.read(info, 4096).decode()
    return int(text.partition('"child-pid":')[2].replace("}", ",").partition(",")[0])


def _last_words(errors: int) -> str:
    text = os.pread(errors, _SHOWN_BYTES, max(os.fstat(errors).st_size - _SHOWN_BYTES, 0))
    return f"the box cannot be made: {text.decode(errors='replace').strip() or 'no reason given'}"
