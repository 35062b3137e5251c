"""A sandbox for code that runs on a thread and may block: the same methods, which wait."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Self, TypeVar

from agent_fabric.application.ports.sandbox import CommandOutcome, Sandbox

T = TypeVar("T")


class BlockingSandbox:
    """A run's sandbox for the time of one tool call, for tools that are not async.

    When the call ends, by time-out too, what the sandbox does for it ends as well, and the sandbox takes no more: the
    thread itself cannot be stopped.
    """

    def __init__(self, sandbox: Sandbox) -> None:
        self.level = sandbox.level
        self._sandbox = sandbox
        self._loop = asyncio.get_running_loop()
        self._under_way: set[asyncio.Task[Any]] = set()
        self._ended = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._ended = True
        for task in self._under_way:
            task.cancel()
        await asyncio.gather(*self._under_way, return_exceptions=True)

    def run_command(
        self, command: str, *, timeout_s: float, environment: Mapping[str, str] | None = None
    ) -> CommandOutcome:
        """Run one bash command line; see `Sandbox.run_command`."""
        return self._wait_for(lambda: self._sandbox.run_command(command, timeout_s=timeout_s, environment=environment))

    def read_file(self, path: str, *, max_bytes: int) -> tuple[bytes, int]:
        """Return the start of a file and the size of the whole; see `Sandbox.read_file`."""
        return self._wait_for(lambda: self._sandbox.read_file(path, max_bytes=max_bytes))

    def write_file(self, path: str, data: bytes) -> bool:
        """Write a file whole or not at all; see `Sandbox.write_file`."""
        return self._wait_for(lambda: self._sandbox.write_file(path, data))

    def list_files(self, path: str, *, max_entries: int) -> tuple[list[str], bool]:
        """Return the files below a folder; see `Sandbox.list_files`."""
        return self._wait_for(lambda: self._sandbox.list_files(path, max_entries=max_entries))

    def _wait_for(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        self._require_going_on()
        return asyncio.run_coroutine_threadsafe(self._until_the_end(work), self._loop).result()

    async def _until_the_end(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        self._require_going_on()  # the call may have ended while this waited for its turn
        task = asyncio.ensure_future(work())
        self._under_way.add(task)
        try:
            return await task
        finally:
            self._under_way.discard(task)

    def _require_going_on(self) -> None:
        if self._ended:
            raise RuntimeError("this tool's call has ended, so it no longer has a sandbox")
