"""Leases and named locks as kernel locks, which end with their process."""

import os
import socket
import zlib
from collections.abc import Callable, Collection, Sequence
from functools import cache

from agent_fabric.application.ports.leases import Before
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.ids import RunId
from agent_fabric.infrastructure.persistence.runs.run_locks import SERVER, RunLocks
from agent_fabric.infrastructure.persistence.sql import Acquired, SqlConnection


@dataclass(frozen=True, slots=True)
class ProcessLeases:
    """RunLeases over the lock file of a store."""

    locks: RunLocks

    @property
    def driver(self) -> str:
        return this_process()

    def claim_server(self) -> bool:
        return self.locks.acquire(SERVER)

    def release_server(self) -> None:
        self.locks.release(SERVER)

    def is_served(self) -> bool:
        return not self.locks.is_free(SERVER)


@dataclass(frozen=True, slots=True)
class KernelLeases:
    """RunNumberLeases of one machine. The kernel frees them at once, so no epoch is needed to fence off the dead."""

    locks: RunLocks
    free: None = None
    """The database does not know."""
    abandoned: None = None
    """As above."""

    def home_of(self, run_id: RunId, created: object) -> str:  # noqa: ARG002 - all are where the file is
        return ""

    def hold_new(self, connection: SqlConnection, number: int) -> int:  # noqa: ARG002 - the file knows nothing of it
        # The run is invisible before its transaction ends, so no other process can have its lock.
        self.locks.acquire(number)
        return 0

    async def acquire(self, number: int, *, since: float | None = None) -> Acquired | None:  # noqa: ARG002 - as above
        return Acquired(0, Before.UNKNOWN) if self.locks.acquire(number) else None

    def require(self, connection: SqlConnection, number: int, epoch: int, head: bytes) -> None:
        pass  # a process that can ask this lives, and has its locks

    def require_time(self, number: int) -> None:
        pass  # as above

    def write_release(self, connection: SqlConnection, number: int, epoch: int) -> None:
        pass  # the file knows nothing of it

    def release(self, number: int, epoch: int, *, written: bool = False) -> None:  # noqa: ARG002 - as above
        self.locks.release(number)

    def is_abandoned(self, connection: SqlConnection, number: int) -> bool:  # noqa: ARG002 - as above
        return self.locks.is_free(number)

    def on_lost(self, tell: Callable[[Exception], None]) -> None:
        pass  # a lock is not lost while its process lives


@dataclass(frozen=True, slots=True)
class FileLocks:
    """NamedLocks over a lock file. Two names with the same checksum wait for each other, which is harmless."""

    locks: RunLocks

    async def acquire(self, name: str) -> bool:
        return self.locks.acquire(_number(name))

    async def release(self, name: str) -> None:
        self.locks.release(_number(name))

    async def is_held(self, name: str) -> bool:
        return not self.locks.is_free(_number(name))

    async def find_taken(self, names: Sequence[str]) -> Collection[str]:
        return [name for name in names if not self.locks.is_free(_number(name))]


def _number(name: str) -> int:
    return 1 + zlib.crc32(name.encode())


def this_process() -> str:
    """Name this process, for people."""
    return f"process {os.getpid()} on {_host()}"


@cache
def _host() -> str:
    return socket.gethostname()
