"""What a command prints, read as it comes and kept in part; and how its end is waited for."""

import asyncio
import os
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Any, NamedTuple, Protocol, Self, TypeVar

from agent_fabric.application.ports.sandbox import CommandOutcome

MAX_OUTPUT_BYTES = 64 * 1024
"""What is kept of each of stdout and stderr."""
TERM_GRACE_S = 1.0
"""How long a command that ran out of time may take to end by itself after SIGTERM."""
STRAGGLERS_S = 0.25
"""How long processes that still hold the output open may go on after the command itself has ended."""
_PIPE_BYTES = 64 * 1024
_LAST_READS = 16

T = TypeVar("T")


class Ending(Protocol):
    """Something that comes to an end."""

    async def wait(self) -> object:
        """Wait for the end."""
        ...


class Drain:
    """A pipe read to its end as data comes, of which the first and the last half of a limit are kept."""

    def __init__(self, limit: int) -> None:
        self.dropped = 0
        self._ended = asyncio.Event()
        self._first, self._last = bytearray(), bytearray()
        self._first_size, self._last_size = limit // 2, limit - limit // 2
        self._loop = asyncio.get_running_loop()
        self._reader, self.writer = os.pipe()
        os.set_blocking(self._reader, False)
        self._loop.add_reader(self._reader, self._take)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close_writer()
        for _ in range(_LAST_READS):  # what is in the pipe now; a process that still writes is not ours any more
            if self._ended.is_set() or not self._take():
                break
        self._loop.remove_reader(self._reader)
        os.close(self._reader)

    @property
    def kept(self) -> bytes:
        return bytes(self._first + self._last)

    async def wait(self) -> object:
        """Wait until no one can write any more."""
        return await self._ended.wait()

    def close_writer(self) -> None:
        if self.writer >= 0:
            os.close(self.writer)
            self.writer = -1

    def _take(self) -> bool:
        try:
            chunk = os.read(self._reader, _PIPE_BYTES)
        except BlockingIOError:
            return False
        if not chunk:
            self._loop.remove_reader(self._reader)
            self._ended.set()
        room = self._first_size - len(self._first)
        self._first += chunk[:room]
        self._last += chunk[room:]
        surplus = max(len(self._last) - self._last_size, 0)
        del self._last[:surplus]
        self.dropped += surplus
        return True


async def ended_within(timeout_s: float, *these: Ending) -> None:
    """Wait until all of these have ended, but not longer than this."""
    with suppress(TimeoutError):
        async with asyncio.timeout(timeout_s):
            for one in these:
                await one.wait()


class Output(NamedTuple):
    """What one command prints."""

    out: Drain
    err: Drain

    async def wait(self) -> object:
        """Wait until no one can write any more."""
        await self.out.wait()
        return await self.err.wait()

    def close_writers(self) -> None:
        self.out.close_writer()
        self.err.close_writer()

    def outcome(
        self, exit_code: int, *, timed_out: bool, undone: Iterable[str] = (), remarks: Iterable[str] = ()
    ) -> CommandOutcome:
        """Return how the command ended; its output is followed by what was done to it, so that its reader knows."""
        told = [*(f"undone: {name!r} is protected" for name in dict.fromkeys(undone)), *remarks]
        return CommandOutcome(
            exit_code=exit_code,
            stdout=self.out.kept,
            stderr=self.err.kept + "".join(f"\n[{remark}]\n" for remark in told).encode(),
            stdout_dropped=self.out.dropped,
            stderr_dropped=self.err.dropped,
            timed_out=timed_out,
        )


@contextmanager
def drained_output(limit: int) -> Iterator[Output]:
    """Read what a command prints as long as this lasts; of each pipe so much is kept."""
    with Drain(limit) as out, Drain(limit) as err:
        yield Output(out, err)


async def wait_for_end(command: Ending, output: Output, timeout_s: float, ask_to_end: Callable[[], None]) -> bool:
    """Wait for a command and, briefly, for those who still write; tell whether it ran out of time."""
    try:
        async with asyncio.timeout(timeout_s):
            await command.wait()
    except TimeoutError:
        ask_to_end()
        await ended_within(TERM_GRACE_S, command, output)
        return True
    await ended_within(STRAGGLERS_S, output)
    return False


async def finish(work: Coroutine[Any, Any, T], under_way: set[asyncio.Task[Any]]) -> T:
    """Finish work even if the caller is cancelled. For starting and ending a box: half a box would leak processes.

    `under_way` holds it meanwhile.
    """
    task = asyncio.create_task(work)
    under_way.add(task)
    task.add_done_callback(under_way.discard)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        task.add_done_callback(lambda done: done.cancelled() or done.exception())  # or it would be logged
        raise
